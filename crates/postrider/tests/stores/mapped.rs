//! User-defined tables, each with its column map: the same on every database, except for the SQL in which they differ.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use postrider::Result;
use postrider::layout::{ColumnMap, MappedField, StateWord, States};
use postrider::store::Store;
use postrider_testkit::conformance::rows::{Refusing, RowState, RowsUnderTest};

use crate::relay_cases::Table;
use crate::row_database::{RowDatabase, attempts_and_flag, dead, listed, number, row_state};

/// How a table records that a row was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In a column with custom state values; ids are texts; names need quotes.
    Status,
    /// In a time that is NULL until then; ids are numbers.
    Time,
    /// Not at all: Debezium's columns, and one with a time.
    Noted,
    /// By deleting the row: Debezium's columns.
    Deleted,
}

pub(crate) const KINDS: [Kind; 4] = [Kind::Status, Kind::Time, Kind::Noted, Kind::Deleted];

/// Rows that are given up according to Postrider's notes.
const GIVEN_UP: &str = "n.state IN ('dead', 'unrouted')";

/// A database with such a table.
pub(crate) trait MappedDatabase: RowDatabase {
    const TABLE: &'static str;

    /// The quotes around names.
    const QUOTE: char;

    /// The highest value of the column with attempts.
    const ATTEMPTS_TOP: u32;

    /// A new database with the table, and without Postrider's own tables.
    fn create_unmapped(kind: Kind) -> impl Future<Output = Result<Self>> + Send;

    /// Creates Postrider's own tables.
    fn migrate(&self) -> impl Future<Output = Result<()>> + Send;

    /// The INSERT of one row, and its id unless the database assigns it.
    fn insert_mapped(kind: Kind, key: &str, number: usize) -> (String, Option<String>) {
        kind.insert_with_id(Self::TABLE, Self::QUOTE, key, number)
    }

    /// The columns and values of a note about a delivered row.
    fn note_of_delivery(id: &str) -> (&'static str, String) {
        ("row_id", format!("'{id}'"))
    }

    /// The columns with times, in quotes.
    fn times(kind: Kind) -> &'static [&'static str] {
        if kind == Kind::Time { &["made", "sent"] } else { &["made"] }
    }
}

/// The SQL that reads a kind of table, with Postrider's notes.
pub(crate) struct RowSql {
    /// The id as text.
    pub(crate) id: String,
    pub(crate) is_delivered: &'static str,
    pub(crate) is_given_up: &'static str,
    pub(crate) attempts: &'static str,
    /// The FROM clause.
    pub(crate) from: String,
}

impl RowSql {
    pub(crate) fn of<D: MappedDatabase>(kind: Kind) -> Self {
        let (id, is_delivered, is_given_up, attempts) = match kind {
            Kind::Status => {
                (format!("t.{0}eventId{0}", D::QUOTE), "t.step = 'out'", "t.step = 'stuck'", "t.tries")
            }
            Kind::Time => ("t.number".to_owned(), "t.sent IS NOT NULL", GIVEN_UP, "n.attempts"),
            Kind::Noted => ("t.id".to_owned(), "d.row_id IS NOT NULL", GIVEN_UP, "n.attempts"),
            Kind::Deleted => ("t.id".to_owned(), "1 = 0", GIVEN_UP, "n.attempts"),
        };
        let id = D::text(&id);
        let from = format!(
            "FROM {1}{0}{1} AS t LEFT JOIN {{ledger}}.row_notes AS n ON n.row_id = {id}
             LEFT JOIN {{ledger}}.row_done AS d ON d.row_id = {id}",
            D::TABLE,
            D::QUOTE
        );
        Self { id, is_delivered, is_given_up, attempts, from }
    }
}

/// The number of rows that are not delivered, by the table and Postrider's notes together.
pub(crate) async fn undelivered<D: MappedDatabase>(database: &D, kind: Kind) -> Result<usize> {
    let RowSql { is_delivered, from, .. } = RowSql::of::<D>(kind);
    number(database, &format!("SELECT count(*) {from} WHERE NOT ({is_delivered})")).await
}

