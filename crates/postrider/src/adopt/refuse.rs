//! When an adoption is refused.

use std::time::Duration;

use super::counts::Counts;
use crate::layout::RowTable;
use crate::store::Start;
use crate::{Code, Error, Outbox, Result, Timestamp};

/// Refuses a pair of outboxes between which events cannot be moved.
pub(super) fn pair(from: Option<&RowTable>, to: &Outbox) -> Result<()> {
    let what = match (from, to.row_table()) {
        (None, Some(to)) if to.columns().is_some() => {
            format!(
                "{} is a mapped table (layout custom), and Postrider does not write to such tables",
                to.layout().name()
            )
        }
        (Some(_), None) | (None, Some(_)) => return Ok(()),
        (None, None) => "both outboxes have the layout `postrider`".to_owned(),
        (Some(from), Some(to)) => {
            let (from, to) = (from.layout().name(), to.layout().name());
            format!("events cannot be moved directly from {from} to {to}")
        }
    };
    Err(Error::new(Code::AdoptionRefused, what))
}

/// Which events are moved. Required if there are undelivered events.
pub(super) fn start(start: Option<Start>, counts: &Counts) -> Result<Start> {
    match start {
        Some(start @ (Start::Beginning | Start::Now | Start::Time(_))) => Ok(start),
        Some(Start::Position(_)) => {
            Err(Error::new(Code::AdoptionStart, "an adoption cannot start at a position"))
        }
        None if counts.undelivered() == 0 => Ok(Start::Beginning),
        None => {
            let what = format!("the table contains undelivered events, and --start was not given: {counts}");
            Err(Error::new(Code::AdoptionStart, what))
        }
    }
}

/// Whether an event that happened at this time is moved.
pub(super) fn moves(start: Start, time: Timestamp) -> bool {
    match start {
        Start::Now => false,
        Start::Time(from) => time >= from,
        Start::Beginning | Start::Position(_) => true,
    }
}

/// The error if a relay holds the lease.
pub(super) fn held(subscription: &str, holder: &str, remaining: Duration) -> Error {
    let what = format!(
        "{holder} holds the lease of subscription {subscription:?}, for at least {} more seconds",
        remaining.as_secs().max(1)
    );
    Error::new(Code::LeaseHeld, what)
}

/// The error if another process has changed rows while they were read.
pub(crate) fn rows_changed(rows: usize) -> Error {
    foreign_publisher(format!("another process changed {rows} rows while they were read"), 0)
}

/// The error if another publisher works on the rows. `copied` events were moved before.
pub(super) fn foreign_publisher(what: String, copied: u64) -> Error {
    Error::new(Code::ForeignPublisher, what)
        .with_effect(match copied {
            0 => "nothing was copied; the other publisher's rows were not touched".to_owned(),
            _ => format!("{copied} events were copied and settled here; the other events are unchanged"),
        })
        .with_hint("stop the other publisher, then run the command again: it continues where it stopped")
}

/// Refuses an outbox in which another process delivers events, or has delivered some since they were counted. All marks
/// of Postrider are removed by now.
pub(super) fn progress(before: &Counts, now: &Counts) -> Result<()> {
    if now.in_flight > 0 {
        let what = format!("{} rows are marked as PUBLISHING by another publisher", now.in_flight);
        return Err(foreign_publisher(what, 0).with_hint(
            "stop the other publisher; if it no longer runs, set its rows back to PENDING, then run the command again",
        ));
    }
    match now.delivered.checked_sub(before.delivered) {
        None | Some(0) => Ok(()),
        Some(more) => {
            Err(foreign_publisher(format!("{more} events were delivered since they were counted"), 0))
        }
    }
}
