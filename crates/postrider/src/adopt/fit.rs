//! Events that do not fit the target, collected before anything is changed.

use std::fmt;

use super::convert::OptionalField;
use crate::{Code, Error, Event, Outbox};

/// The most reasons in a message. Further reasons are only counted.
const REASONS_MAX: usize = 8;

/// The most ids per reason in a message.
const IDS_MAX: usize = 3;

/// The events that did not fit so far.
#[derive(Debug, Default)]
pub(super) struct Unfit {
    events: u64,
    reasons: Vec<Reason>,
}

#[derive(Debug)]
struct Reason {
    why: String,
    events: u64,
    first: Vec<String>,
}

impl Unfit {
    /// Checks an event.
    pub(super) fn check(&mut self, to: &Outbox, event: &Event) {
        if let Err(error) = to.check(event, "it") {
            self.add(error.message(), &event.id.to_string());
        }
    }

    /// Adds an event that cannot be moved.
    pub(super) fn add(&mut self, why: &str, id: &str) {
        self.events += 1;
        let known = self.reasons.iter().position(|reason| reason.why == why);
        let index = match known {
            Some(index) => index,
            None if self.reasons.len() < REASONS_MAX => {
                self.reasons.push(Reason { why: why.to_owned(), events: 0, first: Vec::new() });
                self.reasons.len() - 1
            }
            None => return,
        };
        let reason = &mut self.reasons[index];
        reason.events += 1;
        if reason.first.len() < IDS_MAX {
            reason.first.push(id.to_owned());
        }
    }

    /// The error, if an event did not fit.
    pub(super) fn refusal(&self, checked: u64) -> Option<Error> {
        if self.events == 0 {
            return None;
        }
        let error = Error::new(
            Code::EventsUnfit,
            format!("{} of {checked} events cannot be copied: {self}", self.events),
        );
        let removable: Vec<&str> = OptionalField::ALL
            .iter()
            .copied()
            .map(OptionalField::name)
            .filter(|name| self.is_without_column(name))
            .collect();
        Some(match removable.is_empty() {
            true => error,
            false => error.with_hint(format!(
                "to move the events without it, pass --leave-out {}",
                removable.join(",")
            )),
        })
    }

    fn is_without_column(&self, field: &str) -> bool {
        let end = format!("there is no column for its {field}");
        self.reasons.iter().any(|reason| reason.why.ends_with(&end))
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Reason { why, events, first }) in self.reasons.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{events} times {why} (first: {})", first.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{RowLayout, RowTable};

    #[test]
    fn reasons_are_counted_with_their_first_ids() {
        let to = Outbox::anonymous().table(RowTable::new(RowLayout::OutboxEvents));
        let mut unfit = Unfit::default();
        let order = || Event::new("order.placed", "{}").with_aggregate("Order", "7");
        unfit.check(&to, &order());
        assert!(unfit.refusal(1).is_none());
        let ids: Vec<String> = (0..5)
            .map(|_| {
                let event = order().with_topic("orders");
                unfit.check(&to, &event);
                event.id.to_string()
            })
            .collect();
        unfit.check(&to, &Event::new("a", "{}"));
        let reported = unfit.refusal(7).unwrap().report();
        assert!(reported.contains("6 of 7 events"), "{reported}");
        assert!(reported.contains("5 times it does not fit layout outbox_events"), "{reported}");
        assert!(reported.contains(&ids[..3].join(", ")) && !reported.contains(&ids[3]), "{reported}");
        assert!(reported.contains("--leave-out topic"), "{reported}");
    }
}
