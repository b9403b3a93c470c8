//! The configuration as types, for the commands.

mod dashboard;
mod http;
mod outbox;
mod relay;
mod routing;
mod rows;
#[cfg(feature = "schemas")]
mod schemas;
mod sink;
mod subscription;
mod table;
mod traces;

pub use dashboard::{DashboardSettings, TokenSettings};
pub use http::HttpSettings;
pub use outbox::{OutboxSettings, configured_name};
pub use relay::{LogFormat, RelaySettings};
pub use sink::{Encoding, SinkSettings};
pub use subscription::{RuleMatch, RuleSettings, SubscriptionSettings};
pub use traces::TracesSettings;

use std::collections::BTreeMap;
use std::time::Duration;

use postrider::layout::Ability;
use postrider::{Code, Shard};

pub(crate) use self::table::ConfigTable;
use super::effective::Effective;
use super::environment::Environment;
use super::problem::Problem;
use super::schema::Section;

/// The checked settings. Its `Debug` output contains no secrets.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The process.
    pub relay: RelaySettings,
    /// Its HTTP listener.
    pub http: HttpSettings,
    /// The dashboard.
    pub dashboard: DashboardSettings,
    /// The export of its spans; `None` if there is none.
    pub traces: Option<TracesSettings>,
    /// Databases by name: that of the outbox, and its shard if it has several.
    pub outboxes: BTreeMap<String, OutboxSettings>,
    /// Destinations by name.
    pub sinks: BTreeMap<String, SinkSettings>,
    /// Subscriptions by name. Their outboxes and sinks are in the maps above.
    pub subscriptions: BTreeMap<String, SubscriptionSettings>,
}

impl Settings {
    /// An outbox or shard. An outbox without shards that gets some while the program runs, is shard 0.0 from then on: what
    /// was begun under its name still finds its settings.
    pub fn outbox(&self, name: &str) -> Option<&OutboxSettings> {
        self.outboxes.get(name).or_else(|| self.outboxes.get(&format!("{name}:{}", Shard::DEFAULT)))
    }

    /// Creates the settings from the merged configuration, and resolves secrets.
    ///
    /// # Errors
    /// All secrets that cannot be read, URLs that are not supported, and policies that are invalid.
    pub fn new(effective: &Effective, environment: &Environment) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let tables = |section| ConfigTable::all(effective, environment, section);
        let relay = tables(Section::Relay).into_iter().map(|table| RelaySettings::read(&table));
        let relay = kept(relay, &mut problems).pop();
        let http = tables(Section::Http).into_iter().map(|table| HttpSettings::read(&table));
        let http = kept(http, &mut problems).pop();
        let dashboard = tables(Section::Dashboard).into_iter().map(|table| DashboardSettings::read(&table));
        let dashboard = kept(dashboard, &mut problems).pop();
        let traces = tables(Section::Traces).into_iter().map(|table| TracesSettings::read(&table));
        let traces = kept(traces, &mut problems).pop().flatten();
        let outboxes = tables(Section::Outbox);
        let outboxes = kept(outboxes.iter().map(OutboxSettings::read), &mut problems);
        let outboxes: BTreeMap<String, OutboxSettings> = outboxes.into_iter().flatten().collect();
        let sinks = named(&tables(Section::Sink), &mut problems, SinkSettings::read);
        let subscriptions = named(&tables(Section::Subscription), &mut problems, |table| {
            let subscription = SubscriptionSettings::read(table)?;
            check_aliases(table, &subscription, &outboxes)?;
            check_patience(table, &subscription, &sinks)?;
            check_destinations(table, &subscription, &sinks)?;
            Ok(subscription)
        });
        match (relay, http, dashboard) {
            (Some(relay), Some(http), Some(dashboard)) if problems.is_empty() => {
                Ok(Self { relay, http, dashboard, traces, outboxes, sinks, subscriptions })
            }
            _ => Err(problems),
        }
    }
}

/// Only layout `eventlog` stores the name of a subscription with each delivery, so only there a new name can take over.
fn check_aliases(
    table: &ConfigTable<'_>,
    subscription: &SubscriptionSettings,
    outboxes: &BTreeMap<String, OutboxSettings>,
) -> Result<(), Problem> {
    let outbox = outboxes.iter().find(|(name, _)| subscription.reads(name));
    let Some((_, outbox)) = outbox else { return Ok(()) };
    let why = match outbox.database.admin().layout() {
        _ if subscription.aliases.is_empty() => return Ok(()),
        Some(layout) if layout.has(Ability::Notifications) => {
            match subscription.aliases.contains(&table.name()) {
                true => "an alias is an earlier name, not the name of the subscription itself".to_owned(),
                false => return Ok(()),
            }
        }
        _ => format!("only for an outbox of layout `eventlog`, which {:?} is not", subscription.outbox),
    };
    Err(table.problem("aliases", Code::ConfigValue, &why))
}

/// If the relay stops waiting for a batch while its requests are in flight, the outcome of the whole batch is unknown.
fn check_patience(
    table: &ConfigTable<'_>,
    subscription: &SubscriptionSettings,
    sinks: &BTreeMap<String, SinkSettings>,
) -> Result<(), Problem> {
    let name = &subscription.sink;
    let above = sinks.get(name).map_or(Duration::ZERO, |sink| sink.target.publish_timeout_above());
    if subscription.policy.publish_timeout > above {
        return Ok(());
    }
    let why = format!("it must be more than 1.5 times the timeout of sink {name:?}");
    Err(table.problem("publish_timeout", Code::ConfigValue, &why))
}

/// Finds a rule whose destination the sink never uses, or that lets events choose where a token is sent, before
/// anything starts.
fn check_destinations(
    table: &ConfigTable<'_>,
    subscription: &SubscriptionSettings,
    sinks: &BTreeMap<String, SinkSettings>,
) -> Result<(), Problem> {
    let Some(sink) = sinks.get(&subscription.sink) else { return Ok(()) };
    let router = subscription.router(&table.name());
    let fitting = router.and_then(|router| router.for_destinations(sink.target.destinations()));
    fitting.map(|_| ()).map_err(|error| {
        let why = format!("sink {:?}: {}", subscription.sink, error.message());
        table.table_problem(error.code(), &why)
    })
}

/// All sections of a kind by name; collects the problems of all of them.
fn named<T>(
    tables: &[ConfigTable<'_>],
    problems: &mut Vec<Problem>,
    make: impl Fn(&ConfigTable<'_>) -> Result<T, Problem>,
) -> BTreeMap<String, T> {
    kept(tables.iter().map(|table| Ok((table.name(), make(table)?))), problems).into_iter().collect()
}

fn kept<T>(results: impl Iterator<Item = Result<T, Problem>>, problems: &mut Vec<Problem>) -> Vec<T> {
    results.filter_map(|result| result.map_err(|problem| problems.push(problem)).ok()).collect()
}
