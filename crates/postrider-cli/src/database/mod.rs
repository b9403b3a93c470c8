//! What the commands ask of a database: one file per dialect, each with the same verbs. Another dialect is
//! another file and one line in `DIALECTS`.

mod address;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use address::{Address, PoolerChoice, Refused};

use std::fmt;
use std::sync::Arc;

use postrider::adopt::HandsOver;
use postrider::layout::{RowLayout, RowTable};
use postrider::store::{
    EventFilter, ListedEvent, Migrated, Overview, RowExtras, RowsMigrated, Store, Tally, TallyBy,
};
use postrider::{BoxFuture, Code, Error, Event, Outbox, Result, Written};
use serde::Serialize;

use crate::config::settings::OutboxSettings;
use crate::config::url;
use crate::doctor::{Options, Subject};

/// A database this program can work on, by its address. Nothing is opened before a verb needs it. Printed it
/// says which database it is, without a secret.
pub trait Database: fmt::Debug + fmt::Display + Send + Sync {
    /// The store a relay works on. The schema must be there.
    ///
    /// # Errors
    /// [`Code::SchemaMissing`], `SchemaNewer`, or what the database says.
    fn store(&self) -> BoxFuture<'_, Result<Arc<dyn Store>>>;

    /// How all subscriptions are doing. Writes nothing, and needs no right to.
    ///
    /// # Errors
    /// As [`Database::store`].
    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>>;

    /// Transactions of the server that are prepared and not decided yet, where they may hold an outbox up.
    fn undecided(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Events counted by type, hour or producer: `groups_max` groups at most. Writes nothing, and needs no right to.
    ///
    /// # Errors
    /// As [`Database::store`].
    fn tally(&self, by: TallyBy, groups_max: usize) -> BoxFuture<'_, Result<Tally>>;

    /// Which schema there is. Changes nothing.
    ///
    /// # Errors
    /// What the database says.
    fn schema(&self) -> BoxFuture<'_, Result<Schema>>;

    /// Brings the tables up to date, all or nothing, and says which schema was there before.
    ///
    /// # Errors
    /// [`Code::SchemaNewer`], or what the database says.
    fn migrate(&self) -> BoxFuture<'_, Result<Schema>>;

    /// The same for a layout that is asked for, with what is optional in it. Also tells how tables that were there
    /// already differ from it; they were not altered.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`] if this database cannot have it.
    fn migrate_as(&self, layout: Option<RowLayout>, extras: Extras) -> BoxFuture<'_, Result<Made>>;

    /// The SQL that brings an empty database up to date.
    fn migrations(&self) -> String;

    /// The SQL that makes roles with no more rights than each needs.
    ///
    /// # Errors
    /// If this kind of database has none.
    fn roles(&self) -> Result<String>;

    /// Writes events to this database.
    ///
    /// # Errors
    /// What the database says.
    fn writer(&self, outbox: Outbox) -> BoxFuture<'_, Result<Box<dyn EventWriter>>>;

    /// The table with a state per row, if its layout is one of those.
    fn rows(&self) -> Option<&RowTable>;

    /// Its layout, if that is a table with a state per row.
    fn layout(&self) -> Option<RowLayout> {
        self.rows().map(RowTable::layout)
    }

    /// Which database it is in, without a secret: two outboxes that say the same can share a transaction.
    fn place(&self) -> String;

    /// The store for who hands its events over to another outbox. No other process may be at work meanwhile, whatever the
    /// configuration says.
    ///
    /// # Errors
    /// As [`Database::store`].
    fn source(&self) -> BoxFuture<'_, Result<Arc<dyn HandsOver>>>;

    /// The library's handle on what is written here.
    fn target(&self, outbox: Outbox) -> Outbox;

    /// The newest events that pass a filter, newest first. Writes nothing, and needs no right to.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`] if a state is asked for where events have none, or what the database says.
    fn list<'a>(&'a self, filter: &'a EventFilter) -> BoxFuture<'a, Result<Vec<ListedEvent>>>;

    /// How it finds them, in its own words.
    ///
    /// # Errors
    /// As [`Database::list`].
    fn list_plan<'a>(&'a self, filter: &'a EventFilter) -> BoxFuture<'a, Result<Vec<String>>>;

    /// What the doctor finds that is particular about this kind of database; answers whether its tables can be
    /// read.
    fn check<'a>(&'a self, options: &'a Options, subject: &'a mut Subject<'_>) -> BoxFuture<'a, bool>;

    /// Whether a later try may go better by itself, as when a server is down. A file does not come up.
    fn may_come_up(&self, _error: &Error) -> bool {
        false
    }
}

/// What is made only when it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extras {
    /// The index over aggregate type and id, of layout `outbox_events`.
    pub aggregate_index: bool,
    /// The six views of layout `event_outbox`, on a table that already exists; the five of layout `postrider`.
    pub views: bool,
}

