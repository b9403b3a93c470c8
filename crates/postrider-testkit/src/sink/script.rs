//! What is to happen to messages: outages, poison and single mishaps.

use std::collections::{BTreeMap, VecDeque};

use uuid::Uuid;

/// What happens to one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Written and acknowledged.
    Take,
    /// Never acceptable: `Rejected`.
    Reject,
    /// Not this time, and it is the message's fault: `Failed`.
    Fail,
    /// A failure without a known cause: `Retryable`.
    Retry,
    /// `Retryable`, and the rest of the batch is not tried.
    Stop,
    /// Written, but the acknowledgement is lost: `Ambiguous`.
    TakeSilently,
    /// Not written, and the outcome is unknown: `Ambiguous`.
    DropSilently,
    /// The destination says that it is down: `Down`.
    Down,
    /// No answer, ever. Not written.
    Hang,
    /// Written, and then no answer, ever.
    TakeAndHang,
    /// The process that publishes it dies.
    Kill,
}

/// How a destination is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// It says so.
    Said,
    /// Calls fail as they might for any other reason.
    Failing,
    /// Calls are not answered.
    Silent,
    /// It is down and blames the message: a sink that breaks its contract.
    Blaming,
}

impl Outage {
    const fn fate(self) -> Fate {
        match self {
            Self::Said => Fate::Down,
            Self::Failing => Fate::Retry,
            Self::Silent => Fate::Hang,
            Self::Blaming => Fate::Fail,
        }
    }
}

/// What is wrong with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poison {
    /// Rejected permanently, at once.
    Rejected,
    /// Fails whenever it is tried.
    Failing,
    /// Fails this many times, then passes.
    FailingTimes(u32),
    /// Kills the process that publishes it.
    Deadly,
}

/// Decides the fate of messages: an outage first, then the message's own poison, then the next mishap.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// The destination is down.
    pub outage: Option<Outage>,
    poison: BTreeMap<Uuid, Poison>,
    mishaps: VecDeque<Fate>,
}

impl Script {
    /// From now on something is wrong with this event.
    pub fn poison(&mut self, event: Uuid, poison: Poison) {
        self.poison.insert(event, poison);
    }

    /// Happens to the next message that has no other fate, after the mishaps already waiting.
    pub fn mishap(&mut self, fate: Fate) {
        self.mishaps.push_back(fate);
    }

    /// Drops the mishaps that have not happened.
    pub fn clear_mishaps(&mut self) {
        self.mishaps.clear();
    }

    pub(super) fn fate(&mut self, event: Uuid) -> Fate {
        if let Some(outage) = self.outage {
            return outage.fate();
        }
        match self.poison.get_mut(&event) {
            Some(Poison::Rejected) => return Fate::Reject,
            Some(Poison::Failing) => return Fate::Fail,
            Some(Poison::Deadly) => return Fate::Kill,
            Some(Poison::FailingTimes(left)) if *left > 0 => {
                *left -= 1;
                return Fate::Fail;
            }
            Some(Poison::FailingTimes(_)) | None => {}
        }
        self.mishaps.pop_front().unwrap_or(Fate::Take)
    }
}
