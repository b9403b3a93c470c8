//! The state of the demo at one time, for the views.

use std::sync::Arc;
use std::time::Duration;

use postrider::Event;

use super::time_series::TimeSeries;

/// Everything that the views show.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    pub(super) elapsed: Duration,
    /// How long the shop is open, if that is known.
    pub(super) expected: Option<Duration>,
    /// How much of the plan is done, from 0 to 1.
    pub(super) progress: f64,
    pub(super) act: Act,
    /// Where the shop keeps its data.
    pub(super) database: String,
    pub(super) writers: u64,
    pub(super) committed: usize,
    pub(super) rolled_back: u64,
    pub(super) commits: &'a TimeSeries,
    pub(super) lanes: Vec<Lane<'a>>,
    /// The event delivered last.
    pub(super) last: Option<Arc<Event>>,
}

/// The state of one subscription.
#[derive(Debug)]
pub(super) struct Lane<'a> {
    pub(super) name: &'static str,
    pub(super) target: &'a str,
    pub(super) state: State,
    pub(super) backlog: usize,
    pub(super) oldest: Option<Duration>,
    pub(super) retries: u64,
    pub(super) parked: u64,
    pub(super) deliveries: &'a TimeSeries,
}

/// The condition of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Starting,
    Flowing,
    CatchingUp,
    Down,
    Done,
}

impl State {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Flowing => "flowing",
            Self::CatchingUp => "catching up",
            Self::Down => "down",
            Self::Done => "all delivered",
        }
    }
}

/// The phase of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Open,
    Outage,
    Recovered,
    CaughtUp,
    Closed,
}

impl Act {
    /// The headline of the phase.
    pub(super) fn narration(self) -> &'static str {
        match self {
            Self::Open => "Each order is committed together with its event; a relay delivers the events.",
            Self::Outage => "analytics is down, on purpose: its backlog grows, audit is not delayed.",
            Self::Recovered => {
                "analytics is up again and catches up, with the events of each customer in order."
            }
            Self::CaughtUp => {
                "analytics has caught up: nothing lost, nothing duplicated, audit was not affected."
            }
            Self::Closed => "The shop is closed; the last events are being delivered.",
        }
    }
}