/// A table of the kind at an index of [`KINDS`], shared with other publishers or not.
pub(crate) struct MappedTable<D, const KIND: usize, const SHARED: bool = false> {
    pub(crate) database: D,
    /// The number of rows that were written.
    written: AtomicUsize,
}

impl<D: MappedDatabase, const KIND: usize, const SHARED: bool> MappedTable<D, KIND, SHARED> {
    const KIND: Kind = KINDS[KIND];

    pub(crate) async fn new() -> Result<Self> {
        let database = D::create_unmapped(Self::KIND).await?.with_sharing(SHARED);
        database.migrate().await?;
        Ok(Self { database, written: AtomicUsize::new(0) })
    }

    /// Runs an UPDATE on one row.
    async fn update(&self, sql: &str, id: &str) -> Result<()> {
        let (quote, table) = (D::QUOTE, D::TABLE);
        let row = RowSql::of::<D>(Self::KIND).id.replace("t.", "");
        self.database.execute(&format!("UPDATE {quote}{table}{quote} SET {sql} WHERE {row} = '{id}'")).await
    }
}

impl<D: MappedDatabase, const KIND: usize, const SHARED: bool> RowsUnderTest
    for MappedTable<D, KIND, SHARED>
{
    const MARKS: bool = false;
    const SAYS_DELIVERED: bool = Self::KIND.says_delivered();

    fn is_available() -> bool {
        D::is_available()
    }

    async fn fresh() -> Result<Self> {
        Self::new().await
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        self.database.open().await
    }

    async fn write(&self, key: &str, rows: usize) -> Result<Vec<String>> {
        let inserts = (0..rows).map(|number| D::insert_mapped(Self::KIND, key, number)).collect();
        self.database.insert_rows(inserts).await
    }

    async fn row(&self, id: &str) -> Result<Option<(RowState, u32)>> {
        let RowSql { id: key, is_delivered, is_given_up, attempts, from } = RowSql::of::<D>(Self::KIND);
        // The attempts of a delivered row are deleted with its note.
        let delivered_attempts = if Self::KIND == Kind::Status { attempts } else { "0" };
        let sql = format!(
            "SELECT CASE WHEN {is_delivered} THEN 'done' WHEN {is_given_up} THEN 'given up'
                         WHEN coalesce({attempts}, 0) > 0 THEN 'retry' ELSE 'waiting' END,
                    CASE WHEN {is_delivered} THEN {delivered_attempts} ELSE coalesce({attempts}, 0) END
             {from} WHERE {key} = '{id}'"
        );
        Ok(self.database.rows(&sql).await?.first().map(|row| row_state(row)))
    }

    async fn put_back(&self, id: &str) -> Result<()> {
        match Self::KIND {
            Kind::Status => self.update("step = 'new', tries = 0", id).await,
            // Without a column for the state, only the note records it.
            _ => {
                self.database
                    .execute(&format!("DELETE FROM {{ledger}}.row_notes WHERE row_id = '{id}'"))
                    .await
            }
        }
    }

    async fn deliver_elsewhere(&self, id: &str) -> Result<()> {
        match Self::KIND {
            Kind::Status => self.update("step = 'out'", id).await,
            Kind::Time => self.update(&format!("sent = {}", D::NOW), id).await,
            _ => {
                let (columns, values) = D::note_of_delivery(id);
                let sql = format!("INSERT INTO {{ledger}}.row_done ({columns}) VALUES ({values})");
                self.database.execute(&sql).await
            }
        }
    }

    async fn refuse(&self, ids: &[&str], how: Refusing) -> Result<bool> {
        // Rows of other kinds are never updated.
        if !Self::KIND.says_delivered() {
            return Ok(false);
        }
        let row = RowSql::of::<D>(Self::KIND).id.replace("t.", "OLD.");
        let table = format!("{1}{0}{1}", D::TABLE, D::QUOTE);
        self.database.refuse_updates(&table, &format!("{row} IN ({})", listed(ids)), how).await
    }

    async fn count_to_the_end(&self, id: &str) -> Result<bool> {
        if Self::KIND != Kind::Status {
            return Ok(false);
        }
        self.update(&format!("tries = {}", D::ATTEMPTS_TOP), id).await?;
        Ok(true)
    }

    async fn expire_lease(&self) -> Result<()> {
        self.database.expire().await
    }

    async fn age(&self) -> Result<()> {
        let table = format!("{1}{0}{1}", D::TABLE, D::QUOTE);
        self.database.make_older(&table, D::times(Self::KIND)).await
    }
}

