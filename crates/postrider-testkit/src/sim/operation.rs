//! Work handed out by a brain, on its way to the database or the sink and back.

use postrider::relay::brain::{BatchId, Reply, Routed};
use postrider::sink::Outcome;
use postrider::store::{Budget, Epoch, Settlement};
use postrider::{Code, Position};

use super::seen::{Owner, ReportedOutcome};
use crate::sink::Passage;

/// Names an operation.
pub(crate) type OperationId = u64;

/// One effect under way.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) owner: Owner,
    pub(crate) work: Work,
    /// The connection it was sent on; a restored database knows it no more.
    pub(crate) connection: u64,
    /// The answer, on its way back.
    pub(crate) reply: Option<Reply>,
}

/// What is to be done.
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
    Publish(Shipment),
}

impl Work {
    /// Which reply says that it failed; `None` for what is not answered by its failure.
    pub(crate) fn failed(&self, code: Code) -> Reply {
        match self {
            Self::Acquire => Reply::Acquired(Err(code)),
            Self::Renew(_) => Reply::Renewed(Err(code)),
            Self::Claim(_) => Reply::Claimed(Err(code)),
            Self::Fetch(..) => Reply::Fetched(Err(code)),
            Self::Settle(_) => Reply::Settled(Err(code)),
            Self::Publish(shipment) => Reply::Published(shipment.batch, Vec::new()),
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

/// A batch on its way through the sink.
#[derive(Debug)]
pub(crate) struct Shipment {
    pub(crate) batch: BatchId,
    pub(crate) messages: Vec<Routed>,
    pub(crate) passage: Passage,
    pub(crate) answers: Vec<ReportedOutcome>,
    /// How many of them the relay got before the others.
    pub(crate) early: usize,
    /// The destination fell silent, and whether that was an outage.
    pub(crate) silent: Option<bool>,
    /// The relay has an answer: the sink's, or its own after the timeout.
    pub(crate) answered: bool,
}

impl Shipment {
    pub(crate) fn new(batch: BatchId, messages: Vec<Routed>) -> Self {
        let passage = Passage::default();
        Self { batch, messages, passage, answers: Vec::new(), early: 0, silent: None, answered: false }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.answers.len() == self.messages.len()
    }

    /// The answers that the relay does not have yet, by their place, and marks them as reported.
    pub(crate) fn report_early(&mut self) -> Vec<(usize, ReportedOutcome)> {
        let first = std::mem::replace(&mut self.early, self.answers.len());
        self.answers.iter().cloned().enumerate().skip(first).collect()
    }

    /// The outcomes of the batch. A sink that gets answers `one_by_one` reports which message failed last.
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