impl From<Extras> for RowExtras {
    fn from(Extras { aggregate_index, views }: Extras) -> Self {
        Self { aggregate_index, views }
    }
}

/// The table with a state per row to make: the configured one, or of the layout that is asked for; none for the layout
/// `postrider`.
fn table_to_make(
    configured: Option<&RowTable>,
    asked: Option<RowLayout>,
    extras: Extras,
) -> Result<Option<RowTable>> {
    let table = match (configured, asked) {
        (Some(rows), Some(asked)) if rows.layout() != asked => {
            let (is, not) = (rows.layout().name(), asked.name());
            let what = format!("the outbox is configured with layout {is}, but --layout says {not}");
            return Err(
                Error::new(Code::LayoutDiffers, what).with_hint("change `layout` of the outbox, or --layout")
            );
        }
        (Some(rows), _) => Some(rows.clone()),
        (None, asked) => asked.map(RowTable::new).transpose()?,
    };
    if table.is_none() && extras.aggregate_index {
        let what = "the layout `postrider` has no optional index aggregate-index";
        return Err(Error::new(Code::LayoutDiffers, what)
            .with_hint("the index belongs to outbox_events; remove the option"));
    }
    Ok(table)
}

/// What a migration did.
#[derive(Debug)]
pub struct Made {
    /// The schema of Postrider's own tables that was there before.
    pub before: Schema,
    /// The tables of a layout with a state per row that were created; `None` for the layout `postrider`.
    pub row_tables: Option<Vec<String>>,
    /// How tables that were there already differ from their layout. They were not altered.
    pub differences: Vec<String>,
}

impl From<Migrated> for Made {
    fn from(migrated: Migrated) -> Self {
        Self { before: migrated.into(), row_tables: None, differences: Vec::new() }
    }
}

impl From<RowsMigrated> for Made {
    fn from(RowsMigrated { ledger, created, differences }: RowsMigrated) -> Self {
        let differences = differences.into_iter().map(|difference| difference.what).collect();
        Self { before: ledger.into(), row_tables: Some(created), differences }
    }
}

/// The error of a layout that has no roles yet.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn no_roles(rows: &RowTable) -> Error {
    let what = format!("roles for layout {} are not supported yet", rows.layout().name());
    Error::new(Code::LayoutDiffers, what).with_hint(
        "grant the relay SELECT, UPDATE and DELETE on the table, and all on Postrider's own schema",
    )
}

/// The table as it is while its rows are handed over: no other process is at work.
fn alone(rows: &RowTable) -> RowTable {
    rows.clone().shared(false).foreign_claim_timeout(None)
}

/// Which schema a database has, and which this program needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Schema {
    /// The version found; 0 if there is none.
    pub found: i64,
    /// The version of this program.
    pub needed: i64,
}

impl From<Migrated> for Schema {
    fn from(Migrated { from, to }: Migrated) -> Self {
        Self { found: from, needed: to }
    }
}

