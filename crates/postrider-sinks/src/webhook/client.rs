//! The sink.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use postrider::sink::{Capabilities, Destinations, Failure, Message, Outcome, Sink};
use postrider::{BoxFuture, Clock, Code, Error, Result, SystemClock};
use reqwest::Client;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

use super::address::Address;
use super::config::WebhookConfig;
use super::endpoint::{EndpointBatch, Endpoints};
use super::error::outcome_of_error;
use super::guard::Guard;
use super::hosts::HostAllowList;
use super::message::{headers, is_reserved};
use super::resolve::{GuardedResolver, Lookup, SystemResolver};
use super::response::{Secrets, read};
use super::{Key, routed, tls};

/// How long an idle connection is kept. Shorter than the timeout of servers: a server that closes the connection while
/// a request is on its way leaves the outcome unknown.
const IDLE: Duration = Duration::from_secs(4);

/// Sends each message as one POST request, signed according to Standard Webhooks.
///
/// - Acknowledged means that the endpoint responded with 2xx. Whether it stored the event is up to the endpoint.
/// - `webhook-id` is the event's id, the same in every attempt: receivers detect duplicates by it.
/// - Messages of a batch are sent concurrently, with a limit per endpoint. The relay sends one message per key at a
///   time, so the order per key is kept.
/// - No response within the timeout, or an incomplete one, is ambiguous; a failed connection is an outage.
/// - A URL that a routing rule builds from values of an event goes to the rule's host, or to one of `allow_hosts`.
/// - Redirects are not followed and proxies of the environment are not used, because both would bypass the address
///   check. Names are checked at every connection, and the connection goes to the checked address.
/// - At most 4 KiB of a response are read.
pub struct Webhook {
    client: Client,
    clock: Arc<dyn Clock>,
    /// The endpoint of all messages; `None` if each message has its own.
    pub(super) address: Option<Address>,
    pub(super) guard: Guard,
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) tls: Arc<rustls::ClientConfig>,
    /// Hosts that events may select.
    hosts: HostAllowList,
    destinations: Destinations,
    allow_http: bool,
    keys: Vec<Key>,
    /// Added to every request.
    common_headers: HeaderMap,
    secrets: Secrets,
    timeout: Duration,
    endpoints: Endpoints,
}

impl Webhook {
    /// Checks the settings. Does not connect yet.
    ///
    /// # Errors
    /// [`Code::SinkOpen`] if a setting is invalid or the address is forbidden.
    pub fn open(config: &WebhookConfig) -> Result<Self> {
        Self::open_with(config, Arc::new(SystemClock::new()), Arc::new(SystemResolver))
    }

    /// As [`Webhook::open`], with a given clock for the time in signatures.
    ///
    /// # Errors
    /// As [`Webhook::open`].
    pub fn open_with_clock(config: &WebhookConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        Self::open_with(config, clock, Arc::new(SystemResolver))
    }

    pub(super) fn open_with(
        config: &WebhookConfig,
        clock: Arc<dyn Clock>,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Self> {
        let guard = config.guard()?;
        let parse = |url: &String| Address::parse(url, &guard, config.allow_http);
        let address = config.url.as_ref().map(parse).transpose();
        let address = address.map_err(|why| Error::new(Code::SinkOpen, format!("webhook: {why}")))?;
        let token = config.authorization.as_deref();
        let secrets =
            Secrets::new(token.into_iter().chain(token.and_then(|token| token.split(' ').next_back())));
        let tls = tls::client(config.ca_file.as_deref())?;
        let client = Client::builder()
            .tls_backend_preconfigured(tls.clone())
            .dns_resolver(Arc::new(GuardedResolver { guard: guard.clone(), lookup: lookup.clone() }))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("postrider/", env!("CARGO_PKG_VERSION")))
            .timeout(config.timeout)
            .connect_timeout(config.timeout / 2)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(config.concurrency)
            .build()
            .map_err(|error| {
                Error::new(Code::SinkOpen, "webhook: cannot create an HTTP client").with_source(error)
            })?;
        Ok(Self {
            client,
            clock,
            address,
            guard,
            lookup,
            tls: Arc::new(tls),
            hosts: config.hosts()?,
            destinations: config.destinations(),
            allow_http: config.allow_http,
            keys: config.keys.clone(),
            common_headers: common_headers(config)?,
            secrets,
            timeout: config.timeout,
            endpoints: Endpoints::new(config.concurrency),
        })
    }

