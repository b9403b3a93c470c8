//! Calls the functions of a subscription for the events that the relay publishes.

use std::any::Any;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use super::Context;
use super::call::HandlerFn;
use super::context::CrashHook;
use crate::encode::{Encoded, Encoder, Outgoing};
use crate::sink::{Capabilities, Destinations, EarlyOutcomes, Failure, Message, Outcome, Receipt, Sink};
use crate::{BoxFuture, Result};

/// The receipt of an event whose type no function takes.
#[doc(hidden)]
pub const NOT_TAKEN: &str = "no function of the handler takes its type";

/// The functions of one subscription.
#[derive(Debug)]
pub(crate) struct HandlerSink {
    pub(super) subscription: Arc<str>,
    pub(super) by_type: HashMap<&'static str, HandlerFn>,
    /// Takes events of all other types.
    pub(super) others: Option<HandlerFn>,
    pub(super) concurrency: NonZeroUsize,
    pub(super) timeout: Duration,
    pub(super) crash_hook: CrashHook,
}

impl HandlerSink {
    /// Calls the function for an event. Whatever the function does, there is an outcome within the timeout, as long as
    /// the function does not block the thread.
    async fn call(&self, message: &Message) -> Outcome {
        let event = &message.event;
        let Some(call) = self.by_type.get(event.event_type.as_str()).or(self.others.as_ref()) else {
            // A router of the program let it through. As without one, events of other types are done.
            return Outcome::Acknowledged(Receipt::new(NOT_TAKEN));
        };
        let cx = Context {
            subscription: self.subscription.clone(),
            event: event.clone(),
            position: message.position,
            attempt: message.attempt,
            crash_hook: self.crash_hook.clone(),
        };
        // All code of the program runs in here: the function, its error's texts, and what is dropped at the timeout.
        let outcome = async {
            self.crash_hook.reach("before the call");
            let called = async {
                let result = call.start(event.clone(), cx).await;
                self.crash_hook.reach("after the call");
                result
            };
            match tokio::time::timeout(self.timeout, called).await {
                Ok(Ok(())) => Outcome::Acknowledged(Receipt::default()),
                Ok(Err(error)) => error.into_outcome(),
                Err(_) => failed(format!("the handler did not finish within {:?}", self.timeout)),
            }
        };
        let outcome = AssertUnwindSafe(outcome).catch_unwind().await;
        outcome.unwrap_or_else(|panic| failed(format!("the handler panicked: {}", text(&*panic))))
    }
}

fn failed(reason: String) -> Outcome {
    Outcome::Failed(Failure::new(reason))
}

/// The message of a panic, if it has one.
fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

impl Sink for HandlerSink {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(futures_util::future::join_all(batch.iter().map(|message| self.call(message))))
    }

    fn publish_each<'a>(
        &'a self,
        batch: &'a [Message],
        early: &'a EarlyOutcomes,
    ) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            let calls = batch.iter().enumerate();
            let calls: FuturesUnordered<_> = calls
                .map(|(index, message)| self.call(message).map(move |outcome| (index, outcome)))
                .collect();
            let mut outcomes = vec![Outcome::Untried; batch.len()];
            let mut left = batch.len();
            let mut ended = calls.ready_chunks(batch.len().max(1));
            while let Some(chunk) = ended.next().await {
                left -= chunk.len();
                for (index, outcome) in &chunk {
                    outcomes[*index].clone_from(outcome);
                }
                if left > 0 {
                    early.report(chunk);
                }
            }
            outcomes
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
            .with_destinations(Destinations::Fixed)
            .with_in_flight_max(self.concurrency)
            .with_message_timeout(self.timeout)
    }
}

/// For a sink that takes the event itself and needs no bytes.
pub(crate) struct Unencoded;

impl Encoder for Unencoded {
    fn encode(&self, _: &Outgoing<'_>) -> Result<Encoded> {
        Ok(Encoded { body: Bytes::new(), content_type: "".into() })
    }
}
