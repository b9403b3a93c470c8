//! A table with a state per row under test, on any database. The operations of the suites and of the relay cases are
//! written once; a database contributes only the SQL that differs.

use std::sync::Arc;
use std::time::Duration;

use postrider::layout::{FanOut, RowLayout, RowTable};
use postrider::store::{Acquired, Budget, Claimed, LeaseRequest, Start, Store};
use postrider::{Result, StoredEvent};
use postrider_testkit::conformance::rows::{ATTEMPTS_MAX, Refusing, RowState, RowsUnderTest};

use crate::relay_cases::Table;

/// The layouts whose outbox has a state per row.
pub(crate) const STATE_PER_ROW: [RowLayout; 3] =
    [RowLayout::EventOutbox, RowLayout::Outbox, RowLayout::OutboxEvents];

/// A database with a table and with Postrider's tables.
///
/// Statements may contain `{t}` for a table of a layout, and `{ledger}.` before the name of one of Postrider's tables.
pub(crate) trait RowDatabase: Sized + Send + Sync + 'static {
    /// The current time, in UTC.
    const NOW: &'static str;

    fn is_available() -> bool {
        true
    }

    /// A new database with the table of a layout.
    fn create(layout: RowLayout) -> impl Future<Output = Result<Self>> + Send;

    /// The same table, shared with other publishers or not.
    fn with_sharing(self, is_shared: bool) -> Self;

    /// The same table of layout `eventlog` with these settings.
    fn with_fan_out(self, _: FanOut) -> Self {
        self
    }

    fn is_shared(&self) -> bool;

    fn layout(&self) -> RowLayout;

    fn open(&self) -> impl Future<Output = Result<Arc<dyn Store>>> + Send;

    fn execute(&self, sql: &str) -> impl Future<Output = Result<()>> + Send;

    /// Every row of a query, with its values as text. NULL is the empty text.
    fn rows(&self, sql: &str) -> impl Future<Output = Result<Vec<Vec<String>>>> + Send;

    /// The expression as text that compares byte by byte.
    fn text(expression: &str) -> String;

    /// The INSERT of one row, as a program without Postrider would write it.
    fn insert_sql(&self, key: &str, number: usize) -> String;

    /// Runs INSERTs in one transaction and returns the ids of their rows. Each comes with its id, unless the database
    /// assigns it.
    fn insert_rows(
        &self,
        inserts: Vec<(String, Option<String>)>,
    ) -> impl Future<Output = Result<Vec<String>>> + Send;

    /// Makes the table refuse every UPDATE of the rows for which a condition over `OLD` and `NEW` holds. Returns whether
    /// the database can refuse in this way.
    fn refuse_updates(
        &self,
        table: &str,
        condition: &str,
        how: Refusing,
    ) -> impl Future<Output = Result<bool>> + Send;

    fn expire(&self) -> impl Future<Output = Result<()>> + Send;

    /// Makes every row two days older in these columns, and Postrider's notes about it.
    fn make_older(&self, table: &str, times: &[&str]) -> impl Future<Output = Result<()>> + Send;

    /// The number of recorded claims that are not settled, on databases that record claims.
    fn claims_recorded(&self) -> impl Future<Output = Result<usize>> + Send {
        std::future::ready(Ok(0))
    }
}

/// The table with the limit of attempts that the suites expect. Layout `eventlog` has none.
pub(crate) fn limited(table: RowTable) -> Result<RowTable> {
    Ok(match table.layout() {
        RowLayout::Eventlog => table,
        _ => table.max_attempts(ATTEMPTS_MAX),
    })
}

/// The first value of a query.
pub(crate) async fn number(database: &impl RowDatabase, sql: &str) -> Result<usize> {
    Ok(database.rows(sql).await?[0][0].parse().unwrap_or_default())
}

/// Ids as a list of texts.
pub(crate) fn listed(ids: &[&str]) -> String {
    ids.iter().map(|id| format!("'{id}'")).collect::<Vec<_>>().join(", ")
}

/// The column that counts attempts.
pub(crate) fn attempts(layout: RowLayout) -> &'static str {
    match layout {
        RowLayout::EventOutbox => "attempts",
        RowLayout::Outbox => "retry_count",
        RowLayout::OutboxEvents => "attempt_count",
        other => panic!("no rows of {other:?} here"),
    }
}

pub(crate) fn lease(duration: Duration) -> LeaseRequest {
    LeaseRequest { subscription: "mail".to_owned(), holder: "test".to_owned(), duration }
}

/// All rows that a relay would read.
pub(crate) async fn read(database: &impl RowDatabase) -> Result<Vec<StoredEvent>> {
    let store = database.open().await?;
    store.subscribe("mail", Start::Beginning).await?;
    let acquired = store.acquire(lease(Duration::from_secs(600))).await?;
    let Acquired::Granted(loaded) = acquired else { panic!("the lease is free") };
    let budget = Budget::new(1_000, 1_000_000);
    match store.claimer(&loaded.progress).claim(budget).await? {
        Claimed::Page(page) => Ok(page.events),
        other => panic!("{other:?}"),
    }
}

