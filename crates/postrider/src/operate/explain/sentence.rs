//! Explanations as sentences.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use super::Explained;
use super::facts::{Absent, EventIdentity, OpenWriter};
use super::state::{EventState, Explanation, Hindrance};
use crate::Timestamp;

/// A length of time for people: `40 s`, `3 min`, `5 h`, `2 d`.
fn about(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// `in 40 s`, or `now` if the time has come.
fn due(now: Timestamp, at: Option<Timestamp>) -> String {
    match at.filter(|at| *at > now) {
        Some(at) => format!("in {}", about(now.until(at))),
        None => "now".to_owned(),
    }
}

/// A text of another program on one line: an error may contain control characters.
fn quoted(text: &str) -> String {
    let text = text.replace(char::is_control, " ");
    format!("\"{}\"", text.trim())
}

fn after_error(error: Option<&String>) -> String {
    error.map(|error| format!(" after error {}", quoted(error))).unwrap_or_default()
}

fn because(reason: Option<&String>) -> String {
    reason.map(|reason| format!(": {}", quoted(reason))).unwrap_or_default()
}

impl Display for Explained {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (&self.event, &self.absent) {
            (Some(event), _) => writeln!(f, "{event}")?,
            (None, Some(absent)) => writeln!(f, "{absent}")?,
            (None, None) => {}
        }
        self.subscriptions.iter().try_for_each(|of| writeln!(f, "{of}"))
    }
}

impl Display for EventIdentity {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "event {}", self.row)?;
        if let Some(id) = self.id.as_ref().filter(|id| **id != self.row) {
            write!(f, " ({id})")?;
        }
        let texts = [("type", &self.event_type), ("key", &self.key)];
        for (name, text) in texts.iter().filter_map(|(name, text)| Some((name, text.as_ref()?))) {
            write!(f, ", {name} {}", quoted(text))?;
        }
        self.time.map_or(Ok(()), |time| write!(f, ", created {time}"))
    }
}

impl Display for OpenWriter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "backend {}", self.backend)?;
        if !self.client.is_empty() {
            write!(f, " of {}", self.client)?;
        }
        if let Some(since) = self.since {
            write!(f, " since {since}")?;
        }
        self.query.as_ref().map_or(Ok(()), |query| write!(f, ", last statement: {query}"))
    }
}

impl Display for Absent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::TransactionOpen { transactions } => {
                let listed: Vec<String> = transactions.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "no committed event matches; its transaction may still be open: {}",
                    listed.join("; ")
                )
            }
            Self::RemovedByRetention { oldest } => write!(
                f,
                "there is no such event; the oldest one is of {oldest}, so it was removed by retention, or never \
                 committed"
            ),
            Self::Empty => f.write_str(
                "no event has this position and none will: its transaction was rolled back, or its row was deleted",
            ),
            Self::NotReached { last } => {
                write!(f, "no event has this position yet; the last assigned position is {last}")
            }
            Self::Unknown { searched: Some(positions) } => write!(
                f,
                "no event has this id among {positions} positions around the time in it; `postrider events list` \
                 searches by key, type and time"
            ),
            Self::Unknown { searched: None } => {
                f.write_str("there is no such event: it was never committed, or its row was deleted")
            }
            Self::NothingParked => f.write_str(
                "no parked row has this key; rows that are not read yet are not searched by key in this layout",
            ),
            Self::NothingWaits => f.write_str("no event with this key waits in any subscription"),
        }
    }
}

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.subscription)?;
        if let Some(event) = &self.event {
            write!(f, "event {} ", event.row)?;
        }
        self.state.write(f, self.now)?;
        if let Some(hindrance) = &self.hindrance {
            f.write_str("; ")?;
            return hindrance.write(f, self.now);
        }
        let Some(relay) = &self.relay else { return Ok(()) };
        write!(f, "; leased by relay {}", quoted(&relay.name))?;
        relay.seen_at.map_or(Ok(()), |seen| write!(f, ", last seen {} ago", about(seen.until(self.now))))
    }
}

