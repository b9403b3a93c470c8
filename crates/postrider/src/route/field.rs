//! The fields of an event that a template can use.

use uuid::fmt::Hyphenated;

use crate::Event;

/// A field of an event, by its name in a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TemplateField {
    Type,
    AggregateType,
    AggregateId,
    Key,
    Topic,
    Namespace,
    Producer,
    Id,
    Header(String),
}

/// Names of the fields in templates.
pub(super) const NAMES: [&str; 9] =
    ["type", "aggregate_type", "aggregate_id", "key", "topic", "namespace", "producer", "id", "header.NAME"];

/// A name is suggested only if it is at least this similar.
const SIMILARITY_MIN: f64 = 0.7;

impl TemplateField {
    /// The field of this name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "type" => Self::Type,
            "aggregate_type" => Self::AggregateType,
            "aggregate_id" => Self::AggregateId,
            "key" => Self::Key,
            "topic" => Self::Topic,
            "namespace" => Self::Namespace,
            "producer" => Self::Producer,
            "id" => Self::Id,
            _ => Self::Header(name.strip_prefix("header.").filter(|name| !name.is_empty())?.to_owned()),
        })
    }

    /// The most similar name, to suggest it.
    pub(super) fn closest(name: &str) -> Option<&'static str> {
        let rated = NAMES.map(|known| (strsim::jaro_winkler(name, known), known));
        let alike = rated.into_iter().filter(|(similarity, _)| *similarity >= SIMILARITY_MIN);
        alike.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
    }

    /// Appends the event's value to a text. `false` if the event has no value, or an empty one.
    pub(super) fn write(&self, event: &Event, text: &mut String) -> bool {
        let value = match self {
            Self::Type => Some(event.event_type.as_str()),
            Self::AggregateType => event.aggregate.as_ref().map(|aggregate| aggregate.kind.as_str()),
            Self::AggregateId => event.aggregate.as_ref().map(|aggregate| aggregate.id.as_str()),
            Self::Key => event.message_key(),
            Self::Topic => event.topic.as_deref(),
            Self::Namespace => event.namespace.as_deref(),
            Self::Producer => event.producer.as_deref(),
            Self::Id => {
                text.push_str(event.id.hyphenated().encode_lower(&mut [0; Hyphenated::LENGTH]));
                return true;
            }
            Self::Header(name) => event.headers.get(name),
        };
        let value = value.unwrap_or_default();
        text.push_str(value);
        !value.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_field_and_is_suggested_for_a_typo() {
        for name in NAMES {
            assert!(TemplateField::parse(name).is_some(), "{name}");
            assert_eq!(TemplateField::closest(&name[..name.len() - 1]), Some(name), "{name}");
        }
        assert_eq!(TemplateField::closest("aggregateid"), Some("aggregate_id"));
        assert_eq!(TemplateField::closest("qqq"), None);
    }
}
