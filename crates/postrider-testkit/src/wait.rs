//! Waits for conditions that give no signal, such as the state of another process or of a server.

#[cfg(feature = "internal")]
use std::task::Poll;
use std::time::{Duration, Instant};

/// The time after which a test that waits fails.
const TIMEOUT: Duration = Duration::from_secs(180);

/// The time between two polls of a task.
const POLL_EVERY: Duration = Duration::from_millis(10);

/// The time between two polls of a thread, which may start a process each.
const POLL_BLOCKING_EVERY: Duration = Duration::from_millis(20);

/// What a poll returns.
pub trait Condition {
    /// The result of waiting.
    type Value;

    /// The result, if the condition holds.
    fn value(self) -> Option<Self::Value>;
}

impl Condition for bool {
    type Value = ();

    fn value(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Condition for Option<T> {
    type Value = T;

    fn value(self) -> Self {
        self
    }
}

/// An error ends the wait.
impl<C: Condition> Condition for postrider::Result<C> {
    type Value = postrider::Result<C::Value>;

    fn value(self) -> Option<Self::Value> {
        self.map(C::value).transpose()
    }
}

/// Polls until the condition holds.
///
/// # Panics
/// After three minutes, with `what` in the message.
pub async fn eventually<C: Condition>(what: &str, mut poll: impl AsyncFnMut() -> C) -> C::Value {
    let waiting = async {
        loop {
            if let Some(value) = poll().await.value() {
                return value;
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    };
    let waited = tokio::time::timeout(TIMEOUT, waiting).await;
    #[allow(clippy::panic, reason = "an assertion of the test that waits")]
    waited.unwrap_or_else(|_| panic!("timed out waiting until {what}"))
}

/// [`eventually`] for tests without a runtime.
///
/// # Panics
/// After three minutes, with `what` in the message.
pub fn eventually_blocking<C: Condition>(what: &str, poll: impl FnMut() -> C) -> C::Value {
    #[allow(clippy::panic, reason = "an assertion of the test that waits")]
    within(TIMEOUT, poll).unwrap_or_else(|| panic!("timed out waiting until {what}"))
}

/// Polls until the condition holds, or for this time.
#[allow(clippy::disallowed_methods, reason = "another process gives no signal")]
pub fn within<C: Condition>(limit: Duration, mut poll: impl FnMut() -> C) -> Option<C::Value> {
    let started = Instant::now();
    loop {
        let value = poll().value();
        if value.is_some() || started.elapsed() >= limit {
            return value;
        }
        std::thread::sleep(POLL_BLOCKING_EVERY);
    }
}

/// Runs a future until it has waited this often, and drops it then. `None` if it was dropped.
#[cfg(feature = "internal")]
pub async fn dropped_after<T>(waits: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut left = waits;
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}
