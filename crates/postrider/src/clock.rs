//! Time: when something happened ([`Timestamp`]) and how long until something is due ([`Clock`]).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point in time in UTC, in microseconds since 1970, as the database and messages contain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The time of the operating system's clock.
    pub fn now() -> Self {
        SystemClock::new().now().wall
    }

    /// From microseconds since 1970-01-01T00:00:00Z.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This time minus a duration; saturates at the minimum.
    #[cfg(feature = "_store")]
    pub(crate) fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(micros(duration)))
    }

    /// This time plus a duration; saturates at the maximum.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// The duration from this time until `later`; zero if `later` is not later.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_micros(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }

    /// Whether every database and RFC 3339 can hold it: the years 1 to 9999.
    pub(crate) fn is_storable(self) -> bool {
        const YEAR_ONE_MICROS: i64 = -62_135_596_800_000_000;
        self.0 >= YEAR_ONE_MICROS && jiff::Timestamp::from_microsecond(self.0).is_ok()
    }
}

/// A length of time in its largest unit that needs no fraction, such as `90s` or `2d`; in milliseconds if no unit fits.
#[doc(hidden)]
pub fn duration_text(duration: Duration) -> String {
    const UNITS: [(&str, u128); 4] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    let millis = duration.as_millis();
    let unit = UNITS.into_iter().find(|(_, unit)| millis > 0 && millis.is_multiple_of(*unit));
    let (name, unit) = unit.unwrap_or(("ms", 1));
    format!("{}{name}", millis / unit)
}

/// A length of time in microseconds, as the databases add it.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Self(micros(since)),
            Err(before) => Self(-micros(before.duration())),
        }
    }
}

/// As RFC 3339.
impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 with microseconds, always UTC: `2026-11-15T21:35:00.000000Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(time) => write!(f, "{time:.6}"),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl From<Timestamp> for SystemTime {
    /// The limits of `SystemTime` are those of the operating system; on common ones it can hold every timestamp.
    fn from(time: Timestamp) -> Self {
        let distance = Duration::from_micros(time.0.unsigned_abs());
        let moved =
            if time.0 < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
        moved.unwrap_or(UNIX_EPOCH)
    }
}

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    /// Reads RFC 3339 with any offset: `2026-11-15T21:35:00Z`, `2026-11-15T22:35:00.5+01:00`.
    fn from_str(text: &str) -> Result<Self, ParseTimestampError> {
        let time = text.parse::<jiff::Timestamp>().map_err(|e| ParseTimestampError(e.to_string()))?;
        Ok(Self(time.as_microsecond()))
    }
}

/// A text that is not a time in RFC 3339.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseTimestampError(String);

impl fmt::Display for ParseTimestampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseTimestampError {}

/// One reading of both clocks. The relay's brain receives these; it never reads the time itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Monotonic time since an arbitrary start. Leases and timers use it.
    pub elapsed: Duration,
    /// Wall-clock time; may jump forwards and backwards. The expiry of events uses it.
    pub wall: Timestamp,
}

/// A source of time. [`SystemClock`] is the only place in the library that reads the clocks of the operating system.
pub trait Clock: Send + Sync + 'static {
    /// Reads both clocks.
    fn now(&self) -> Now;

    /// Waits until [`Now::elapsed`] has reached this value. The relay waits with it for polls, retries, renewals and
    /// cleanups, and an executor for its retries, so a clock that a test moves also moves these. Timeouts of calls to databases and sinks, and of handlers,
    /// are real time.
    #[cfg(any(feature = "relay", feature = "actions"))]
    fn sleep_until(&self, elapsed: Duration) -> crate::BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(elapsed.saturating_sub(self.now().elapsed)))
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Now {
        (**self).now()
    }

    #[cfg(any(feature = "relay", feature = "actions"))]
    fn sleep_until(&self, elapsed: Duration) -> crate::BoxFuture<'static, ()> {
        (**self).sleep_until(elapsed)
    }
}

/// The clocks of the operating system.
#[derive(Debug, Clone)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose `elapsed` starts at zero now.
    #[allow(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the clock")]
    fn now(&self) -> Now {
        Now { elapsed: self.started.elapsed(), wall: SystemTime::now().into() }
    }
}

/// A clock that only a unit test moves. The one of the testkit belongs to another build of this crate.
#[cfg(all(test, feature = "relay"))]
#[derive(Clone, Default)]
pub(crate) struct TestClock(Arc<std::sync::Mutex<Duration>>);

#[cfg(all(test, feature = "relay"))]
impl TestClock {
    pub(crate) fn advance(&self, by: Duration) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += by;
    }
}

#[cfg(all(test, feature = "relay"))]
impl Clock for TestClock {
    fn now(&self) -> Now {
        let elapsed = *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Now { elapsed, wall: Timestamp::from_micros(1_000_000_000).after(elapsed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_reads_back_what_it_prints() {
        for micros in [0, 1, 1_763_242_500_123_456, -1] {
            let time = Timestamp::from_micros(micros);
            assert_eq!(time.to_string().parse::<Timestamp>(), Ok(time));
        }
        assert_eq!(Timestamp::from_micros(1).to_string(), "1970-01-01T00:00:00.000001Z");
    }

    #[test]
    fn a_timestamp_becomes_a_system_time_and_back() {
        for micros in [0, 1, -1, 1_763_242_500_123_456, -62_135_596_800_000_000] {
            let time = Timestamp::from_micros(micros);
            assert_eq!(Timestamp::from(SystemTime::from(time)), time);
        }
    }

    #[test]
    fn a_text_that_is_no_time_is_an_error_that_can_be_passed_on() {
        let error: Box<dyn std::error::Error> = "yesterday".parse::<Timestamp>().unwrap_err().into();
        assert!(!error.to_string().is_empty());
    }

    #[test]
    fn the_duration_until_an_earlier_time_is_zero() {
        let time = Timestamp::from_micros(5);
        assert_eq!(time.until(Timestamp::from_micros(3)), Duration::ZERO);
        assert_eq!(time.until(time.after(Duration::from_secs(2))), Duration::from_secs(2));
    }
}
