//! What every [`Sink`] must support. Implement [`SinkUnderTest`] for a sink, then
//!
//! ```ignore
//! mod my_sink {
//!     postrider_testkit::sink_conformance!(super::MySinkUnderTest);
//! }
//! ```
//!
//! generates one test per case.

pub mod cases;
mod hot_keys;
mod messages;

pub use hot_keys::{HotKeys, Progress};
pub use messages::{batch, letters, message, message_with};

use std::sync::Arc;

use bytes::Bytes;
use postrider::sink::Sink;
use postrider::{BoxFuture, Headers};

/// A sink with its destination.
pub trait SinkUnderTest: Send + Sync + Sized + 'static {
    /// A sink with a new, empty destination.
    fn fresh() -> impl Future<Output = Self> + Send;

    /// The sink.
    fn sink(&self) -> Arc<dyn Sink>;

    /// The messages that an independent reader sees at the destination, in its order.
    fn seen(&self) -> BoxFuture<'_, Hook<Vec<Seen>>>;

    /// What happens to an event that is published twice.
    fn twice(&self) -> Twice {
        Twice::SeenTwice
    }

    /// A body that the destination refuses, although it accepts others.
    fn refused_body(&self) -> Hook<Bytes> {
        Hook::NotSupported
    }

    /// Stops the destination (`true`), or starts it again with its data (`false`).
    fn outage(&self, _down: bool) -> BoxFuture<'_, Hook<()>> {
        Box::pin(std::future::ready(Hook::NotSupported))
    }

    /// The size of the large body that must arrive complete.
    fn large_body_bytes(&self) -> usize {
        1024 * 1024
    }
}

/// An operation that not every destination supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook<T> {
    /// The operation.
    Done(T),
    /// The cases that need it are skipped.
    NotSupported,
}

/// A message as the reader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its body.
    pub body: Bytes,
    /// Its headers; `None` if the destination has none.
    pub headers: Option<Headers>,
}

impl Seen {
    /// The lines of a text, each as a message without headers. The last line may have no line break.
    pub fn lines(text: &[u8]) -> Vec<Self> {
        let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
        if lines.last().is_some_and(|last| last.is_empty()) {
            lines.pop();
        }
        lines.into_iter().map(|line| Self { body: Bytes::copy_from_slice(line), headers: None }).collect()
    }
}

/// What happens to an event that is published twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twice {
    /// The reader sees it twice.
    SeenTwice,
    /// The destination recognises it by its id and keeps one.
    SeenOnce,
}

/// Generates one `#[tokio::test]` per case for a [`SinkUnderTest`]. The calling crate needs `tokio` with `macros` and
/// `rt`.
#[macro_export]
macro_rules! sink_conformance {
    ($under_test:ty) => {
        $crate::sink_conformance! { @cases $under_test;
            an_empty_batch_has_no_outcomes
            acknowledged_means_readable
            each_message_has_one_outcome_in_the_batchs_order
            the_order_of_a_key_is_kept
            a_large_body_arrives_whole
            headers_of_any_script_arrive
            an_event_published_twice_is_seen_as_declared
            batches_at_the_same_time_do_not_mix
            a_dropped_future_leaves_the_sink_usable
            after_a_refused_message_no_later_one_of_its_key_is_seen
            an_outage_counts_against_no_message_and_delivery_resumes
        }
    };
    (@cases $under_test:ty; $($case:ident)+) => {
        $(
            #[tokio::test]
            async fn $case() {
                $crate::conformance::sink::cases::$case::<$under_test>().await;
            }
        )+
    };
}
