//! In-process handlers: functions of the program that react to committed events, without a broker.
//!
//! A handler is a subscription: it has a durable name, its own progress, retries with backoff, dead letters, a pause
//! switch and a lag. It runs in the program that runs the relay; of several such programs, one calls it at a time.
//!
//! ```
//! # #[cfg(all(feature = "sqlite", feature = "derive"))]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use postrider::{Event, Relay, Subscription, store::sqlite::SqliteStore};
//!
//! #[derive(Event, serde::Serialize, serde::Deserialize)]
//! #[event(type = "order.placed", aggregate = "Order")]
//! struct OrderPlaced {
//!     #[event(aggregate_id)]
//!     order: u64,
//!     email: String,
//! }
//!
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("shop.db");
//! # SqliteStore::migrate(&file)?;
//! # let (sender, mut sent) = tokio::sync::mpsc::unbounded_channel();
//! let store = SqliteStore::open(&file)?;
//! let outbox = store.outbox();
//! let mail = Subscription::handler("mail", move |placed: OrderPlaced, cx| {
//!     # let sender = sender.clone();
//!     async move {
//!         println!("attempt {}: mail to {} about order {}", cx.attempt(), placed.email, placed.order);
//!         # sender.send(placed.order)?;
//!         Ok(())
//!     }
//! });
//! let relay = Relay::builder().outbox(store, [mail]).spawn().await?;
//!
//! let mut database = rusqlite::Connection::open(&file)?;
//! let tx = database.transaction()?;
//! outbox.write(&tx, &OrderPlaced { order: 42, email: "ada@example.org".into() })?;
//! tx.commit()?;
//! relay.wake();
//! # assert_eq!(sent.recv().await, Some(42));
//! relay.shutdown().await?;
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "sqlite", feature = "derive")))]
//! # fn main() {}
//! ```
//!
//! # What is guaranteed
//!
//! - Every committed event of the handler's types is handled at least once, or is visibly parked, dead or expired.
//! - Events with the same key are handled one after the other, in order, retries included. Different keys run at the
//!   same time, up to [`Handlers::concurrency`].
//! - If the process dies, events whose handling was not settled are handled again: make the effect idempotent.
//! - A slow, failing or panicking call delays only the events of its own key, as long as fewer calls than the
//!   concurrency are in progress. After a crash of the relay, the first events are handled in small batches, and each
//!   batch waits for its slowest call.

mod call;
mod context;
mod error;
mod sink;

pub use call::FromEvent;
pub use context::Context;
#[doc(hidden)]
pub use error::SKIPPED;
pub use error::{HandlerError, Result};
#[doc(hidden)]
pub use sink::NOT_TAKEN;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::sink::Sink;
use crate::{Code, Error};
use call::HandlerFn;
use context::CrashHook;
pub(crate) use sink::{HandlerSink, Unencoded};

/// Calls at the same time, unless set: enough to hide the latency of mail or HTTP, few enough for a connection pool.
const CONCURRENCY: NonZeroUsize = NonZeroUsize::new(16).unwrap();
/// Time for one call, unless set.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A relay that stops waits for calls in progress, so their time has a limit: one day.
const TIMEOUT_MAX: Duration = Duration::from_secs(86_400);

/// Functions for one or more event types, under one name and with one progress.
///
/// ```
/// # #[cfg(feature = "derive")] {
/// use postrider::handler::{Context, Handlers, Result};
/// use postrider::{Event, Subscription};
///
/// #[derive(Event, serde::Serialize, serde::Deserialize)]
/// #[event(type = "order.placed")]
/// struct OrderPlaced { order: u64 }
///
/// #[derive(Event, serde::Serialize, serde::Deserialize)]
/// #[event(type = "order.cancelled")]
/// struct OrderCancelled { order: u64 }
///
/// async fn reserve(placed: OrderPlaced, cx: Context) -> Result {
///     println!("reserve stock for order {} (event {})", placed.order, cx.event_id());
///     Ok(())
/// }
///
/// let stock = Handlers::new()
///     .on(reserve)
///     .on(|cancelled: OrderCancelled, _| async move {
///         println!("release the stock of order {}", cancelled.order);
///         Ok(())
///     })
///     .concurrency(4);
/// let subscription = Subscription::handlers("stock", stock);
/// # }
/// ```
#[derive(Debug)]
pub struct Handlers {
    calls: Vec<(Option<&'static str>, HandlerFn)>,
    concurrency: Option<NonZeroUsize>,
    timeout: Duration,
    crash_hook: CrashHook,
}

impl Default for Handlers {
    fn default() -> Self {
        Self::new()
    }
}

impl Handlers {
    /// No function yet.
    pub fn new() -> Self {
        Self {
            calls: Vec::new(),
            concurrency: Some(CONCURRENCY),
            timeout: TIMEOUT,
            crash_hook: CrashHook::default(),
        }
    }

