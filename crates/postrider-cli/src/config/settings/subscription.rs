//! `[subscription.NAME]` and its rules.

use std::collections::BTreeMap;

use postrider::Code;
use postrider::relay::{OnDead, Order, Policy};
use postrider::route::Unrouted;
use postrider::store::Start;

use super::Read;
use crate::config::problem::Problem;

/// A durable, named consumer of an outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionSettings {
    /// The outbox it reads.
    pub outbox: String,
    /// The sink it sends to.
    pub sink: String,
    /// Where it begins when it is created.
    pub start: Start,
    /// The types it takes; `None` takes all.
    pub only: Option<Vec<String>>,
    /// Which of several matching rules count.
    pub rule_match: RuleMatch,
    /// What becomes of an event that no rule matches.
    pub unrouted: Unrouted,
    /// Limits and times.
    pub policy: Policy,
    /// Where events go, in the order of the file. None: to the event's topic, else the subscription's name.
    pub rules: Vec<RuleSettings>,
}

/// Which of several matching rules count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleMatch {
    /// The first.
    First,
    /// Every one.
    All,
}

/// Where an event goes. Templates are texts here; the router reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSettings {
    /// Globs of event types; `None` matches all.
    pub types: Option<Vec<String>>,
    /// Globs of aggregate types; `None` matches all.
    pub aggregates: Option<Vec<String>>,
    /// Template of the destination's name.
    pub destination: Option<String>,
    /// Template of the key.
    pub key: Option<String>,
    /// Templates of headers that are added.
    pub headers: BTreeMap<String, String>,
}

impl SubscriptionSettings {
    pub(super) fn read(read: &Read<'_>) -> Result<Self, Problem> {
        let policy = policy(read)?;
        policy.check().map_err(|error| read.problem_of_all(Code::PolicyInvalid, error.message()))?;
        let settings = Self {
            outbox: read.needed("outbox", read.text("outbox")?)?,
            sink: read.needed("sink", read.text("sink")?)?,
            start: read.needed("start", read.start("start")?)?,
            only: read.list("only")?,
            rule_match: read.choice("match", &[("first", RuleMatch::First), ("all", RuleMatch::All)])?,
            unrouted: read.choice("unrouted", &[("hold", Unrouted::Hold), ("skip", Unrouted::Skip)])?,
            policy,
            rules: read.rules().iter().map(RuleSettings::read).collect::<Result<_, _>>()?,
        };
        // Made once here, so that a template with a mistake is found before anything starts.
        settings.router(&read.name()).map_err(|error| {
            let code = match error.code() {
                // Of an event the name of a header is wrong; of a configuration, the rule.
                Code::HeaderName | Code::HeaderReserved => Code::RuleInvalid,
                code => code,
            };
            read.problem_of_all(code, error.message())
        })?;
        Ok(settings)
    }
}

impl RuleSettings {
    fn read(read: &Read<'_>) -> Result<Self, Problem> {
        Ok(Self {
            types: read.list("types")?,
            aggregates: read.list("aggregates")?,
            destination: read.text("destination")?,
            key: read.text("key")?,
            headers: read.map("headers")?.unwrap_or_default(),
        })
    }
}

/// Names every field, so that a new one of the relay does not compile until it has a key.
fn policy(read: &Read<'_>) -> Result<Policy, Problem> {
    Ok(Policy {
        order: read.choice("order", &[("key", Order::Key), ("none", Order::None)])?,
        on_dead: read.choice("on_dead", &[("proceed", OnDead::Proceed), ("block", OnDead::Block)])?,
        several_destinations: read.bool("several_destinations")?,
        batch_events_max: read.count("batch_events_max")?,
        batch_bytes_max: read.count("batch_bytes_max")?,
        batch_linger: read.duration("batch_linger")?,
        batches_in_flight_max: read.count("batches_in_flight_max")?,
        publish_timeout: read.duration("publish_timeout")?,
        read_ahead_events_max: read.count("read_ahead_events_max")?,
        read_ahead_bytes_max: read.count("read_ahead_bytes_max")?,
        claim_events_max: read.count("claim_events_max")?,
        window_events_max: read.count("window_events_max")?,
        flush_interval: read.duration("flush_interval")?,
        flush_events: read.count("flush_events")?,
        max_attempts: read.count("max_attempts")?,
        backoff_min: read.duration("backoff_min")?,
        backoff_max: read.duration("backoff_max")?,
        parked_max: read.count("parked_max")?,
        breaker_keys: read.count("breaker_keys")?,
        probe_min: read.duration("probe_min")?,
        probe_max: read.duration("probe_max")?,
        lease: read.duration("lease")?,
        poll_min: read.duration("poll_min")?,
        poll_max: read.duration("poll_max")?,
        drain_timeout: read.duration("drain_timeout")?,
        trial_events: read.count("trial_events")?,
        trial_deaths_max: read.count("trial_deaths_max")?,
    })
}
