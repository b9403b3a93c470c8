//! The checks of `postrider doctor`.
//!
//! 1. [`mod@check`]: every check there is, with its code, what it means and what to do
//! 2. [`report`]: what was found
//! 3. [`crate::sinks`]: what is particular about each type of sink
//! 4. `sqlite`, `postgres`, `mysql`: what is particular about each kind of database
//! 5. `layout`: a table with a state per row in any of them
//! 6. `ledger`: the subscriptions of any database

pub mod check;
pub mod report;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod layout;
mod ledger;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use std::time::Duration;

pub use check::Check;
pub use report::{Report, Severity, Subject};

use crate::config::Settings;
use crate::config::settings::OutboxSettings;

/// Events that wait are counted up to here.
const BACKLOG_MAX: u64 = 100_000;

/// How closely to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Read the whole database.
    pub deep: bool,
    /// A transaction that is open for longer is reported.
    pub transaction_age_max: Duration,
}

/// A server to check.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) struct Server<'a, C> {
    pub(crate) config: &'a C,
    pub(crate) schema: &'a postrider::Ident,
    pub(crate) admin: &'a dyn postrider::store::admin::Admin,
    pub(crate) shown: &'a str,
}

/// Runs every check. What cannot be looked at is a finding, not an error.
pub async fn check(settings: &Settings, options: &Options) -> Report {
    let mut report = Report::default();
    for (name, sink) in &settings.sinks {
        sink.target.check(&mut report.subject(format!("sink {name}"))).await;
    }
    for (name, of) in &settings.outboxes {
        let mut subject = report.subject(format!("outbox {name}"));
        outbox(name, of, settings, options, &mut subject).await;
    }
    report
}

/// The ledger is read only from a database that is as it should be.
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
    match of.database.admin().overview(BACKLOG_MAX).await {
        Ok(overview) => ledger::check(name, &overview, settings, subject),
        Err(error) => subject.refused(Check::Readable, &error),
    }
}
