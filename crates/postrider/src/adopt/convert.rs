//! Converts an event for the target.

use crate::Event;
use crate::layout::{Ability, RowTable};

/// A field of an event that not every layout has a column for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OptionalField {
    /// The time after which it is not delivered any more.
    ExpiresAt,
    /// The action.
    Action,
    /// The namespace.
    Namespace,
    /// The producer.
    Producer,
    /// The headers.
    Headers,
    /// The topic.
    Topic,
    /// The limit of attempts.
    MaxAttempts,
}

impl OptionalField {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::ExpiresAt,
        Self::Action,
        Self::Namespace,
        Self::Producer,
        Self::Headers,
        Self::Topic,
        Self::MaxAttempts,
    ];

    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ExpiresAt => "expires_at",
            Self::Action => "action",
            Self::Namespace => "namespace",
            Self::Producer => "producer",
            Self::Headers => "headers",
            Self::Topic => "topic",
            Self::MaxAttempts => "max_attempts",
        }
    }

    fn remove_from(self, event: &mut Event) {
        match self {
            Self::ExpiresAt => event.expires_at = None,
            Self::Action => event.action = None,
            Self::Namespace => event.namespace = None,
            Self::Producer => event.producer = None,
            Self::Headers => event.headers = Default::default(),
            Self::Topic => event.topic = None,
            Self::MaxAttempts => event.max_attempts = None,
        }
    }
}

/// The event for the target. `parked_attempts` are attempts that its limit does not include yet.
pub(super) fn convert(
    event: &Event,
    parked_attempts: u32,
    from: Option<&RowTable>,
    leave_out: &[OptionalField],
) -> Event {
    let mut event = event.clone();
    if let Some(table) = from {
        let left = event.max_attempts.map(|limit| limit.saturating_sub(parked_attempts).max(1));
        // The target has its own default limit. Only a row's own limit, or what is left after attempts, is kept.
        let is_default = !table.layout().has(Ability::RowLimit) && left == Some(table.max_attempts);
        event.max_attempts = left.filter(|_| !is_default && table.limits_attempts());
    }
    leave_out.iter().for_each(|field| field.remove_from(&mut event));
    event
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::RowLayout;

    #[test]
    fn a_row_keeps_its_remaining_attempts_and_an_untried_row_has_no_limit() {
        let left = |layout, limit, attempts| {
            let table = RowTable::new(layout);
            convert(&Event::new("a", "{}").with_max_attempts(limit), attempts, Some(&table), &[]).max_attempts
        };
        assert_eq!(left(RowLayout::OutboxEvents, 10, 0), None);
        assert_eq!(left(RowLayout::OutboxEvents, 7, 0), Some(7), "three attempts, counted in the table");
        assert_eq!(left(RowLayout::OutboxEvents, 10, 3), Some(7), "three attempts, counted in a note");
        assert_eq!(left(RowLayout::Outbox, 10, 0), Some(10), "the row's own limit");
        assert_eq!(left(RowLayout::EventOutbox, 2, 5), Some(1));
        assert_eq!(left(RowLayout::Eventlog, 2_147_483_647, 5), None, "the layout has no limit");
    }

    #[test]
    fn only_the_named_fields_are_removed() {
        let event = Event::new("a", "{}").with_topic("t").with_header("a", "b").with_max_attempts(3);
        assert_eq!(convert(&event, 2, None, &[]), event);
        let without = convert(&event, 2, None, &[OptionalField::Topic, OptionalField::Headers]);
        assert_eq!((without.topic.is_none(), without.headers.is_empty()), (true, true));
        assert_eq!(without.max_attempts, Some(3));
    }
}