    async fn publish_all(&self, batch: &[Message]) -> Vec<Outcome> {
        let start_deadline = Instant::now() + self.timeout / 2;
        let mut outcomes = vec![Outcome::Untried; batch.len()];
        let (parts, chosen) = self.parts(batch);
        let sending: FuturesUnordered<_> = batch
            .iter()
            .zip(&chosen)
            .enumerate()
            .map(|(at, (message, part))| {
                let part = part.as_ref().map(|number| &parts[*number]);
                async move {
                    let outcome = match part {
                        Ok(part) => self.send(part, message, start_deadline).await,
                        Err(why) => Outcome::Rejected(Failure::new(why.clone())),
                    };
                    (at, outcome)
                }
            })
            .collect();
        let mut sending = std::pin::pin!(sending);
        // For each endpoint, the messages that failed since its last acknowledgement.
        let mut last: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        while let Some((at, outcome)) = sending.next().await {
            if let Some(Ok(part)) = chosen.get(at) {
                match outcome {
                    Outcome::Acknowledged(_) => _ = last.remove(part),
                    Outcome::Retryable(_) | Outcome::Ambiguous(_) => last.entry(*part).or_default().push(at),
                    _ => {}
                }
            }
            if let Some(slot) = outcomes.get_mut(at) {
                *slot = outcome;
            }
        }
        for at in last.into_values().flatten() {
            if let Some(Outcome::Retryable(failure) | Outcome::Ambiguous(failure)) = outcomes.get_mut(at) {
                failure.after_last_acknowledgement = true;
            }
        }
        for (number, part) in parts.iter().enumerate().filter(|(_, part)| !part.was_tried()) {
            let first = chosen.iter().position(|chosen| *chosen == Ok(number));
            if let Some(slot) = first.and_then(|first| outcomes.get_mut(first))
                && *slot == Outcome::Untried
            {
                let what = format!("{} has not answered earlier requests", part.address);
                *slot = Outcome::Down(Failure::new(what));
            }
        }
        outcomes
    }

    /// Splits a batch by endpoint. For each message, the index of its part, or why it has no valid endpoint.
    fn parts(&self, batch: &[Message]) -> (Vec<EndpointBatch<'_>>, Vec<Result<usize, String>>) {
        let mut parts = Vec::new();
        if let Some(address) = &self.address {
            parts.push(self.endpoints.part(address.clone()));
            return (parts, vec![Ok(0); batch.len()]);
        }
        let mut known: BTreeMap<(&str, Option<&str>), Result<usize, String>> = BTreeMap::new();
        let mut part_of = |message: &Message| -> Result<usize, String> {
            let address = routed::address(message, &self.guard, self.allow_http, &self.hosts)
                .map_err(|why| format!("the destination of the event: {why}"))?;
            parts.push(self.endpoints.part(address));
            Ok(parts.len() - 1)
        };
        let chosen = batch.iter().map(|message| {
            let to = (&*message.destination, message.origin());
            known.entry(to).or_insert_with(|| part_of(message)).clone()
        });
        let chosen = chosen.collect();
        (parts, chosen)
    }

    async fn send(&self, part: &EndpointBatch<'_>, message: &Message, start_deadline: Instant) -> Outcome {
        let Some(_permits) = part.permits(start_deadline).await else { return Outcome::Untried };
        let now = self.clock.now();
        if let Some(wait) = part.quiet_for(now.elapsed) {
            let failure = Failure::new(format!("{} asked for a pause", part.address));
            return Outcome::Down(failure.with_retry_after(wait));
        }
        let headers = match headers(
            message,
            &self.common_headers,
            &self.keys,
            now.wall.as_micros().div_euclid(1_000_000),
        ) {
            Ok(headers) => headers,
            Err(why) => return Outcome::Rejected(Failure::new(why)),
        };
        let request = self.client.post(part.address.url.clone()).headers(headers).body(message.body.clone());
        let outcome = match request.send().await {
            Ok(response) => {
                let wall = self.clock.now().wall;
                read(response, &part.address, &self.secrets, wall, self.address.is_some()).await.outcome()
            }
            Err(error) => outcome_of_error(&part.address.to_string(), error, self.timeout),
        };
        match &outcome {
            Outcome::Acknowledged(_) => part.succeeded(),
            Outcome::Down(Failure { retry_after: Some(wait), .. }) => {
                part.quiet_until(self.clock.now().elapsed + *wait);
            }
            Outcome::Down(_) => part.stop(),
            Outcome::Retryable(_) | Outcome::Ambiguous(_) => part.failed(),
            Outcome::Failed(_) | Outcome::Rejected(_) | Outcome::Untried | Outcome::Fenced => {}
        }
        outcome
    }
}

impl Sink for Webhook {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(self.publish_all(batch))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_destinations(self.destinations)
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("address", &self.address.as_ref().map(Address::to_string))
            .finish_non_exhaustive()
    }
}

/// The headers of every request, checked.
fn common_headers(config: &WebhookConfig) -> Result<HeaderMap> {
    let refused =
        |name: &str, why: &str| Error::new(Code::SinkOpen, format!("webhook: the header {name:?} {why}"));
    let mut headers = HeaderMap::new();
    for (text, value) in &config.headers {
        let name: HeaderName =
            text.parse().map_err(|_| refused(text, "has a name that is not valid in HTTP"))?;
        if is_reserved(&name) {
            return Err(refused(text, "is set by the sink itself"));
        }
        let value: HeaderValue =
            value.parse().map_err(|_| refused(text, "has a value that is not valid in HTTP"))?;
        headers.insert(name, value);
    }
    if let Some(token) = &config.authorization {
        let mut value: HeaderValue =
            token.parse().map_err(|_| refused("authorization", "has a value that is not valid in HTTP"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
