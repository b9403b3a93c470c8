//! The fields of a row that a column map can name.

use crate::layout::Family;

macro_rules! fields {
    ($($(#[$doc:meta])* $field:ident = $name:literal;)+) => {
        /// What a column of a user-defined table contains.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum MappedField {
            $($(#[$doc])* $field,)+
        }

        impl MappedField {
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
    /// The unique key of the row: a number, text or UUID. Required.
    Id = "id";
    /// The second column of the key, if it has two. PostgreSQL only.
    SecondId = "id_2";
    /// The event's id, a UUID. Default: the row's id if it is a UUID, otherwise a UUID that is derived from it.
    EventId = "event_id";
    /// The event's type. Required, unless all events have the same type or a header contains it.
    Type = "type";
    /// The type of the event's aggregate.
    AggregateType = "aggregate_type";
    /// The id of the event's aggregate.
    AggregateId = "aggregate_id";
    /// The key: events with the same key are delivered in their order. Default: the aggregate.
    Key = "key";
    /// The payload: JSON, any text, or bytes. Required.
    Payload = "payload";
    /// The headers: a JSON object of texts.
    Headers = "headers";
    /// The topic.
    Topic = "topic";
    /// When the row was created.
    CreatedAt = "created_at";
    /// The order of rows: a number or a time. Default: their creation time.
    Order = "order";
    /// The state of the row; its values are given by [`States`](super::States).
    Status = "status";
    /// When the row was delivered; NULL until then.
    DeliveredAt = "delivered_at";
    /// When the row was given up; NULL until then.
    GivenUpAt = "given_up_at";
    /// The number of failed attempts.
    Attempts = "attempts";
    /// The number of attempts after which the row is given up.
    MaxAttempts = "max_attempts";
}

impl MappedField {
    /// The field with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|field| field.name() == name)
    }

    /// Whether every map needs it. The type is not in this list: it may come from another source.
    pub(super) const fn is_required(self) -> bool {
        matches!(self, Self::Id | Self::Payload)
    }

    /// Whether a column of this type, as the database prints it, can contain it.
    pub(super) fn accepts(self, sql_type: &str) -> bool {
        let family = Family::of(sql_type);
        match self {
            // The database itself checks whether the values fit.
            Self::Status => true,
            Self::Id | Self::SecondId if sql_type == "xid8" => true,
            _ if self.is_time() && is_time(sql_type) => true,
            _ => family.is_some_and(|family| self.families().0.contains(&family)),
        }
    }

    /// The accepted types, for a message.
    pub(super) const fn accepted_types(self) -> &'static str {
        self.families().1
    }

    /// The accepted types other than times, and all accepted types in words.
    const fn families(self) -> (&'static [Family], &'static str) {
        use Family::{Bytes, Document, Number, Text, Uuid};
        match self {
            Self::Id
            | Self::SecondId
            | Self::Type
            | Self::AggregateType
            | Self::AggregateId
            | Self::Key
            | Self::Topic => (&[Number, Text, Uuid], "a text, a number or a UUID"),
            Self::EventId => (&[Text, Uuid], "a UUID or a text"),
            Self::Payload => (&[Document, Text, Bytes], "JSON, a text or bytes"),
            Self::Headers => (&[Document, Text], "JSON or a text"),
            Self::CreatedAt | Self::DeliveredAt | Self::GivenUpAt => (&[], "a time"),
            Self::Order => (&[Number], "a number or a time"),
            Self::Attempts | Self::MaxAttempts => (&[Number], "a number"),
            Self::Status => (&[], "anything"),
        }
    }

    /// Whether it is, or may be, a time.
    pub(super) const fn is_time(self) -> bool {
        matches!(self, Self::CreatedAt | Self::DeliveredAt | Self::GivenUpAt | Self::Order)
    }
}

/// Whether the type is a time. A time without a time zone is read as UTC.
pub(super) fn is_time(sql_type: &str) -> bool {
    Family::of(sql_type) == Some(Family::Time) || is_without_zone(sql_type)
}

/// Whether the type is PostgreSQL's time without a time zone.
pub(super) fn is_without_zone(sql_type: &str) -> bool {
    sql_type.starts_with("timestamp") && sql_type.ends_with("without time zone")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_unique_name() {
        for field in MappedField::ALL {
            assert_eq!(MappedField::from_name(field.name()), Some(*field));
        }
        assert_eq!(MappedField::from_name("colour"), None);
    }

    #[test]
    fn a_column_of_the_wrong_type_is_not_accepted() {
        assert!(
            MappedField::Id.accepts("uuid")
                && MappedField::Id.accepts("character varying(40)")
                && !MappedField::Id.accepts("jsonb")
        );
        assert!(
            MappedField::CreatedAt.accepts("timestamp(6) without time zone")
                && !MappedField::CreatedAt.accepts("bigint")
        );
        assert!(
            MappedField::Order.accepts("bigint")
                && MappedField::Order.accepts("datetime(6)")
                && !MappedField::Order.accepts("text")
        );
        assert!(
            MappedField::Payload.accepts("text")
                && MappedField::Payload.accepts("bytea")
                && MappedField::Payload.accepts("longblob")
        );
        assert!(
            !MappedField::Payload.accepts("bigint")
                && !MappedField::Headers.accepts("bytea")
                && !MappedField::Id.accepts("bytea")
        );
    }
}
