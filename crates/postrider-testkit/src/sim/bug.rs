//! Planted bugs: each breaks a seam so that one checker must notice.

use super::check::Promise;

/// A mistake at a seam of the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// The claimer reads `position > last` and declares every gap empty.
    ClaimPastHoles,
    /// The claimer shows rows of open transactions.
    ShowUncommitted,
    /// The sink says it is prefix safe and lets the rest of a key overtake.
    FalsePrefix,
    /// Settling answers "done" and forgets.
    ForgetSettle,
    /// The shell counts nothing against the window: batches are published twice.
    PublishTwice,
    /// The store ignores the epoch.
    IgnoreEpoch,
    /// Settling drops the rows to park.
    DropParked,
    /// All keys have one number.
    OneKey,
    /// The sink blames the message for an outage.
    BlameMessage,
    /// Some answers to claims never come.
    LoseReply,
    /// The claimer does not check the history.
    NoHistoryCheck,
    /// The brain is given twice the window that the operator set.
    WideWindow,
    /// The store reads whatever is there, whatever it was allowed to.
    IgnoreBudget,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::ClaimPastHoles,
        Self::ShowUncommitted,
        Self::FalsePrefix,
        Self::ForgetSettle,
        Self::PublishTwice,
        Self::IgnoreEpoch,
        Self::DropParked,
        Self::OneKey,
        Self::BlameMessage,
        Self::LoseReply,
        Self::NoHistoryCheck,
        Self::WideWindow,
        Self::IgnoreBudget,
    ];

    /// The promise it breaks, and so the checker that must notice.
    pub const fn breaks(self) -> Promise {
        match self {
            Self::ClaimPastHoles => Promise::NoLoss,
            Self::ShowUncommitted => Promise::NoPhantom,
            Self::FalsePrefix => Promise::Order,
            Self::ForgetSettle | Self::DropParked => Promise::Conservation,
            Self::PublishTwice => Promise::Duplicates,
            Self::IgnoreEpoch => Promise::Fencing,
            Self::OneKey => Promise::Isolation,
            Self::BlameMessage => Promise::Outage,
            Self::LoseReply => Promise::Liveness,
            Self::NoHistoryCheck => Promise::History,
            Self::WideWindow => Promise::Window,
            Self::IgnoreBudget => Promise::Memory,
        }
    }
}
