//! A table with a state per row under test, on any database. The operations of the suites and of the relay cases are
//! written once; a database contributes only the SQL that differs.

use std::sync::Arc;
use std::time::Duration;

use postrider::layout::{Ability, FanOutPolicy, RowLayout, RowTable};
use postrider::store::{Acquired, Budget, Claimed, LeaseRequest, Start, Store};
use postrider::{Result, StoredEvent};
use postrider_testkit::conformance::rows::{ATTEMPTS_MAX, Refusing, RowState, RowsUnderTest};

use crate::relay_cases::Table;
use crate::test_layouts::{LAYOUTS, TestLayout};

/// A database with a table and with Postrider's tables.
///
/// Statements may contain `{t}` for a table of a layout, and `{ledger}.` before the name of one of Postrider's tables.
pub(crate) trait RowDatabase: Sized + Send + Sync + 'static {
    /// The current time, in UTC.
    const NOW: &'static str;

    /// A new UUID.
    const NEW_UUID: &'static str = "";
    /// Whether the lock of a row that is being published excludes updates of other connections.
    const LOCKS_EXCLUDE_UPDATES: bool = false;

    fn is_available() -> bool {
        true
    }

    /// A new database with the table of a layout.
    fn create(layout: RowLayout) -> impl Future<Output = Result<Self>> + Send;

    /// The same table, shared with other publishers or not.
    fn with_sharing(self, is_shared: bool) -> Self;

    /// The same table of layout `eventlog` with these settings.
    fn with_fan_out(self, _: FanOutPolicy) -> Self {
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
    fn insert_sql(&self, key: &str, number: usize) -> String {
        TestLayout::of(self.layout()).insert(Self::NEW_UUID, key, number)
    }

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
    Ok(match table.layout().has(Ability::Notifications) {
        true => table,
        false => table.max_attempts(ATTEMPTS_MAX),
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
        let (attempts, status) = (self.layout().spec().attempts, D::text("status"));
        let sql = format!(
            "SELECT {attempts}, CASE WHEN lower({status}) = 'failed' THEN 1 ELSE 0 END FROM {{t}}
             WHERE lower({status}) NOT IN ('sent', 'published')"
        );
        attempts_and_flag(self, &sql).await
    }

    async fn attempts_max(&self) -> Result<u32> {
        let most = number(self, &format!("SELECT max({}) FROM {{t}}", self.layout().spec().attempts)).await?;
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
        if !self.layout().has(Ability::PublishingState) {
            return Ok(false);
        }
        let row = is_row::<D>(self.layout(), key, number);
        let condition = format!("OLD.status = 'PUBLISHING' AND NEW.status = 'PENDING' AND {row}");
        self.refuse_updates("{t}", &condition, Refusing::WithAnError).await
    }

    /// A layout with a state for rows that are being published counts the one attempt that succeeded.
    fn counts_success(&self) -> bool {
        self.layout().has(Ability::PublishingState)
    }

    fn marks(&self) -> bool {
        self.is_shared() && self.layout().has(Ability::PublishingState)
    }
}

/// The condition that matches one row in a trigger, by its key and number.
fn is_row<D: RowDatabase>(layout: RowLayout, key: &str, number: usize) -> String {
    let column = TestLayout::of(layout).key;
    format!("OLD.{column} = '{key}' AND {} = '{{\"n\": {number}}}'", D::text("OLD.payload"))
}

/// The table of the layout at an index of [`LAYOUTS`], shared with other publishers or not.
pub(crate) struct LayoutTable<D, const LAYOUT: usize, const SHARED: bool = false>(D);

impl<D: RowDatabase, const LAYOUT: usize, const SHARED: bool> LayoutTable<D, LAYOUT, SHARED> {
    const TEST: &'static TestLayout = &LAYOUTS[LAYOUT];
    const LAYOUT: RowLayout = Self::TEST.layout;

    /// Runs an UPDATE on one row.
    async fn update(&self, sql: &str, id: &str) -> Result<()> {
        self.0.execute(&format!("UPDATE {{t}} SET {sql} WHERE {} = '{id}'", D::text("id"))).await
    }
}

impl<D, const LAYOUT: usize, const SHARED: bool> RowsUnderTest for LayoutTable<D, LAYOUT, SHARED>
where
    D: RowDatabase,
{
    const MARKS: bool = SHARED && Self::TEST.poller.is_none();
    const UPDATES_WAIT: bool = SHARED && Self::TEST.poller.is_some() && D::LOCKS_EXCLUDE_UPDATES;

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
        let state = Self::TEST.state_cases;
        let sql = format!(
            "SELECT CASE {state} ELSE 'retry' END, {} FROM {{t}} WHERE {} = '{id}'",
            Self::LAYOUT.spec().attempts,
            D::text("id")
        );
        Ok(self.0.rows(&sql).await?.first().map(|row| row_state(row)))
    }

    async fn put_back(&self, id: &str) -> Result<()> {
        self.update(Self::TEST.reset, id).await
    }

    async fn deliver_elsewhere(&self, id: &str) -> Result<()> {
        self.update(&Self::TEST.delivered(D::NOW), id).await
    }

    async fn refuse(&self, ids: &[&str], how: Refusing) -> Result<bool> {
        self.0.refuse_updates("{t}", &format!("{} IN ({})", D::text("OLD.id"), listed(ids)), how).await
    }

    async fn refuse_waiting(&self, ids: &[&str]) -> Result<bool> {
        let condition = format!("NEW.status = 'PENDING' AND {} IN ({})", D::text("OLD.id"), listed(ids));
        self.0.refuse_updates("{t}", &condition, Refusing::WithAnError).await
    }

    async fn count_to_the_end(&self, id: &str) -> Result<bool> {
        let most = Self::TEST.attempts_top;
        self.update(&format!("{} = {most}", Self::LAYOUT.spec().attempts), id).await?;
        Ok(true)
    }

    async fn expire_lease(&self) -> Result<()> {
        self.0.expire().await
    }

    async fn age(&self) -> Result<()> {
        self.0.make_older("{t}", Self::TEST.times).await
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