    /// Calls a function for every event of its type: a [`TypedEvent`](crate::TypedEvent) that can be deserialized, or
    /// `Arc<Event>` for every event that no other function takes. See [`FromEvent`].
    ///
    /// The future is dropped at the timeout, and when the relay loses its lease. What it has done by then stays done,
    /// and the event is handled again.
    #[must_use]
    pub fn on<E, F, R>(mut self, function: F) -> Self
    where
        E: FromEvent,
        F: Fn(E, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result> + Send + 'static,
    {
        self.calls.push((E::TYPE, HandlerFn::new(function)));
        self
    }

    /// How many calls run at the same time; 16 if not set. With 1, events are handled one after the other.
    #[must_use]
    pub fn concurrency(mut self, calls: usize) -> Self {
        self.concurrency = NonZeroUsize::new(calls);
        self
    }

    /// Time for one call, up to a day; 30 seconds if not set. A call that takes longer is dropped, and counts as a failed
    /// attempt. A relay that shuts down waits for calls in progress, at most about this long.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Calls this at every crash point, for the testkit: those of [`Context::crash_point`], and before and after each
    /// call. UNSTABLE.
    #[doc(hidden)]
    #[must_use]
    pub fn crash_hook(mut self, hook: Arc<dyn Fn(&str) + Send + Sync>) -> Self {
        self.crash_hook = CrashHook(Some(hook));
        self
    }

    /// The sink that calls the functions, for the testkit. UNSTABLE.
    #[doc(hidden)]
    pub fn into_test_sink(self, subscription: &str) -> std::result::Result<Box<dyn Sink>, Error> {
        self.into_sink(subscription).map(|(sink, _)| Box::new(sink) as Box<dyn Sink>)
    }

    /// The sink that calls the functions, and the types they take; `None` for all.
    pub(crate) fn into_sink(
        mut self,
        subscription: &str,
    ) -> std::result::Result<(HandlerSink, Option<Vec<&'static str>>), Error> {
        let invalid =
            |what: String| Err(Error::new(Code::HandlerInvalid, format!("{subscription:?}: {what}")));
        let Some(concurrency) = self.concurrency else { return invalid("the concurrency is 0".to_owned()) };
        if self.timeout.is_zero() {
            return invalid("the timeout is 0".to_owned());
        }
        if self.timeout > TIMEOUT_MAX {
            return invalid(format!("the timeout is longer than {TIMEOUT_MAX:?}"));
        }
        if self.calls.is_empty() {
            return invalid("it has no function".to_owned());
        }
        let (mut by_type, mut others) = (HashMap::new(), None);
        for (event_type, call) in self.calls.drain(..) {
            let second = match event_type {
                Some(event_type) => by_type.insert(event_type, call).is_some(),
                None => others.replace(call).is_some(),
            };
            if second {
                let which = event_type.map_or("any event".to_owned(), |of| format!("events of type {of:?}"));
                return invalid(format!("two functions take {which}"));
            }
        }
        let types = others.is_none().then(|| by_type.keys().copied().collect());
        let name = Arc::from(subscription);
        let Self { timeout, crash_hook, .. } = self;
        Ok((HandlerSink { subscription: name, by_type, others, concurrency, timeout, crash_hook }, types))
    }
}
