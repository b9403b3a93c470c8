//! What a column can hold, as far as Postrider knows it.

use crate::layout::Family;

macro_rules! fields {
    ($($(#[$doc:meta])* $field:ident = $name:literal;)+) => {
        /// What a column of a table holds.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Field {
            $($(#[$doc])* $field,)+
        }

        impl Field {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$field),+];

            /// Its name in a configuration.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$field => $name,)+
                }
            }
        }
    };
}

fields! {
    /// Tells rows apart: a key of one column, a number, text or UUID. Must be given.
    Id = "id";
    /// The second column of a key of two; on PostgreSQL alone.
    SecondId = "id_2";
    /// The event's id, a UUID. Without it the row's own, if that is one; else one is made of it.
    EventId = "event_id";
    /// The event's type. Must be given, unless all have one or a header tells it.
    Type = "type";
    /// What kind of thing the event is about.
    AggregateType = "aggregate_type";
    /// Which thing.
    AggregateId = "aggregate_id";
    /// Events of one key are delivered in their order. Without it the aggregate.
    Key = "key";
    /// The payload, JSON, any text or bytes. Must be given.
    Payload = "payload";
    /// Headers, a JSON object of texts.
    Headers = "headers";
    /// Where it goes.
    Topic = "topic";
    /// When the row was made.
    CreatedAt = "created_at";
    /// A number or time by which rows stand in their order. Without it, their creation.
    Order = "order";
    /// The state of the row, in words that are given with it.
    Status = "status";
    /// When the row was delivered; NULL until then.
    DeliveredAt = "delivered_at";
    /// When the row was given up; NULL while it was not.
    GivenUpAt = "given_up_at";
    /// How many tries have failed.
    Attempts = "attempts";
    /// How many may.
    MaxAttempts = "max_attempts";
}

impl Field {
    /// The field of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|field| field.name() == name)
    }

    /// Whether a map is nothing without it. The type may come from elsewhere.
    pub(super) const fn is_required(self) -> bool {
        matches!(self, Self::Id | Self::Payload)
    }

    /// Whether a column of this type, as the database prints it, can hold it.
    pub(super) fn takes(self, sql_type: &str) -> bool {
        let family = Family::of(sql_type);
        let any = |some: &[Family]| family.is_some_and(|family| some.contains(&family));
        match self {
            Self::Id | Self::SecondId if sql_type == "xid8" => true,
            Self::Id
            | Self::SecondId
            | Self::Type
            | Self::AggregateType
            | Self::AggregateId
            | Self::Key
            | Self::Topic => any(&[Family::Number, Family::Text, Family::Uuid]),
            Self::EventId => any(&[Family::Text, Family::Uuid]),
            Self::Payload => any(&[Family::Document, Family::Text, Family::Bytes]),
            Self::Headers => any(&[Family::Document, Family::Text]),
            Self::CreatedAt | Self::DeliveredAt | Self::GivenUpAt => is_time(sql_type),
            Self::Order => is_time(sql_type) || any(&[Family::Number]),
            Self::Attempts | Self::MaxAttempts => any(&[Family::Number]),
            // Whether its words fit is asked of the database itself.
            Self::Status => true,
        }
    }

    /// Whether it is a moment.
    pub(super) const fn is_time(self) -> bool {
        matches!(self, Self::CreatedAt | Self::DeliveredAt | Self::GivenUpAt | Self::Order)
    }

    /// What can hold it, in words.
    pub(super) const fn wanted(self) -> &'static str {
        match self {
            Self::Id
            | Self::SecondId
            | Self::Type
            | Self::AggregateType
            | Self::AggregateId
            | Self::Key
            | Self::Topic => "a text, a number or a UUID",
            Self::EventId => "a UUID or a text",
            Self::Payload => "JSON, a text or bytes",
            Self::Headers => "JSON or a text",
            Self::CreatedAt | Self::DeliveredAt | Self::GivenUpAt => "a time",
            Self::Order => "a number or a time",
            Self::Attempts | Self::MaxAttempts => "a number",
            Self::Status => "anything",
        }
    }
}

/// A moment. Without a zone it is read as UTC.
pub(super) fn is_time(sql_type: &str) -> bool {
    Family::of(sql_type) == Some(Family::Time) || is_without_zone(sql_type)
}

/// PostgreSQL's time without a zone of its own.
pub(super) fn is_without_zone(sql_type: &str) -> bool {
    sql_type.starts_with("timestamp") && sql_type.ends_with("without time zone")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_own_name() {
        for field in Field::ALL {
            assert_eq!(Field::from_name(field.name()), Some(*field));
        }
        assert_eq!(Field::from_name("colour"), None);
    }

    #[test]
    fn a_column_of_the_wrong_type_is_not_taken() {
        assert!(
            Field::Id.takes("uuid") && Field::Id.takes("character varying(40)") && !Field::Id.takes("jsonb")
        );
        assert!(
            Field::CreatedAt.takes("timestamp(6) without time zone") && !Field::CreatedAt.takes("bigint")
        );
        assert!(
            Field::Order.takes("bigint") && Field::Order.takes("datetime(6)") && !Field::Order.takes("text")
        );
        assert!(
            Field::Payload.takes("text") && Field::Payload.takes("bytea") && Field::Payload.takes("longblob")
        );
        assert!(
            !Field::Payload.takes("bigint") && !Field::Headers.takes("bytea") && !Field::Id.takes("bytea")
        );
    }
}
