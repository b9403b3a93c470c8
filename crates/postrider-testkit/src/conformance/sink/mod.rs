//! What every [`Sink`] must do. Implement [`SinkUnderTest`] for a sink, then
//!
//! ```ignore
//! mod my_sink {
//!     postrider_testkit::sink_conformance!(super::MySinkUnderTest);
//! }
//! ```
//!
//! makes one test per case.

pub mod cases;
mod messages;

pub use messages::{batch, message, message_with};

use std::sync::Arc;

use bytes::Bytes;
use postrider::sink::Sink;
use postrider::{BoxFuture, Headers};

/// A sink and the world around it.
pub trait SinkUnderTest: Send + Sync + Sized + 'static {
    /// A sink with a new, empty destination.
    fn fresh() -> impl Future<Output = Self> + Send;

    /// The sink.
    fn sink(&self) -> Arc<dyn Sink>;

    /// What a reader sees that shares nothing with the sink but the destination, in the order it sees it.
    fn seen(&self) -> BoxFuture<'_, Hook<Vec<Seen>>>;

    /// What becomes of an event that is published twice.
    fn twice(&self) -> Twice {
        Twice::SeenTwice
    }

    /// A body that the destination refuses while it takes others.
    fn refused_body(&self) -> Hook<Bytes> {
        Hook::NotSupported
    }

    /// Takes the destination down (`true`) or brings it back (`false`), with what it held.
    fn outage(&self, _down: bool) -> BoxFuture<'_, Hook<()>> {
        Box::pin(std::future::ready(Hook::NotSupported))
    }

    /// Size of the large body that must arrive whole.
    fn large_body_bytes(&self) -> usize {
        1024 * 1024
    }
}

/// Something a test may need of a destination and not every destination can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook<T> {
    /// Here it is.
    Done(T),
    /// The cases that need it are passed over.
    NotSupported,
}

/// A message as the reader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its body.
    pub body: Bytes,
    /// Its headers; `None` where the destination has none.
    pub headers: Option<Headers>,
}

impl Seen {
    /// The lines of a text, each a message without headers. A last line without its end counts as one.
    pub fn lines(text: &[u8]) -> Vec<Self> {
        let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
        if lines.last().is_some_and(|last| last.is_empty()) {
            lines.pop();
        }
        lines.into_iter().map(|line| Self { body: Bytes::copy_from_slice(line), headers: None }).collect()
    }
}

/// What becomes of an event that is published twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twice {
    /// The reader sees it twice.
    SeenTwice,
    /// The destination knows it by its id and keeps one.
    SeenOnce,
}

/// Makes one `#[tokio::test]` per case for a [`SinkUnderTest`]. The calling crate needs `tokio` with `macros` and `rt`.
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