impl<D: MappedDatabase, const KIND: usize, const SHARED: bool> Table for MappedTable<D, KIND, SHARED> {
    async fn store(&self) -> Result<Arc<dyn Store>> {
        self.database.open().await
    }

    async fn write(&self, key: &str, number: usize) -> Result<()> {
        self.written.fetch_add(1, Ordering::Relaxed);
        self.database.execute(&D::insert_mapped(Self::KIND, key, number).0).await
    }

    async fn delivered(&self) -> Result<usize> {
        Ok(self.written.load(Ordering::Relaxed) - undelivered(&self.database, Self::KIND).await?)
    }

    async fn undelivered(&self) -> Result<Vec<(u32, bool)>> {
        let RowSql { is_delivered, is_given_up, attempts, from, .. } = RowSql::of::<D>(Self::KIND);
        let sql = format!(
            "SELECT coalesce({attempts}, 0), CASE WHEN {is_given_up} THEN 1 ELSE 0 END {from}
             WHERE NOT ({is_delivered})"
        );
        attempts_and_flag(&self.database, &sql).await
    }

    async fn attempts_max(&self) -> Result<u32> {
        let RowSql { attempts, from, .. } = RowSql::of::<D>(Self::KIND);
        let most = number(&self.database, &format!("SELECT coalesce(max({attempts}), 0) {from}")).await?;
        Ok(u32::try_from(most).unwrap())
    }

    async fn dead(&self) -> Result<Vec<String>> {
        dead(&self.database).await
    }

    async fn claims(&self) -> Result<usize> {
        self.database.claims_recorded().await
    }
}

/// Each relay case on every kind of table of a database.
macro_rules! mapped_relay_tests {
    ($database:ty) => {
        crate::mapped::mapped_relay_tests! { $database =>
            every_key_of_a_mapped_table_arrives_in_its_order_and_once: every_key_arrives_in_its_order_and_once
            a_poison_row_of_a_mapped_table_is_given_up_and_delays_only_its_own_key: a_poison_row_is_given_up_and_delays_only_its_own_key
            an_outage_counts_no_attempt_of_a_mapped_row: an_outage_counts_no_attempt_of_any_row
            mapped_rows_that_a_killed_relay_had_claimed_are_delivered_by_the_next: rows_that_a_killed_relay_had_claimed_are_delivered_by_the_next
        }
    };
    ($database:ty => $($test:ident: $case:ident)+) => { $(
        #[tokio::test]
        async fn $test() -> postrider::Result<()> {
            use crate::mapped::MappedTable;

            if !<$database as crate::row_database::RowDatabase>::is_available() {
                return Ok(());
            }
            crate::relay_cases::$case(MappedTable::<$database, 0>::new().await?).await?;
            crate::relay_cases::$case(MappedTable::<$database, 1>::new().await?).await?;
            crate::relay_cases::$case(MappedTable::<$database, 2>::new().await?).await?;
            crate::relay_cases::$case(MappedTable::<$database, 3>::new().await?).await
        }
    )+ };
}
pub(crate) use mapped_relay_tests;

