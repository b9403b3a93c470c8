//! Every limit and time of the relay, with unit and reason.

use std::time::Duration;

use crate::{Code, Error, Result};

/// Limits and times of one subscription. The defaults suit most subscriptions; none of them depends on the backlog.
///
/// Start from the default; each field has a method of the same name that sets it:
///
/// ```
/// use postrider::relay::Policy;
///
/// let policy = Policy::default().max_attempts(5).window_events_max(1_000);
/// assert_eq!(policy.max_attempts, 5);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// Order of events.
    pub order: Order,
    /// What happens to later events with the key of a dead event.
    pub on_dead: OnDead,
    /// The subscription sends to several destinations: events of one that is down are parked as held, so that events of
    /// the others continue. With one destination they wait in memory. Set automatically if the routing rules name
    /// several destinations.
    pub several_destinations: bool,

    /// Events in one batch to the sink.
    pub batch_events_max: usize,
    /// Bytes of the events in one batch to the sink, all columns; a larger event is sent in its own batch.
    pub batch_bytes_max: usize,
    /// How long a partial batch waits for more events while other batches are in flight.
    pub batch_linger: Duration,
    /// Maximum batches in flight.
    pub batches_in_flight_max: usize,
    /// Timeout for one batch. After it, the batch's messages may or may not have been written.
    pub publish_timeout: Duration,

    /// Maximum events per second that go to the sink; a retry counts again. `None`: no limit. Each subscription of each
    /// relay has its own limit.
    pub events_per_second_max: Option<u64>,
    /// Maximum bytes of events per second that go to the sink, all columns. An event that is larger is sent, and the
    /// next one waits accordingly. `None`: no limit.
    pub bytes_per_second_max: Option<u64>,

    /// Maximum events in memory: read, waiting or in flight.
    pub read_ahead_events_max: usize,
    /// Maximum bytes of events in memory: all columns, and 512 bytes per event of overhead.
    pub read_ahead_bytes_max: usize,
    /// Maximum events per read from the database.
    pub claim_events_max: usize,

    /// The window W: events in flight or acknowledged but not yet settled. The limit on duplicates after a crash.
    pub window_events_max: usize,
    /// Maximum time between an acknowledgement and its settlement.
    pub flush_interval: Duration,
    /// Maximum number of acknowledgements that are not settled.
    pub flush_events: usize,

    /// Attempts before an event is dead, unless the event has its own limit. A failure that may be caused by
    /// the destination is retried once, after about `probe_min`, before it counts as an attempt. Ignored in a table with a
    /// state per row: [`RowTable::max_attempts`](crate::layout::RowTable::max_attempts) applies there.
    pub max_attempts: u32,
    /// Delay before the first retry; doubles with each failure, with jitter.
    pub backoff_min: Duration,
    /// Maximum delay between two retries.
    pub backoff_max: Duration,
    /// Shortens each delay by a random part, up to a half, so that retries do not come at the same moment.
    pub backoff_jitter: bool,
    /// Events expire while their destination is down. If not, they wait until it is up again.
    pub expire_while_down: bool,
    /// Maximum number of parked events, including dead and expired ones. At the limit no new events are read.
    pub parked_max: usize,

    /// Number of keys that must fail in a row, without any success, before a destination is considered down.
    pub breaker_keys: usize,
    /// Delay before the first probe of a destination that is down; doubles with each probe.
    pub probe_min: Duration,
    /// Maximum delay between two probes.
    pub probe_max: Duration,

    /// Lease duration: a standby takes over from a crashed relay after this time.
    pub lease: Duration,
    /// Poll interval after the outbox became empty; doubles with each empty poll.
    pub poll_min: Duration,
    /// Maximum poll interval of an idle outbox.
    pub poll_max: Duration,
    /// How long a shutdown waits for events in flight.
    pub drain_timeout: Duration,

    /// Batch size right after a relay crashed; grows again with success.
    pub trial_events: usize,
    /// Number of relay crashes with a single event in flight before that event is dead.
    pub trial_deaths_max: u32,
}

crate::setters! { Policy:
    order: Order,
    on_dead: OnDead,
    several_destinations: bool,
    batch_events_max: usize,
    batch_bytes_max: usize,
    batch_linger: Duration,
    batches_in_flight_max: usize,
    publish_timeout: Duration,
    events_per_second_max: Option<u64>,
    bytes_per_second_max: Option<u64>,
    read_ahead_events_max: usize,
    read_ahead_bytes_max: usize,
    claim_events_max: usize,
    window_events_max: usize,
    flush_interval: Duration,
    flush_events: usize,
    max_attempts: u32,
    backoff_min: Duration,
    backoff_max: Duration,
    backoff_jitter: bool,
    expire_while_down: bool,
    parked_max: usize,
    breaker_keys: usize,
    probe_min: Duration,
    probe_max: Duration,
    lease: Duration,
    poll_min: Duration,
    poll_max: Duration,
    drain_timeout: Duration,
    trial_events: usize,
    trial_deaths_max: u32,
}

