//! The checks of `postrider doctor`.
//!
//! 1. [`mod@check`]: every check with its code, its meaning and what to do
//! 2. [`report`]: the findings
//! 3. [`crate::sinks`]: the checks of each type of sink
//! 4. `sqlite`, `postgres`, `mysql`: the checks of each database; `server`: what the last two share
//! 5. `layout`: a table with a state per row, in any database
//! 6. `schemas`: the schemas of a sink, and their registry
//! 7. `ledger`: the subscriptions, in any database

pub mod check;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod layout;
mod ledger;
#[cfg(feature = "schemas")]
mod schemas;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub mod report;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod server;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use std::time::Duration;

pub use check::Check;
pub use report::{Report, Severity, Subject};
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) use server::Server;

use postrider::relay::handler_registration;

use crate::config::Settings;
#[cfg(feature = "schemas")]
use crate::config::settings::Encoding;
use crate::config::settings::OutboxSettings;

/// Undelivered events are counted up to this number.
const BACKLOG_MAX: u64 = 100_000;

/// Rows of the inbox that wait to be deleted are counted up to this number.
const INBOX_ROWS_MAX: i64 = 10_000;

/// Rows of the inbox that expired longer ago should have been deleted.
const INBOX_EXPIRED: Duration = Duration::from_secs(86_400);

/// Clocks that differ by less are not reported.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(60);

/// Options of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Read the whole database.
    pub deep: bool,
    /// A transaction that is open for longer is reported.
    pub transaction_age_max: Duration,
}

/// Runs every check. A check that cannot be performed is a finding, not an error.
pub async fn check(settings: &Settings, options: &Options) -> Report {
    let mut report = Report::default();
    for (name, sink) in &settings.sinks {
        let mut subject = report.subject(format!("sink {name}"));
        sink.target.check(&mut subject).await;
        #[cfg(feature = "schemas")]
        if let Encoding::Schema(config) = &sink.encoding {
            schemas::check(config, &mut subject).await;
        }
    }
    for (name, of) in &settings.outboxes {
        let mut subject = report.subject(format!("outbox {name}"));
        outbox(name, of, settings, options, &mut subject).await;
    }
    report
}

/// Checks an outbox. Its subscriptions are read only if the checks of the database passed.
async fn outbox(
    name: &str,
    of: &OutboxSettings,
    settings: &Settings,
    options: &Options,
    subject: &mut Subject<'_>,
) {
    let rows = of.database.admin().row_table();
    let deletes =
        of.retention.deletes(rows).unwrap_or_else(|| "nothing is deleted from the outbox".to_owned());
    let inbox = of.retention.deletes_from_inbox(rows);
    subject.ok(Check::RetentionDeletes, format!("{deletes}; {inbox}"));
    if !of.database.check(options, subject).await {
        return;
    }
    inbox_rows(of.database.inbox_health(of.retention.inbox_purge().older_than).await, subject);
    match of.database.admin().overview(BACKLOG_MAX).await {
        Ok(overview) => {
            ledger::check(name, &overview, settings, subject);
            handlers(name, of, settings, subject).await;
        }
        Err(error) => subject.refused(Check::Readable, &error),
    }
}

/// Reports subscriptions of the configuration that a program has registered as its handlers.
async fn handlers(outbox: &str, of: &OutboxSettings, settings: &Settings, subject: &mut Subject<'_>) {
    let configured: Vec<&String> =
        settings.subscriptions.iter().filter(|(_, of)| of.reads(outbox)).map(|(name, _)| name).collect();
    if configured.is_empty() {
        return;
    }
    let store = match of.database.open().await {
        Ok(store) => store,
        Err(error) => return subject.unchecked(Check::SubscriptionNotHandler, &error.one_line()),
    };
    for name in configured {
        let mut subject = subject.part(name);
        match handler_registration(&*store, name).await {
            Ok(None) => subject.ok(Check::SubscriptionNotHandler, "no program has a handler with its name"),
            Ok(Some(of)) => subject.fail(
                Check::SubscriptionNotHandler,
                format!("it is a handler of a program: {} registered it at {}", of.made_by, of.made_at),
            ),
            Err(error) => subject.unchecked(Check::SubscriptionNotHandler, &error.one_line()),
        }
    }
    store.close().await;
}

/// What was found in the table of the inbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InboxHealth {
    /// Rows that a relay would have deleted a day ago, up to a limit.
    pub(crate) expired: i64,
    /// Its key is that of the migrations.
    pub(crate) has_key: bool,
}

/// Reports an inbox without its key, and rows that a relay would have deleted.
fn inbox_rows(found: Result<InboxHealth, String>, subject: &mut Subject<'_>) {
    match &found {
        Ok(InboxHealth { has_key: true, .. }) => {
            subject.ok(Check::InboxKey, "its key is (consumer_group, event_id)")
        }
        Ok(_) => subject.fail(Check::InboxKey, "the table has no unique key (consumer_group, event_id)"),
        Err(error) => subject.unchecked(Check::InboxKey, error),
    }
    match found.map(|found| found.expired) {
        Ok(0) => subject.ok(Check::InboxCleaned, "no expired row waits"),
        Ok(rows) => {
            let more = if rows >= INBOX_ROWS_MAX { "at least " } else { "" };
            let what = format!("{more}{rows} row(s) expired more than a day ago and are not deleted");
            subject.warn(Check::InboxCleaned, what);
        }
        Err(error) => subject.unchecked(Check::InboxCleaned, &error),
    }
}
