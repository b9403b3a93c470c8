//! The responses of a destination: outages, poisoned events and single faults.

use std::collections::{BTreeMap, VecDeque};

use uuid::Uuid;

/// The response to one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
    /// Written and acknowledged.
    Accept,
    /// Rejected permanently: `Rejected`.
    Reject,
    /// Failed because of the message: `Failed`.
    Fail,
    /// A failure without a known cause: `Retryable`.
    Retry,
    /// `Retryable`, and the rest of the batch is not tried.
    RetryAndStop,
    /// Written, but the acknowledgement is lost: `Ambiguous`.
    AcceptUnacknowledged,
    /// Not written, and the outcome is unknown: `Ambiguous`.
    DropUnacknowledged,
    /// The destination reports that it is down: `Down`.
    Down,
    /// Not written, and never answered.
    Hang,
    /// Written, and never answered.
    AcceptAndHang,
    /// The process that publishes it dies.
    Kill,
}

/// How an outage appears to the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// The destination reports that it is down.
    Reported,
    /// Calls fail, as they do for other reasons.
    Failing,
    /// Calls are not answered.
    Silent,
    /// The destination blames the message, which breaks the contract of sinks.
    Blaming,
}

impl Outage {
    const fn response(self) -> Response {
        match self {
            Self::Reported => Response::Down,
            Self::Failing => Response::Retry,
            Self::Silent => Response::Hang,
            Self::Blaming => Response::Fail,
        }
    }
}

/// What is wrong with a poisoned event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poison {
    /// Rejected permanently at the first attempt.
    Rejected,
    /// Fails at every attempt.
    Failing,
    /// Fails at the first attempts, this many times, and is then accepted.
    FailingTimes(u32),
    /// Kills the process that publishes it.
    Deadly,
}

/// Decides the response to each message: first by the outage, then by the poison of the event, then by the next fault.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// The outage, while the destination is down.
    pub outage: Option<Outage>,
    poison: BTreeMap<Uuid, Poison>,
    faults: VecDeque<Response>,
}

impl Script {
    /// Poisons an event.
    pub fn poison(&mut self, event: Uuid, poison: Poison) {
        self.poison.insert(event, poison);
    }

    /// Queues a fault for the next message that is neither poisoned nor affected by an outage.
    pub fn fault_next(&mut self, response: Response) {
        self.faults.push_back(response);
    }

    /// Removes the queued faults.
    pub fn clear_faults(&mut self) {
        self.faults.clear();
    }

    pub(super) fn response(&mut self, event: Uuid) -> Response {
        if let Some(outage) = self.outage {
            return outage.response();
        }
        match self.poison.get_mut(&event) {
            Some(Poison::Rejected) => return Response::Reject,
            Some(Poison::Failing) => return Response::Fail,
            Some(Poison::Deadly) => return Response::Kill,
            Some(Poison::FailingTimes(left)) if *left > 0 => {
                *left -= 1;
                return Response::Fail;
            }
            Some(Poison::FailingTimes(_)) | None => {}
        }
        self.faults.pop_front().unwrap_or(Response::Accept)
    }
}