/// The order in which events are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Order {
    /// Events with the same key in order; different keys do not wait for each other.
    #[default]
    Key,
    /// No order; no event waits for another.
    None,
}

/// What happens to later events with the key of a dead event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnDead {
    /// They are delivered.
    #[default]
    Proceed,
    /// They wait until an operator acts.
    Block,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            order: Order::Key,
            on_dead: OnDead::Proceed,
            several_destinations: false,
            batch_events_max: 1_000,
            batch_bytes_max: 4 * 1024 * 1024,
            batch_linger: Duration::from_millis(5),
            batches_in_flight_max: 4,
            publish_timeout: Duration::from_secs(30),
            events_per_second_max: None,
            bytes_per_second_max: None,
            read_ahead_events_max: 8_192,
            read_ahead_bytes_max: 16 * 1024 * 1024,
            claim_events_max: 2_000,
            window_events_max: 8_192,
            flush_interval: Duration::from_millis(50),
            flush_events: 4_096,
            max_attempts: 10,
            backoff_min: Duration::from_secs(1),
            backoff_max: Duration::from_secs(300),
            backoff_jitter: true,
            expire_while_down: true,
            parked_max: 100_000,
            breaker_keys: 5,
            probe_min: Duration::from_secs(1),
            probe_max: Duration::from_secs(30),
            lease: Duration::from_secs(15),
            poll_min: Duration::from_millis(10),
            poll_max: Duration::from_millis(500),
            drain_timeout: Duration::from_secs(30),
            trial_events: 8,
            trial_deaths_max: 3,
        }
    }
}

impl Policy {
    /// The default for outboxes of layout `eventlog`: batches of 100, a poll every second, retries after 30 seconds,
    /// doubled up to five minutes. The limit of attempts is
    /// [`RowTable::max_attempts`](crate::layout::RowTable::max_attempts), unlimited by default.
    pub fn for_notifications() -> Self {
        Self {
            claim_events_max: 100,
            batch_events_max: 100,
            poll_max: Duration::from_secs(1),
            backoff_min: Duration::from_secs(30),
            backoff_max: Duration::from_secs(300),
            backoff_jitter: false,
            expire_while_down: false,
            ..Self::default()
        }
    }

    /// Whether there is a limit of events or bytes per second.
    pub(crate) fn is_paced(&self) -> bool {
        self.events_per_second_max.is_some() || self.bytes_per_second_max.is_some()
    }

    /// Checks the settings. [`RelayBuilder::spawn`](super::RelayBuilder::spawn) does this too.
    ///
    /// # Errors
    /// [`Code::PolicyInvalid`] with the first setting that is out of range.
    pub fn check(&self) -> Result<()> {
        let positive = [
            ("batch_events_max", self.batch_events_max),
            ("batch_bytes_max", self.batch_bytes_max),
            ("batches_in_flight_max", self.batches_in_flight_max),
            ("read_ahead_events_max", self.read_ahead_events_max),
            ("read_ahead_bytes_max", self.read_ahead_bytes_max),
            ("claim_events_max", self.claim_events_max),
            ("window_events_max", self.window_events_max),
            ("flush_events", self.flush_events),
            ("max_attempts", self.max_attempts as usize),
            ("parked_max", self.parked_max),
            ("trial_events", self.trial_events),
            ("trial_deaths_max", self.trial_deaths_max as usize),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(Error::new(Code::PolicyInvalid, format!("{name} is 0")).with_hint("use at least 1"));
        }
        if self.events_per_second_max == Some(0) || self.bytes_per_second_max == Some(0) {
            return Err(Error::new(Code::PolicyInvalid, "a limit of events or bytes per second is 0")
                .with_hint("use at least 1, or pause the subscription"));
        }
        if self.breaker_keys < 2 {
            return Err(Error::new(Code::PolicyInvalid, "breaker_keys is below 2")
                .with_hint("use at least 2: with one failing key, a bad message and a destination that is down look the same"));
        }
        let ranges = [
            ("backoff_min", self.backoff_min, "backoff_max", self.backoff_max),
            ("probe_min", self.probe_min, "probe_max", self.probe_max),
            ("poll_min", self.poll_min, "poll_max", self.poll_max),
        ];
        for (low_name, low, high_name, high) in ranges {
            if low.is_zero() || low > high {
                let what = format!("{low_name} is {low:?} and {high_name} is {high:?}");
                return Err(Error::new(Code::PolicyInvalid, what).with_hint("0 < minimum <= maximum"));
            }
        }
        if self.lease < Duration::from_millis(100) {
            return Err(Error::new(Code::PolicyInvalid, format!("lease is {:?}", self.lease))
                .with_hint("use at least 100 ms; 15 s is a good value"));
        }
        Ok(())
    }
}
