//! A SQLite file.

use std::fmt;
use std::future::ready;
use std::path::PathBuf;
use std::sync::Arc;

use postrider::adopt::HandsOver;
use postrider::layout::{Dialect, RowLayout, RowTable};
use postrider::store::sqlite::{Migration, Schema as Found, SqliteRowStore, SqliteStore};
use postrider::store::{EventFilter, ListedEvent, Overview, RowExtras, Store, Tally, TallyBy};
use postrider::{BoxFuture, Code, Error, Event, Outbox, Result, Written};
use rusqlite::{Connection, TransactionBehavior};

use super::{Address, Database, EventWriter, Extras, Made, Refused, Schema, alone, table_to_make};
use crate::doctor::{self, Options, Subject};

/// `sqlite:relative/path` or `sqlite:///absolute/path`.
pub(super) fn read(address: &Address) -> Result<Arc<dyn Database>, Refused> {
    let rest = address.url.expose_secret().trim_start_matches("sqlite:");
    let path = match rest.strip_prefix("//") {
        Some(absolute) if !absolute.starts_with('/') => {
            let why = "after sqlite:// the path must be absolute: sqlite:///path, or sqlite:path";
            return Err(Refused::url(why));
        }
        Some(absolute) => absolute,
        None => rest,
    };
    if path == ":memory:" {
        return Err(Refused::url("a database in memory can be seen by nobody else; give it a file"));
    }
    if path.contains('?') {
        return Err(Refused::url("parameters after '?' are not supported; give the path only"));
    }
    match address.first_of_server() {
        Some(key) => Err(Refused::new(key, "a SQLite file has none; the key is for PostgreSQL")),
        None if address.rows.as_ref().is_some_and(RowTable::is_placed) => {
            Err(Refused::new("table_schema", "a SQLite file has none; the key is for PostgreSQL and MySQL"))
        }
        None if address.rows.as_ref().is_some_and(|rows| {
            rows.columns().is_none() && rows.layout().shapes_on(Dialect::Sqlite).is_empty()
        }) =>
        {
            Err(Refused::new("layout", "its seed is not for SQLite"))
        }
        None => Ok(Arc::new(Sqlite { path: PathBuf::from(path), rows: address.rows.clone() })),
    }
}

#[derive(Debug)]
struct Sqlite {
    path: PathBuf,
    /// The table with a state per row, if that is the outbox.
    rows: Option<RowTable>,
}

impl fmt::Display for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sqlite:{}", self.path.display())
    }
}

