//! Injected bugs. Each breaks one interface of the relay, so that the checker of one promise must report it.

use super::check::Promise;

/// A bug in one of the components that the relay works with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// The claimer reads `position > last` and declares every gap empty.
    ClaimPastHoles,
    /// The claimer returns rows of open transactions.
    ShowUncommitted,
    /// The sink claims to be prefix safe, but delivers later messages of a key after a failed one.
    FalsePrefix,
    /// A settle reports success and records nothing.
    ForgetSettle,
    /// The driver publishes every batch twice.
    PublishTwice,
    /// The store ignores the epoch.
    IgnoreEpoch,
    /// A settle does not record the rows to park.
    DropParked,
    /// All keys have the same number.
    OneKey,
    /// During an outage, the sink reports a failure of the message.
    BlameMessage,
    /// Some replies to claims never arrive.
    LoseReply,
    /// The claimer does not check the history.
    NoHistoryCheck,
    /// The brain gets twice the window that the operator set.
    WideWindow,
    /// The store reads more than its budget allows.
    IgnoreBudget,
    /// A settle keeps a delivered row that an operator changed meanwhile.
    KeepDelivered,
    /// A settle does not report that an operator changed parked rows.
    HideChange,
    /// A retry of a dead event is not marked as one.
    DropMark,
}

impl Bug {
    /// Every bug.
    pub const ALL: [Self; 16] = [
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
        Self::KeepDelivered,
        Self::HideChange,
        Self::DropMark,
    ];

    /// The promise that the bug breaks; the checker of this promise must report it.
    pub const fn breaks(self) -> Promise {
        match self {
            Self::ClaimPastHoles => Promise::NoLoss,
            Self::ShowUncommitted => Promise::NoPhantom,
            Self::FalsePrefix | Self::HideChange | Self::DropMark => Promise::Order,
            Self::ForgetSettle | Self::DropParked => Promise::Conservation,
            Self::PublishTwice | Self::KeepDelivered => Promise::Duplicates,
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