/// Writes events, each call in one transaction.
pub trait EventWriter: Send {
    /// Writes all and commits, or nothing.
    ///
    /// # Errors
    /// A refused event, or what the database says. Unless the code is
    /// [`OutcomeUnknown`](postrider::Code::OutcomeUnknown), nothing was written.
    fn write(&mut self, events: Vec<Event>) -> BoxFuture<'_, Result<Vec<Written>>>;
}

type Read = fn(&Address) -> Result<Arc<dyn Database>, Refused>;

/// Who reads the URLs of which schemes.
const DIALECTS: &[(&[&str], Read)] = &[
    #[cfg(feature = "sqlite")]
    (&["sqlite"], sqlite::read),
    #[cfg(feature = "postgres")]
    (&["postgres", "postgresql"], postgres::read),
    #[cfg(feature = "mysql")]
    (&["mysql", "mariadb"], mysql::read),
];

/// Which database an address means. Opens nothing.
///
/// # Errors
/// Which key is wrong and why, without a word of its value.
pub fn read(address: &Address) -> Result<Arc<dyn Database>, Refused> {
    let scheme = url::scheme(address.url.expose_secret()).unwrap_or_default();
    match DIALECTS.iter().find(|(schemes, _)| schemes.contains(&scheme)) {
        Some((_, read)) => read(address),
        None => Err(Refused::url(match scheme {
            "sqlite" | "postgres" | "postgresql" | "mysql" | "mariadb" => {
                "this program was built without support for this database"
            }
            _ => "the URL must start with sqlite:, postgres:, mysql: or mariadb:",
        })),
    }
}

impl OutboxSettings {
    /// Writes events to this outbox, within its limits.
    ///
    /// # Errors
    /// As [`Database::writer`].
    pub async fn writer(&self) -> Result<Box<dyn EventWriter>> {
        self.database.writer(self.outbox()).await
    }

    /// The library's handle, with the limits of this outbox.
    pub fn outbox(&self) -> Outbox {
        Outbox::new().limits(self.limits.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    fn at(url: &str) -> Address {
        Address { url: Secret::new(url), ..Address::default() }
    }

    #[test]
    fn what_can_be_opened_is_shown_without_a_secret() {
        for (url, shown) in [
            #[cfg(feature = "sqlite")]
            ("sqlite:shop.db", "sqlite:shop.db"),
            #[cfg(feature = "postgres")]
            ("postgres://u:pw@h:5433/db?sslmode=disable", "postgres://***@h:5433/db?***"),
            #[cfg(feature = "postgres")]
            ("postgresql://h/db", "postgresql://h/db"),
            #[cfg(feature = "mysql")]
            ("mariadb://u:pw@h:3307/db?ssl-mode=disabled", "mariadb://***@h:3307/db?***"),
        ] {
            assert_eq!(read(&at(url)).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_cannot_be_opened_is_refused() {
        for url in [
            "sqlite://shop.db",
            "sqlite::memory:",
            "sqlite:a?mode=ro",
            "postgres://h:port/db",
            "postgres://h/db?sslmode=maybe",
            "mysql://h:port/db",
            "mariadb://h/db?ssl-mode=maybe",
            "redis://h",
            "x",
        ] {
            assert_eq!(read(&at(url)).unwrap_err().key, "url", "{url}");
        }
    }

    #[test]
    #[cfg(all(feature = "sqlite", feature = "postgres"))]
    fn keys_of_another_dialect_are_refused() {
        let schema = |url: &str, schema: &str| {
            read(&Address { schema: Some(schema.to_owned()), ..at(url) }).err().map(|refused| refused.key)
        };
        assert_eq!(schema("sqlite:shop.db", "shop"), Some("schema"));
        assert_eq!(schema("postgres://h/db", "Sh\"op"), Some("schema"));
        assert_eq!(schema("postgres://h/db", "Shop"), None);
        assert_eq!(schema("postgres://h/db", "shop"), None);
        let half = Address { tls_client_cert: Some("a".into()), ..at("postgres://h/db") };
        assert_eq!(read(&half).unwrap_err().key, "tls_client_key");
    }
}