impl Database for Sqlite {
    fn store(&self) -> BoxFuture<'_, Result<Arc<dyn Store>>> {
        Box::pin(async {
            Ok(match &self.rows {
                Some(rows) => Arc::new(SqliteRowStore::open(&self.path, rows)?) as Arc<dyn Store>,
                None => Arc::new(SqliteStore::open(&self.path)?),
            })
        })
    }

    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>> {
        Box::pin(async move {
            match &self.rows {
                Some(rows) => SqliteRowStore::read_overview(&self.path, rows, backlog_max),
                None => SqliteStore::read_overview(&self.path, backlog_max),
            }
        })
    }

    fn tally(&self, by: TallyBy, groups_max: usize) -> BoxFuture<'_, Result<Tally>> {
        Box::pin(async move {
            match &self.rows {
                Some(rows) => SqliteRowStore::tally(&self.path, rows, by, groups_max),
                None => SqliteStore::tally(&self.path, by, groups_max),
            }
        })
    }

    fn schema(&self) -> BoxFuture<'_, Result<Schema>> {
        Box::pin(async {
            let Found { found, needed } = match &self.rows {
                Some(_) => SqliteRowStore::schema(&self.path)?,
                None => SqliteStore::schema(&self.path)?,
            };
            Ok(Schema { found, needed })
        })
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Schema>> {
        Box::pin(async { Ok(self.migrate_as(None, Extras::default()).await?.before) })
    }

    fn migrate_as(&self, layout: Option<RowLayout>, extras: Extras) -> BoxFuture<'_, Result<Made>> {
        Box::pin(async move {
            match table_to_make(self.rows.as_ref(), layout, extras)? {
                Some(table) => Ok(SqliteRowStore::migrate(&self.path, &table, extras.into())?.into()),
                None => {
                    let migrated = SqliteStore::migrate(&self.path)?;
                    if extras.views {
                        SqliteStore::make_views(&self.path)?;
                    }
                    Ok(migrated.into())
                }
            }
        })
    }

    /// In one transaction, and in the journal mode the relay needs, which the file remembers.
    fn migrations(&self) -> String {
        let steps: Vec<Migration> = match &self.rows {
            // A layout that SQLite does not have is refused by every other verb.
            Some(rows) => SqliteRowStore::migrations(rows, RowExtras::default()).unwrap_or_default(),
            None => SqliteStore::migrations().collect(),
        };
        let steps: Vec<String> = steps
            .into_iter()
            .map(|step| format!("-- Schema {}\nBEGIN IMMEDIATE;\n\n{}\nCOMMIT;\n", step.version, step.sql))
            .collect();
        format!("PRAGMA journal_mode = WAL;\n\n{}", steps.join("\n"))
    }

    fn roles(&self) -> Result<String> {
        Err(Error::new(Code::ConfigValue, format!("{self} has no roles"))
            .hint("whoever may write to a SQLite file may do anything to it: use the rights of files"))
    }

    fn rows(&self) -> Option<&RowTable> {
        self.rows.as_ref()
    }

    fn place(&self) -> String {
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        format!("sqlite:{}", path.display())
    }

    fn source(&self) -> BoxFuture<'_, Result<Arc<dyn HandsOver>>> {
        Box::pin(async {
            Ok(match &self.rows {
                Some(rows) => Arc::new(SqliteRowStore::open(&self.path, &alone(rows))?) as Arc<dyn HandsOver>,
                None => Arc::new(SqliteStore::open(&self.path)?),
            })
        })
    }

    fn target(&self, outbox: Outbox) -> Outbox {
        match &self.rows {
            Some(rows) => outbox.rows(rows.clone()),
            None => outbox,
        }
    }

    fn writer(&self, outbox: Outbox) -> BoxFuture<'_, Result<Box<dyn EventWriter>>> {
        Box::pin(async move {
            let outbox = self.target(outbox);
            let connection = match &self.rows {
                Some(rows) => SqliteRowStore::connect(&self.path, rows)?,
                None => SqliteStore::connect(&self.path)?,
            };
            Ok(Box::new(SqliteWriter { connection, outbox }) as Box<dyn EventWriter>)
        })
    }

    fn list<'a>(&'a self, filter: &'a EventFilter) -> BoxFuture<'a, Result<Vec<ListedEvent>>> {
        Box::pin(async move {
            match &self.rows {
                Some(rows) => SqliteRowStore::list(&self.path, rows, filter),
                None => SqliteStore::list(&self.path, filter),
            }
        })
    }

    fn list_plan<'a>(&'a self, filter: &'a EventFilter) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(async move {
            match &self.rows {
                Some(rows) => SqliteRowStore::list_plan(&self.path, rows, filter),
                None => SqliteStore::list_plan(&self.path, filter),
            }
        })
    }

    fn check<'a>(&'a self, options: &'a Options, subject: &'a mut Subject<'_>) -> BoxFuture<'a, bool> {
        Box::pin(ready(doctor::sqlite::check(&self.path, self.rows.as_ref(), options.deep, subject)))
    }
}

struct SqliteWriter {
    connection: Connection,
    outbox: Outbox,
}

impl SqliteWriter {
    fn write_now(&mut self, events: Vec<Event>) -> Result<Vec<Written>> {
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let tx = begun.map_err(|e| {
            Error::new(code(&e), "the transaction could not begin").hint("see what else writes").source(e)
        })?;
        let written = self.outbox.write_all(&tx, events)?;
        tx.commit().map_err(|e| {
            Error::new(Code::OutcomeUnknown, "the commit failed")
                .hint("look into the outbox before you write these events again")
                .source(e)
        })?;
        Ok(written)
    }
}

impl EventWriter for SqliteWriter {
    fn write(&mut self, events: Vec<Event>) -> BoxFuture<'_, Result<Vec<Written>>> {
        Box::pin(ready(self.write_now(events)))
    }
}

/// Before anything was written, all there is to tell apart is who is to act.
fn code(error: &rusqlite::Error) -> Code {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull, PermissionDenied, ReadOnly};
    match error.sqlite_error_code() {
        Some(DatabaseBusy | DatabaseLocked) => Code::StoreBusy,
        Some(DiskFull | PermissionDenied | ReadOnly) => Code::StoreReadOnly,
        _ => Code::StoreFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    #[test]
    fn sqlite_paths_are_relative_or_absolute() {
        for (url, path) in [
            ("sqlite:shop.db", "shop.db"),
            ("sqlite:data/shop.db", "data/shop.db"),
            ("sqlite:/var/shop.db", "/var/shop.db"),
            ("sqlite:///var/shop.db", "/var/shop.db"),
        ] {
            let found = read(&Address { url: Secret::new(url), ..Address::default() }).unwrap();
            assert_eq!(found.to_string(), format!("sqlite:{path}"));
        }
    }
}
