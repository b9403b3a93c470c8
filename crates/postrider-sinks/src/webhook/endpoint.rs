//! Endpoints: the requests in progress to each, and which asked for a pause.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::address::Address;

/// Maximum number of endpoints remembered. At the limit, endpoints without a request in progress are forgotten.
const ENDPOINTS_MAX: usize = 1024;
/// Maximum number of concurrent requests of a sink, over all its endpoints.
const REQUESTS_MAX: usize = 256;
/// Failures in a row after which the rest of a batch for an endpoint is not tried.
const FAILURES_MAX: usize = 8;

/// All endpoints of a sink.
#[derive(Debug)]
pub(super) struct Endpoints {
    known: Mutex<HashMap<String, Arc<Endpoint>>>,
    concurrency: usize,
    requests: Semaphore,
}

/// One endpoint, shared by the batches that go there.
#[derive(Debug)]
struct Endpoint {
    requests: Semaphore,
    /// No requests are sent before this time, by the clock's `elapsed`.
    quiet_until: Mutex<Duration>,
}

impl Endpoints {
    pub(super) fn new(concurrency: usize) -> Self {
        let requests = Semaphore::new(REQUESTS_MAX);
        Self { known: Mutex::default(), concurrency: concurrency.clamp(1, REQUESTS_MAX), requests }
    }

    /// The part of a batch that goes to an address.
    pub(super) fn part(&self, address: Address) -> EndpointBatch<'_> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= ENDPOINTS_MAX {
            known.retain(|_, endpoint| Arc::strong_count(endpoint) > 1);
        }
        let new = || {
            let requests = Semaphore::new(self.concurrency);
            Arc::new(Endpoint { requests, quiet_until: Mutex::default() })
        };
        let endpoint = known.entry(address.url.as_str().to_owned()).or_insert_with(new).clone();
        EndpointBatch {
            address,
            endpoint,
            requests: Semaphore::new(self.concurrency),
            of_sink: &self.requests,
            failures: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            tried: AtomicBool::new(false),
        }
    }
}

/// The messages of one batch for one endpoint.
#[derive(Debug)]
pub(super) struct EndpointBatch<'s> {
    pub(super) address: Address,
    endpoint: Arc<Endpoint>,
    /// Limits how many messages of this batch queue for the endpoint at a time, so that other batches get permits too.
    requests: Semaphore,
    of_sink: &'s Semaphore,
    failures: AtomicUsize,
    stopped: AtomicBool,
    tried: AtomicBool,
}

/// Permission for one request, from the batch, the endpoint and the sink.
pub(super) type Permits<'p> = [SemaphorePermit<'p>; 3];

impl<'s> EndpointBatch<'s> {
    /// Waits for permission to send one request; `None` if there is none before the deadline, or if the rest of the
    /// batch must not be tried.
    pub(super) async fn permits<'p>(&'p self, until: Instant) -> Option<Permits<'p>>
    where
        's: 'p,
    {
        let all = async {
            let own = self.requests.acquire().await.ok()?;
            let of_endpoint = self.endpoint.requests.acquire().await.ok()?;
            Some([own, of_endpoint, self.of_sink.acquire().await.ok()?])
        };
        let permits = tokio::time::timeout_at(until, all).await.ok().flatten()?;
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        self.tried.store(true, Ordering::Relaxed);
        Some(permits)
    }

    /// Whether a message of this batch was tried.
    pub(super) fn was_tried(&self) -> bool {
        self.tried.load(Ordering::Relaxed)
    }

    /// How long the pause that the endpoint asked for still lasts.
    pub(super) fn quiet_for(&self, now: Duration) -> Option<Duration> {
        let until = *self.endpoint.quiet_until.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = until.checked_sub(now).filter(|wait| !wait.is_zero())?;
        self.stop();
        Some(wait)
    }

    /// The endpoint asked for a pause.
    pub(super) fn quiet_until(&self, until: Duration) {
        *self.endpoint.quiet_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        self.stop();
    }

    /// The rest of the batch is not tried.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// The endpoint acknowledged a message.
    pub(super) fn succeeded(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    /// A message failed; the endpoint may be the cause.
    pub(super) fn failed(&self) {
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= FAILURES_MAX {
            self.stop();
        }
    }
}