impl Kind {
    /// The map of the table, with the columns that only this database has or names differently.
    pub(crate) fn map(self, also: &[(MappedField, &str)]) -> Result<ColumnMap> {
        let shared: &[(MappedField, &str)] = match self {
            Self::Status => &[
                (MappedField::Id, "eventId"),
                (MappedField::Type, "kind"),
                (MappedField::Key, "group by"),
                (MappedField::Payload, "body"),
                (MappedField::Headers, "extra"),
                (MappedField::CreatedAt, "made"),
                (MappedField::Status, "step"),
                (MappedField::Attempts, "tries"),
            ],
            Self::Time => &[
                (MappedField::Id, "number"),
                (MappedField::Type, "name"),
                (MappedField::Key, "part"),
                (MappedField::Payload, "data"),
                (MappedField::CreatedAt, "made"),
                (MappedField::DeliveredAt, "sent"),
            ],
            Self::Noted | Self::Deleted => &[],
        };
        let begin = if shared.is_empty() { ColumnMap::debezium() } else { ColumnMap::new() };
        let map = with(with(begin, shared)?, also)?;
        Ok(match self {
            Self::Status => map.states(states(["new"], "out", Some("stuck"))?),
            Self::Deleted => map.deleting(),
            Self::Time | Self::Noted => map,
        })
    }

    /// The INSERT of a program without Postrider, and the id of its row, unless the database assigns it. Ids that are
    /// texts descend while rows are written.
    pub(crate) fn insert_with_id(
        self,
        table: &str,
        quote: char,
        key: &str,
        number: usize,
    ) -> (String, Option<String>) {
        static ID: AtomicU32 = AtomicU32::new(900_000);
        let id = format!("e-{}", ID.fetch_sub(1, Ordering::Relaxed));
        let table = format!("{quote}{table}{quote}");
        let payload = format!("{{\"n\": {number}}}");
        let sql = match self {
            Self::Status => format!(
                "INSERT INTO {table} ({quote}eventId{quote}, kind, {quote}group by{quote}, body)
                 VALUES ('{id}', 'order.placed', '{key}', '{payload}')"
            ),
            Self::Time => {
                format!(
                    "INSERT INTO {table} (name, part, data) VALUES ('order.placed', '{key}', '{payload}')"
                )
            }
            Self::Noted | Self::Deleted => format!(
                "INSERT INTO {table} (id, aggregatetype, aggregateid, type, payload)
                 VALUES ('{id}', 'Order', '{key}', 'order.placed', '{payload}')"
            ),
        };
        (sql, (self != Self::Time).then_some(id))
    }

    /// Whether the table itself records that a row was delivered.
    pub(crate) const fn says_delivered(self) -> bool {
        matches!(self, Self::Status | Self::Time)
    }
}

/// A map with these columns.
pub(crate) fn columns(columns: &[(MappedField, &str)]) -> Result<ColumnMap> {
    with(ColumnMap::new(), columns)
}

fn with(map: ColumnMap, columns: &[(MappedField, &str)]) -> Result<ColumnMap> {
    columns.iter().try_fold(map, |map, (field, name)| map.with(*field, name))
}

/// The state values of rows that wait, of delivered ones and of given up ones.
pub(crate) fn states<const N: usize>(waiting: [&str; N], done: &str, failed: Option<&str>) -> Result<States> {
    let mut waiting = waiting.into_iter().map(StateWord::new).collect::<Result<Vec<_>>>()?;
    let pending = waiting.remove(0);
    let failed = failed.map(StateWord::new).transpose()?;
    Ok(States { pending, also_pending: waiting, done: StateWord::new(done)?, failed })
}

/// The columns of watermill's tables.
pub(crate) fn watermill() -> Result<ColumnMap> {
    columns(&[
        (MappedField::Id, "offset"),
        (MappedField::EventId, "uuid"),
        (MappedField::Payload, "payload"),
        (MappedField::Headers, "metadata"),
        (MappedField::CreatedAt, "created_at"),
        (MappedField::Order, "offset"),
    ])
}

/// The columns of CAP's table, and additional ones. A row waits as `Scheduled` or as `Delayed`.
pub(crate) fn cap(failed: Option<&str>, also: &[(MappedField, &str)]) -> Result<ColumnMap> {
    let map = columns(&[
        (MappedField::Id, "Id"),
        (MappedField::Type, "Name"),
        (MappedField::Payload, "Content"),
        (MappedField::CreatedAt, "Added"),
        (MappedField::Attempts, "Retries"),
        (MappedField::Status, "StatusName"),
    ])?;
    Ok(with(map, also)?.states(states(["Scheduled", "Delayed"], "Succeeded", failed)?))
}