impl EventState {
    fn write(&self, f: &mut Formatter<'_>, now: Timestamp) -> fmt::Result {
        let ago = |at: &Option<Timestamp>| {
            at.map(|at| format!(" {} ago", about(at.until(now)))).unwrap_or_default()
        };
        match self {
            Self::Delivered { before: Some(before) } => write!(f, "delivered before {before}"),
            Self::Delivered { before: None } => f.write_str("delivered"),
            Self::Backlog { ahead: Some(ahead) } if ahead.events == 0 => {
                f.write_str("waits to be read; it is the next event")
            }
            Self::Backlog { ahead: Some(ahead) } => {
                write!(f, "waits to be read; {ahead} unfinished events are before it")
            }
            Self::Backlog { ahead: None } => f.write_str("waits to be read"),
            Self::Behind { key, head: Some(head), head_state, head_error, .. } => write!(
                f,
                "waits behind event {head} of its key {}, which is in state {}{}",
                quoted(key.as_deref().unwrap_or_default()),
                head_state.as_deref().unwrap_or_default(),
                after_error(head_error.as_ref())
            ),
            Self::Behind { key, .. } => write!(
                f,
                "waits behind an earlier event of its key {}; the relay releases it next",
                quoted(key.as_deref().unwrap_or_default())
            ),
            Self::Retry { attempts: 0, due_at, redelivery: Some(asked), .. } => {
                write!(f, "is delivered again {} because an operator asked for a {asked}", due(now, *due_at))
            }
            Self::Retry { attempts, due_at, error, .. } => write!(
                f,
                "retry {} is due {}{}",
                attempts.saturating_add(1),
                due(now, *due_at),
                after_error(error.as_ref())
            ),
            Self::Held { destination } => write!(
                f,
                "is held because destination {} is down; no attempts are used up",
                quoted(destination.as_deref().unwrap_or("?"))
            ),
            Self::Unrouted { error: Some(error) } => write!(
                f,
                "waits for another configuration: {}; change it and restart the relay, or use `postrider parked skip`",
                quoted(error)
            ),
            Self::Unrouted { error: None } => f.write_str(
                "no routing rule matches it; add a rule and restart the relay, or use `postrider parked skip`",
            ),
            Self::Dead { attempts, since, error } => write!(
                f,
                "dead: given up{} after {attempts} attempts{}; use `postrider dead retry` or `dead discard`",
                ago(since),
                error.as_ref().map(|error| format!(", last error {}", quoted(error))).unwrap_or_default()
            ),
            Self::Expired { since } => {
                write!(f, "expired{}: its expires_at passed before it could be delivered", ago(since))
            }
            Self::Discarded { action, by, at, reason, replayed_at } => {
                match replayed_at {
                    None => f.write_str("never delivered")?,
                    Some(replayed_at) => write!(
                        f,
                        "finished before its replay of {replayed_at}, and not delivered again because of it"
                    )?,
                }
                write!(f, ": {} used `{action}` at {at}{}", quoted(by), because(reason.as_ref()))
            }
            Self::BelowStart { action, start, at, by } => write!(
                f,
                "not delivered: it is below the start of the subscription ({action} by {} at {at}, {start})",
                quoted(by)
            ),
            Self::Damaged { error } => write!(f, "its row is damaged and cannot be read: {}", quoted(error)),
            Self::BeingPublished => f.write_str("its row is marked as being published"),
            Self::Scheduled { at: Some(at), attempts } => {
                write!(f, "the table schedules its next attempt {} after {attempts} attempts", due(now, Some(*at)))
            }
            Self::Scheduled { at: None, attempts } => {
                write!(f, "is not due after {attempts} attempts: the table schedules it for later")
            }
            Self::GivenUpElsewhere { attempts } => {
                write!(f, "was given up by another program after {attempts} attempts; Postrider does not send it")
            }
            Self::NotFannedOut => f.write_str("is not fanned out to this handler yet"),
            Self::NotWanted => {
                f.write_str("this handler gets no notification of it: it is not registered for its type or its time")
            }
        }
    }
}

impl Hindrance {
    fn write(&self, f: &mut Formatter<'_>, now: Timestamp) -> fmt::Result {
        match self {
            Self::Halted { reason } => write!(
                f,
                "the subscription is halted: {}; check what is missing, then run `postrider accept-history`",
                quoted(reason)
            ),
            Self::Paused { reason, by, at } => {
                f.write_str("the subscription is paused")?;
                if let (Some(by), Some(at)) = (by, at) {
                    write!(f, " by {} since {at}", quoted(by))?;
                }
                write!(f, ": {}; to continue: `postrider resume`", quoted(reason))
            }
            Self::NoRelay { last: Some(last), ended_at: Some(ended_at) } => write!(
                f,
                "no relay is running: the lease of {} ended {} ago",
                quoted(last),
                about(ended_at.until(now))
            ),
            Self::NoRelay { .. } => f.write_str("no relay is running"),
            Self::CannotLead { relay, since, error } => write!(
                f,
                "relay {} runs and cannot lead since {since} because of error {}",
                quoted(relay),
                quoted(error)
            ),
            Self::DestinationDown { destination, since, next_probe_at, error } => write!(
                f,
                "destination {} is down since {since}{}, next probe {}",
                quoted(destination),
                format_args!(" after error {}", quoted(error)),
                due(now, Some(*next_probe_at))
            ),
        }
    }
}
