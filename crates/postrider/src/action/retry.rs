//! When an action runs again.

use std::time::Duration;

use crate::{Code, Error};

/// Why a transaction was rolled back, as far as running the action again may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RetryOn {
    /// Another transaction changed a staged row first.
    Stale,
    /// A deadlock, a serialization failure, or a lock that was not released in time.
    Busy,
}

impl RetryOn {
    /// The kind of an error; `None` if the action must not run again because of it.
    pub(super) fn of(error: &Error) -> Option<Self> {
        match error.code() {
            Code::ActionStale => Some(Self::Stale),
            Code::StoreBusy => Some(Self::Busy),
            _ => None,
        }
    }
}

/// How often an action runs again, and how long the executor waits before each try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    times: u32,
    delay: Duration,
}

impl Default for Retry {
    /// Once, after 100 ms.
    fn default() -> Self {
        Self { times: 1, delay: Duration::from_millis(100) }
    }
}

impl Retry {
    /// Never.
    pub const NEVER: Self = Self { times: 0, delay: Duration::ZERO };

    /// This number of times, after 100 ms each.
    pub fn times(times: u32) -> Self {
        Self { times, ..Self::default() }
    }

    /// Sets the time to wait before each try.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

/// The policy for each kind.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RetryPolicy {
    pub(super) stale: Retry,
    pub(super) busy: Retry,
}

impl RetryPolicy {
    pub(super) fn set(&mut self, kind: RetryOn, retry: Retry) {
        match kind {
            RetryOn::Stale => self.stale = retry,
            RetryOn::Busy => self.busy = retry,
        }
    }
}

/// The retries of one execution.
#[derive(Debug, Default)]
pub(super) struct Retries {
    stale: u32,
    busy: u32,
}

impl Retries {
    /// Why the action runs again, and how long to wait before that; `None` if it does not.
    pub(super) fn next(&mut self, policy: &RetryPolicy, error: &Error) -> Option<(RetryOn, Duration)> {
        let on = RetryOn::of(error)?;
        let (used, retry) = match on {
            RetryOn::Stale => (&mut self.stale, policy.stale),
            RetryOn::Busy => (&mut self.busy, policy.busy),
        };
        let again = *used < retry.times;
        *used = used.saturating_add(1);
        again.then_some((on, retry.delay))
    }
}
