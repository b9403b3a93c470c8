//! `[subscription.NAME]` and its rules.

use std::collections::BTreeMap;

use postrider::Code;
use postrider::relay::{OnDead, Order, Policy};
use postrider::route::Unrouted;
use postrider::store::Start;

use super::{ConfigTable, configured_name};
use crate::config::problem::Problem;

/// A durable, named consumer of an outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionSettings {
    /// The outbox it reads.
    pub outbox: String,
    /// The sink it sends to.
    pub sink: String,
    /// Where it starts when it is created.
    pub start: Start,
    /// Its earlier names; only for an outbox of layout `eventlog`.
    pub aliases: Vec<String>,
    /// The event types to deliver; `None`: all.
    pub only: Option<Vec<String>>,
    /// Which of several matching rules apply.
    pub rule_match: RuleMatch,
    /// What happens to an event that no rule matches.
    pub unrouted: Unrouted,
    /// Limits and times.
    pub policy: Policy,
    /// The rules, in the order of the file. Empty: events go to their topic, otherwise to the subscription's name.
    pub rules: Vec<RuleSettings>,
}

/// Which of several matching rules apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleMatch {
    /// The first.
    First,
    /// Every one.
    All,
}

/// A rule. Templates are texts here; the router parses them.
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
    /// Whether it reads this outbox or shard.
    pub fn reads(&self, outbox: &str) -> bool {
        self.outbox == configured_name(outbox)
    }

    pub(super) fn read(table: &ConfigTable<'_>) -> Result<Self, Problem> {
        let policy = policy(table)?;
        policy.check().map_err(|error| table.table_problem(Code::PolicyInvalid, error.message()))?;
        let settings = Self {
            outbox: table.required("outbox", table.text("outbox")?)?,
            sink: table.required("sink", table.text("sink")?)?,
            start: table.required("start", table.start("start")?)?,
            aliases: table.list("aliases")?.unwrap_or_default(),
            only: table.list("only")?,
            rule_match: table.choice("match", &[("first", RuleMatch::First), ("all", RuleMatch::All)])?,
            unrouted: table.choice("unrouted", &[("park", Unrouted::Park), ("skip", Unrouted::Skip)])?,
            policy,
            rules: table.rules().iter().map(RuleSettings::read).collect::<Result<_, _>>()?,
        };
        // Created here too, so that an invalid template is found before anything starts.
        settings.router(&table.name()).map_err(|error| {
            let code = match error.code() {
                // The header name comes from the configuration, so the rule is invalid and not an event.
                Code::HeaderName | Code::HeaderReserved => Code::RuleInvalid,
                code => code,
            };
            table.table_problem(code, error.message())
        })?;
        Ok(settings)
    }
}

impl RuleSettings {
    fn read(table: &ConfigTable<'_>) -> Result<Self, Problem> {
        Ok(Self {
            types: table.list("types")?,
            aggregates: table.list("aggregates")?,
            destination: table.text("destination")?,
            key: table.text("key")?,
            headers: table.map("headers")?.unwrap_or_default(),
        })
    }
}

/// Sets every field of the policy; a test fails if a field has no key.
fn policy(table: &ConfigTable<'_>) -> Result<Policy, Problem> {
    Ok(Policy::default()
        .order(table.choice("order", &[("key", Order::Key), ("none", Order::None)])?)
        .on_dead(table.choice("on_dead", &[("proceed", OnDead::Proceed), ("block", OnDead::Block)])?)
        .several_destinations(table.bool("several_destinations")?)
        .batch_events_max(table.count("batch_events_max")?)
        .batch_bytes_max(table.count("batch_bytes_max")?)
        .batch_linger(table.duration("batch_linger")?)
        .batches_in_flight_max(table.count("batches_in_flight_max")?)
        .publish_timeout(table.duration("publish_timeout")?)
        .read_ahead_events_max(table.count("read_ahead_events_max")?)
        .read_ahead_bytes_max(table.count("read_ahead_bytes_max")?)
        .claim_events_max(table.count("claim_events_max")?)
        .window_events_max(table.count("window_events_max")?)
        .flush_interval(table.duration("flush_interval")?)
        .flush_events(table.count("flush_events")?)
        .max_attempts(table.count("max_attempts")?)
        .backoff_min(table.duration("backoff_min")?)
        .backoff_max(table.duration("backoff_max")?)
        .backoff_jitter(table.bool("backoff_jitter")?)
        .expire_while_down(table.bool("expire_while_down")?)
        .parked_max(table.count("parked_max")?)
        .breaker_keys(table.count("breaker_keys")?)
        .probe_min(table.duration("probe_min")?)
        .probe_max(table.duration("probe_max")?)
        .lease(table.duration("lease")?)
        .poll_min(table.duration("poll_min")?)
        .poll_max(table.duration("poll_max")?)
        .drain_timeout(table.duration("drain_timeout")?)
        .trial_events(table.count("trial_events")?)
        .trial_deaths_max(table.count("trial_deaths_max")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::schema::{Schema, Section};

    #[test]
    fn every_field_of_the_policy_has_a_key() {
        let printed = format!("{:#?}", Policy::default());
        let fields = printed.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(": "));
        let fields: Vec<&str> = fields.map(|(name, _)| name).filter(|name| !name.starts_with(' ')).collect();
        assert!(fields.len() > 20, "{fields:?}");
        for field in fields {
            // The limits of a rate belong to the destination.
            let section =
                if field.ends_with("_per_second_max") { Section::Sink } else { Section::Subscription };
            assert!(Schema::postrider().find(section, field).is_some(), "{field} has no key");
        }
    }
}