/// On `outbox_events` with a payload of text and a column `max_attempts`.
pub(crate) async fn a_payload_from_a_text_column_arrives(database: &impl RowDatabase) -> Result<()> {
    let large = "x".repeat(3_000);
    let insert = format!(
        "INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload, max_attempts)
         VALUES ('Order', '1', 'a', 'no JSON: ü', 7), ('Order', '1', 'a', '{large}', NULL)"
    );
    database.execute(&insert).await?;
    let events = read(database).await?;
    assert_eq!(events[0].event.payload, "no JSON: ü");
    assert_eq!(events[0].event.max_attempts, Some(7), "the column of the row is the limit");
    assert_eq!((events[1].event.payload.len(), events[1].event.max_attempts), (3_000, Some(3)));
    Ok(())
}

/// The last errors of the rows that are dead according to Postrider's notes.
pub(crate) async fn dead(database: &impl RowDatabase) -> Result<Vec<String>> {
    let sql = "SELECT coalesce(last_error, '') FROM {ledger}.row_notes WHERE state = 'dead'";
    Ok(database.rows(sql).await?.into_iter().flatten().collect())
}

/// Reads rows of two numbers: attempts, and 1 for `true`.
pub(crate) async fn attempts_and_flag(database: &impl RowDatabase, sql: &str) -> Result<Vec<(u32, bool)>> {
    let rows = database.rows(sql).await?;
    Ok(rows.iter().map(|row| (row[0].parse().unwrap(), row[1] == "1")).collect())
}

impl<D: RowDatabase> Table for D {
    async fn store(&self) -> Result<Arc<dyn Store>> {
        self.open().await
    }

    async fn write(&self, key: &str, number: usize) -> Result<()> {
        self.execute(&self.insert_sql(key, number)).await
    }

    async fn delivered(&self) -> Result<usize> {
        let status = D::text("status");
        let sql = format!("SELECT count(*) FROM {{t}} WHERE lower({status}) IN ('sent', 'published')");
        number(self, &sql).await
    }

    async fn undelivered(&self) -> Result<Vec<(u32, bool)>> {
        let (attempts, status) = (attempts(self.layout()), D::text("status"));
        let sql = format!(
            "SELECT {attempts}, CASE WHEN lower({status}) = 'failed' THEN 1 ELSE 0 END FROM {{t}}
             WHERE lower({status}) NOT IN ('sent', 'published')"
        );
        attempts_and_flag(self, &sql).await
    }

    async fn attempts_max(&self) -> Result<u32> {
        let most = number(self, &format!("SELECT max({}) FROM {{t}}", attempts(self.layout()))).await?;
        Ok(u32::try_from(most).unwrap())
    }

    async fn dead(&self) -> Result<Vec<String>> {
        dead(self).await
    }

    async fn claims(&self) -> Result<usize> {
        self.claims_recorded().await
    }

    async fn refuse(&self, key: &str, number: usize) -> Result<bool> {
        self.refuse_updates("{t}", &is_row::<D>(self.layout(), key, number), Refusing::WithAnError).await
    }

    async fn refuse_release(&self, key: &str, number: usize) -> Result<bool> {
        if self.layout() != RowLayout::OutboxEvents {
            return Ok(false);
        }
        let row = is_row::<D>(self.layout(), key, number);
        let condition = format!("OLD.status = 'PUBLISHING' AND NEW.status = 'PENDING' AND {row}");
        self.refuse_updates("{t}", &condition, Refusing::WithAnError).await
    }

    /// `outbox_events` counts the one attempt that succeeded.
    fn counts_success(&self) -> bool {
        self.layout() == RowLayout::OutboxEvents
    }

    fn marks(&self) -> bool {
        self.is_shared() && self.layout() == RowLayout::OutboxEvents
    }
}

/// The condition that matches one row in a trigger, by its key and number.
fn is_row<D: RowDatabase>(layout: RowLayout, key: &str, number: usize) -> String {
    let about = match layout {
        RowLayout::EventOutbox => "entity_pk",
        RowLayout::Outbox => "partition_key",
        RowLayout::OutboxEvents => "aggregate_id",
        other => panic!("no rows of {other:?} here"),
    };
    format!("OLD.{about} = '{key}' AND {} = '{{\"n\": {number}}}'", D::text("OLD.payload"))
}

/// The table of the layout at an index of [`STATE_PER_ROW`], shared with other publishers or not.
pub(crate) struct LayoutTable<D, const LAYOUT: usize, const SHARED: bool = false>(D);

impl<D: RowDatabase, const LAYOUT: usize, const SHARED: bool> LayoutTable<D, LAYOUT, SHARED> {
    const LAYOUT: RowLayout = STATE_PER_ROW[LAYOUT];

