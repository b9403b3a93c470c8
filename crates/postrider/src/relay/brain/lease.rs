//! The holder's own view of its lease, on its own monotonic clock.

use std::time::Duration;

use crate::store::Epoch;

/// A lease we hold. The deadline counts from before the request was sent, so it is never later than the
/// database's.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) epoch: Epoch,
    duration: Duration,
    deadline: Duration,
    renew_at: Duration,
    /// When the renewal under way was sent.
    renewing_since: Option<Duration>,
}

impl Lease {
    pub(super) fn granted(epoch: Epoch, duration: Duration, sent_at: Duration) -> Self {
        let mut lease = Self { epoch, duration, deadline: sent_at, renew_at: sent_at, renewing_since: None };
        lease.extend(sent_at);
        lease
    }

    fn extend(&mut self, sent_at: Duration) {
        self.deadline = sent_at + self.duration;
        self.renew_at = sent_at + self.duration / 3;
    }

    pub(super) fn is_expired(&self, now: Duration) -> bool {
        now >= self.deadline
    }

    /// Whether to send a renewal now; if so, it counts as sent.
    pub(super) fn start_renewal(&mut self, now: Duration) -> bool {
        let start = self.renewing_since.is_none() && now >= self.renew_at;
        if start {
            self.renewing_since = Some(now);
        }
        start
    }

    pub(super) fn renewed(&mut self) {
        if let Some(sent_at) = self.renewing_since.take() {
            self.extend(sent_at);
        }
    }

    /// The renewal failed and the lease may still be held; try again before the deadline.
    pub(super) fn not_renewed(&mut self, now: Duration) {
        self.renewing_since = None;
        self.renew_at = now + self.duration / 10;
    }

    pub(super) fn due(&self) -> Duration {
        if self.renewing_since.is_some() { self.deadline } else { self.renew_at.min(self.deadline) }
    }
}
