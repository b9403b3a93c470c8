//! What an event is in the other outbox.

use crate::Event;
use crate::layout::{Ability, RowTable};

/// A part of an event that not every layout has a column for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// When it is not worth delivering any more.
    ExpiresAt,
    /// The action it came from.
    Action,
    /// The service.
    Namespace,
    /// The machine or process.
    Producer,
    /// Its headers.
    Headers,
    /// Its topic.
    Topic,
    /// Its own limit of tries.
    MaxAttempts,
}

impl Field {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::ExpiresAt,
        Self::Action,
        Self::Namespace,
        Self::Producer,
        Self::Headers,
        Self::Topic,
        Self::MaxAttempts,
    ];

    /// Its name, as messages have it.
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

/// The event as the other outbox gets it. `parked_attempts` are tries that its limit does not know of yet.
pub(super) fn carried(
    event: &Event,
    parked_attempts: u32,
    from: Option<&RowTable>,
    leave_out: &[Field],
) -> Event {
    let mut event = event.clone();
    if let Some(table) = from {
        let left = event.max_attempts.map(|most| most.saturating_sub(parked_attempts).max(1));
        // The limit of an outbox is the next reader's to choose; a row's own is kept, and so is what a tried row has
        // left.
        let is_outboxes = !table.layout().has(Ability::RowLimit) && left == Some(table.max_attempts);
        event.max_attempts = left.filter(|_| !is_outboxes);
    }
    leave_out.iter().for_each(|field| field.remove_from(&mut event));
    event
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::RowLayout;

    #[test]
    fn a_tried_row_carries_what_it_has_left_and_an_untried_one_no_limit() {
        let left = |layout, most, tried| {
            let table = RowTable::new(layout).unwrap();
            carried(&Event::new("a", "{}").with_max_attempts(most), tried, Some(&table), &[]).max_attempts
        };
        assert_eq!(left(RowLayout::OutboxEvents, 10, 0), None);
        assert_eq!(left(RowLayout::OutboxEvents, 7, 0), Some(7), "three tries, as the table tells them");
        assert_eq!(left(RowLayout::OutboxEvents, 10, 3), Some(7), "three tries, as a note tells them");
        assert_eq!(left(RowLayout::Outbox, 10, 0), Some(10), "the row's own");
        assert_eq!(left(RowLayout::EventOutbox, 2, 5), Some(1));
    }

    #[test]
    fn only_what_is_named_is_left_out() {
        let event = Event::new("a", "{}").with_topic("t").with_header("a", "b").with_max_attempts(3);
        assert_eq!(carried(&event, 2, None, &[]), event);
        let without = carried(&event, 2, None, &[Field::Topic, Field::Headers]);
        assert_eq!((without.topic.is_none(), without.headers.is_empty()), (true, true));
        assert_eq!(without.max_attempts, Some(3));
    }
}
