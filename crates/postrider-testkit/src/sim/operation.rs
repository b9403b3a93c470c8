//! The calls of a brain, from the relay to the database or the sink and back.

use postrider::relay::brain::{BatchId, Reply, Routed};
use postrider::sink::Outcome;
use postrider::store::{Budget, Epoch, Settlement};
use postrider::{Code, Position};

use super::observation::{Owner, ReportedOutcome};
use crate::sink::BatchState;

/// Identifies an operation.
pub(crate) type OperationId = u64;

/// One call in progress.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) owner: Owner,
    pub(crate) work: Work,
    /// The connection that the call uses. A restore closes all connections.
    pub(crate) connection: u64,
    /// The reply, once the call was executed.
    pub(crate) reply: Option<Reply>,
}

/// What the call does.
#[derive(Debug)]
pub(crate) enum Work {
    Acquire,
    Renew(Epoch),
    Release { epoch: Epoch, clean: bool },
    Claim(Budget),
    Fetch(Vec<Position>, usize),
    Settle(Settlement),
    Halt(Epoch, String),
    Pause(Epoch, String),
    Publish(PublishCall),
}

impl Work {
    /// The reply for a failure of the call.
    pub(crate) fn failed(&self, code: Code) -> Reply {
        match self {
            Self::Acquire => Reply::Acquired(Err(code)),
            Self::Renew(_) => Reply::Renewed(Err(code)),
            Self::Claim(_) => Reply::Claimed(Err(code)),
            Self::Fetch(..) => Reply::Fetched(Err(code)),
            Self::Settle(_) => Reply::Settled(Err(code)),
            Self::Publish(call) => Reply::Published(call.batch, Vec::new()),
            Self::Release { .. } | Self::Halt(..) => Reply::Released,
            Self::Pause(..) => Reply::Paused,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Renew(_) => "renew",
            Self::Release { .. } => "release",
            Self::Claim(_) => "claim",
            Self::Fetch(..) => "fetch",
            Self::Settle(_) => "settle",
            Self::Halt(..) => "halt",
            Self::Pause(..) => "pause",
            Self::Publish(_) => "publish",
        }
    }
}

/// The state of one publish call.
#[derive(Debug)]
pub(crate) struct PublishCall {
    pub(crate) batch: BatchId,
    pub(crate) messages: Vec<Routed>,
    pub(crate) state: BatchState,
    pub(crate) answers: Vec<ReportedOutcome>,
    /// The number of answers that the relay received before the call ended.
    pub(crate) early: usize,
    /// Set if the destination no longer answers: whether that is because of an outage.
    pub(crate) silent: Option<bool>,
    /// The relay has all outcomes: from the sink, or because of its own timeout.
    pub(crate) answered: bool,
}

impl PublishCall {
    pub(crate) fn new(batch: BatchId, messages: Vec<Routed>) -> Self {
        let state = BatchState::default();
        Self { batch, messages, state, answers: Vec::new(), early: 0, silent: None, answered: false }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.answers.len() == self.messages.len()
    }

    /// The answers that the relay has not received yet, by their index. Marks them as reported.
    pub(crate) fn report_early(&mut self) -> Vec<(usize, ReportedOutcome)> {
        let first = std::mem::replace(&mut self.early, self.answers.len());
        self.answers.iter().cloned().enumerate().skip(first).collect()
    }

    /// The outcomes of the batch. A sink that receives answers `one_by_one` knows which messages failed after the last
    /// acknowledged one, and reports that.
    pub(crate) fn outcomes(&self, one_by_one: bool) -> Vec<Outcome> {
        let mut outcomes: Vec<Outcome> = self.answers.iter().map(|answer| answer.outcome.clone()).collect();
        if one_by_one {
            let last = outcomes.iter_mut().rev().take_while(|o| !matches!(o, Outcome::Acknowledged(_)));
            for outcome in last {
                if let Outcome::Retryable(failure) | Outcome::Ambiguous(failure) = outcome {
                    failure.after_last_acknowledgement = true;
                }
            }
        }
        outcomes
    }
}