    /// Runs an UPDATE on one row.
    async fn update(&self, sql: &str, id: &str) -> Result<()> {
        self.0.execute(&format!("UPDATE {{t}} SET {sql} WHERE {} = '{id}'", D::text("id"))).await
    }
}

impl<D, const LAYOUT: usize, const SHARED: bool> RowsUnderTest for LayoutTable<D, LAYOUT, SHARED>
where
    D: RowDatabase,
{
    const MARKS: bool = SHARED && matches!(Self::LAYOUT, RowLayout::OutboxEvents);

    fn is_available() -> bool {
        D::is_available()
    }

    async fn fresh() -> Result<Self> {
        Ok(Self(D::create(Self::LAYOUT).await?.with_sharing(SHARED)))
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        self.0.open().await
    }

    async fn write(&self, key: &str, rows: usize) -> Result<Vec<String>> {
        let inserts = (0..rows).map(|number| (self.0.insert_sql(key, number), None)).collect();
        self.0.insert_rows(inserts).await
    }

    async fn row(&self, id: &str) -> Result<Option<(RowState, u32)>> {
        let state = match Self::LAYOUT {
            RowLayout::EventOutbox => {
                "WHEN status = 'sent' THEN 'done'
                 WHEN status = 'pending' THEN 'waiting'
                 WHEN next_attempt_at >= '9999-12-31' THEN 'given up'"
            }
            RowLayout::Outbox => {
                "WHEN status = 'published' THEN 'done'
                 WHEN status = 'failed' THEN 'given up'
                 WHEN retry_count = 0 THEN 'waiting'"
            }
            RowLayout::OutboxEvents => {
                "WHEN status = 'PUBLISHED' THEN 'done'
                 WHEN status = 'PUBLISHING' THEN 'in flight'
                 WHEN status = 'PENDING' THEN 'waiting'
                 WHEN attempt_count >= 3 THEN 'given up'"
            }
            other => panic!("no rows of {other:?} here"),
        };
        let sql = format!(
            "SELECT CASE {state} ELSE 'retry' END, {} FROM {{t}} WHERE {} = '{id}'",
            attempts(Self::LAYOUT),
            D::text("id")
        );
        Ok(self.0.rows(&sql).await?.first().map(|row| row_state(row)))
    }

    async fn put_back(&self, id: &str) -> Result<()> {
        let reset = match Self::LAYOUT {
            RowLayout::EventOutbox => "next_attempt_at = NULL, attempts = 0",
            RowLayout::Outbox => "status = 'pending', retry_count = 0",
            RowLayout::OutboxEvents => "status = 'PENDING', attempt_count = 0",
            other => panic!("no rows of {other:?} here"),
        };
        self.update(reset, id).await
    }

    async fn deliver_elsewhere(&self, id: &str) -> Result<()> {
        let now = D::NOW;
        let delivered = match Self::LAYOUT {
            RowLayout::EventOutbox => format!("status = 'sent', processed_at = {now}"),
            RowLayout::Outbox => format!("status = 'published', published_at = {now}"),
            RowLayout::OutboxEvents => "status = 'PUBLISHED'".to_owned(),
            other => panic!("no rows of {other:?} here"),
        };
        self.update(&delivered, id).await
    }

    async fn refuse(&self, ids: &[&str], how: Refusing) -> Result<bool> {
        self.0.refuse_updates("{t}", &format!("{} IN ({})", D::text("OLD.id"), listed(ids)), how).await
    }

    async fn refuse_waiting(&self, ids: &[&str]) -> Result<bool> {
        let condition = format!("NEW.status = 'PENDING' AND {} IN ({})", D::text("OLD.id"), listed(ids));
        self.0.refuse_updates("{t}", &condition, Refusing::WithAnError).await
    }

    async fn count_to_the_end(&self, id: &str) -> Result<bool> {
        let most = if Self::LAYOUT == RowLayout::Outbox { 32_767 } else { 2_147_483_647 };
        self.update(&format!("{} = {most}", attempts(Self::LAYOUT)), id).await?;
        Ok(true)
    }

    async fn expire_lease(&self) -> Result<()> {
        self.0.expire().await
    }

    async fn age(&self) -> Result<()> {
        let times = match Self::LAYOUT {
            RowLayout::EventOutbox => &["created_at", "processed_at"][..],
            RowLayout::Outbox => &["created_at", "published_at", "expires_at"],
            RowLayout::OutboxEvents => &["created_at"],
            other => panic!("no rows of {other:?} here"),
        };
        self.0.make_older("{t}", times).await
    }
}

/// The state and the attempts in a row with both.
pub(crate) fn row_state(row: &[String]) -> (RowState, u32) {
    let state = match row[0].as_str() {
        "done" => RowState::Done,
        "waiting" => RowState::Waiting,
        "in flight" => RowState::InFlight,
        "given up" => RowState::GivenUp,
        _ => RowState::Retry,
    };
    (state, row[1].parse().unwrap())
}
