//! Who may still commit an event at a position that was taken long ago.
//!
//! Whoever writes to a table holds a metadata lock on it, from before it takes a position until after its
//! transaction has ended. The list of the holders is therefore a list of writers, once a name stands for one
//! transaction and every transaction keeps its name; see [`Names`]. Why each part of it is needed is told in
//! ADR 18.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};

use super::failure::failed;
use super::history::last_row;
use super::row::{get, get_opt};
use super::server::Product;
use super::session::{Alone, Session, Work};
use crate::{Code, Error, Ident, Position, Result};

/// Where a server tells who has a table open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Locks {
    source: Source,
    /// A prepared transaction loses its lock when its connection ends: `XA RECOVER` has to be asked too.
    forgets_prepared: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// `performance_schema.metadata_locks`.
    PerformanceSchema,
    /// MariaDB's plugin of that name.
    MetadataLockInfo,
}

/// Those who have a table open for writing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Holders {
    /// Owner and lock. A lock of the same owner with another name may be another transaction, or not.
    locks: BTreeSet<(String, String)>,
    /// Prepared transactions that may have no lock any more, of whatever table.
    prepared: BTreeSet<String>,
}

/// Locks under which nobody writes. Any other counts: also that of `LOCK TABLES`, which an INSERT then uses.
macro_rules! reading {
    () => {
        "('SHARED', 'SHARED_HIGH_PRIO', 'SHARED_READ', 'SHARED_READ_ONLY')"
    };
}

/// One look at the lock table. No index: memory of the server.
macro_rules! scan {
    () => {
        concat!(
            "SELECT CAST(COALESCE(owner_thread_id, 0) AS CHAR),
                    CONCAT(COALESCE(owner_event_id, 0), '/', object_instance_begin)
             FROM performance_schema.metadata_locks
             WHERE object_type = 'TABLE' AND object_schema = '{name}' AND object_name = 'events'
               AND lock_type NOT IN ",
            reading!()
        )
    };
}

/// Two looks: while a transaction is being prepared its lock moves, and may do so behind the back of one look.
/// Then what would make the list incomplete: no room for a lock or for whom it belongs to, or nobody who writes
/// them down.
const PERFORMANCE_SCHEMA: &str = concat!(
    scan!(),
    ";\n",
    scan!(),
    ";
     SHOW GLOBAL STATUS WHERE variable_name IN
        ('performance_schema_metadata_lock_lost', 'performance_schema_thread_instances_lost',
         'performance_schema_thread_classes_lost');
     SELECT (SELECT enabled FROM performance_schema.setup_instruments WHERE name = 'wait/lock/metadata/sql/mdl'),
            (SELECT enabled FROM performance_schema.setup_consumers WHERE name = 'global_instrumentation')"
);

/// The plugin knows connections alone. No index: memory of the server.
const METADATA_LOCK_INFO: &str = "
    SELECT CAST(thread_id AS CHAR), ''
    FROM information_schema.metadata_lock_info
    WHERE lock_type = 'Table metadata lock' AND table_schema = '{name}' AND table_name = 'events'
      AND lock_mode NOT IN ('MDL_SHARED', 'MDL_SHARED_HIGH_PRIO', 'MDL_SHARED_READ', 'MDL_SHARED_READ_ONLY')";

impl Locks {
    /// Finds out where the server tells it, if it does.
    pub(super) async fn of(conn: &mut Conn, product: Product, has_schema: bool) -> Result<Option<Self>> {
        let forgets_prepared = product == Product::MariaDb;
        if has_schema {
            let sql = "SELECT (SELECT enabled FROM performance_schema.setup_instruments
                               WHERE name = 'wait/lock/metadata/sql/mdl') = 'YES'
                          AND (SELECT enabled FROM performance_schema.setup_consumers
                               WHERE name = 'global_instrumentation') = 'YES'";
            let answer: Option<Option<bool>> = conn.query_first(sql).await.map_err(|error| {
                failed(error).hint("GRANT SELECT ON performance_schema.* to the user of the relay")
            })?;
            if answer.flatten().unwrap_or(false) {
                return Ok(Some(Self { source: Source::PerformanceSchema, forgets_prepared }));
            }
        }
        if product == Product::MariaDb {
            let sql = "SELECT COUNT(*) FROM information_schema.plugins
                       WHERE plugin_name = 'METADATA_LOCK_INFO' AND plugin_status = 'ACTIVE'";
            let found: Option<i64> = conn.query_first(sql).await.map_err(failed)?;
            if found.unwrap_or(0) > 0 {
                return Ok(Some(Self { source: Source::MetadataLockInfo, forgets_prepared }));
            }
        }
        Ok(None)
    }

    /// The error of a server that does not tell.
    pub(super) fn hidden(product: Product) -> Error {
        let hint = match product {
            Product::MySql => {
                "set performance_schema = ON and leave the instrument wait/lock/metadata/sql/mdl on, as is the default"
            }
            Product::MariaDb => {
                "put plugin_load_add = metadata_lock_info into the server's configuration, or INSTALL SONAME \
                 'metadata_lock_info' while nobody writes"
            }
        };
        let what = format!("{product} does not tell who has the outbox open for writing");
        Error::new(Code::ServerUnfit, what).hint(hint)
    }

    fn statements(self, schema: &Ident) -> String {
        // An Ident holds nothing that a quote would have to protect.
        let list = match self.source {
            Source::PerformanceSchema => PERFORMANCE_SCHEMA,
            Source::MetadataLockInfo => METADATA_LOCK_INFO,
        };
        let list = list.replace("{name}", schema.as_str());
        // After the locks, so that who loses its lock in between is met here.
        if self.forgets_prepared { format!("{list};\nXA RECOVER") } else { list }
    }

    /// The holders, or none if the server says that its list may be incomplete.
    fn read(self, mut answers: Vec<Vec<Row>>) -> Result<Option<Holders>> {
        let mut holders = Holders::default();
        if self.forgets_prepared {
            for row in answers.pop().unwrap_or_default() {
                holders.prepared.insert(xid(&row)?);
            }
        }
        if self.source == Source::PerformanceSchema {
            let (settings, lost) = (answers.pop().unwrap_or_default(), answers.pop().unwrap_or_default());
            let is_on = |column| {
                let word = settings.first().map(|row| get_opt::<String>(row, column)).transpose();
                word.map(|word| word.flatten().is_some_and(|word| word == "YES"))
            };
            let counts = lost.iter().map(|row| get::<i64>(row, 1)).collect::<Result<Vec<_>>>()?;
            let is_whole = !counts.is_empty() && counts.iter().all(|lost| *lost == 0);
            if !is_whole || !is_on(0)? || !is_on(1)? {
                return Ok(None);
            }
        }
        for row in answers.iter().flatten() {
            holders.locks.insert((get(row, 0)?, get(row, 1)?));
        }
        Ok(Some(holders))
    }
}

/// A prepared transaction's own name.
fn xid(row: &Row) -> Result<String> {
    let (format, global, branch): (i64, i64, i64) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
    let data: Vec<u8> = get(row, 3)?;
    let data: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("xa {format} {global} {branch} {data}"))
}

/// The writers at this moment, on a connection that is in no transaction.
pub(super) async fn list(session: &mut Session) -> Result<Option<Holders>> {
    let Some(locks) = session.server.locks else { return Ok(None) };
    let statements = locks.statements(session.schema());
    locks.read(session.several(Alone::Reads, &statements).await?)
}

/// Gives every transaction a name that it keeps, from one list to the next.
///
/// The server's own names do not do: a lock of MySQL is written down anew when its transaction is prepared, that
/// of MariaDB ends when the connection of a prepared transaction does, and the plugin knows no transactions at
/// all. So, in doubt, a transaction goes by all the names that could be its own:
///
/// - A lock that was in the list before is the same transaction, for all we know.
/// - A new lock may be what becomes of a lock of its owner that was listed before: while a transaction is being
///   prepared, both may be there. A transaction is prepared once, so this goes back one step and no further.
/// - A transaction that is newly prepared may be any that was listed before.
#[derive(Debug, Default)]
pub(super) struct Names {
    numbered: u64,
    /// The locks of the last list, by name.
    present: BTreeMap<(String, String), String>,
    /// What else a transaction may go by, by name.
    also: BTreeMap<String, BTreeSet<String>>,
}

impl Names {
    /// The names of all that may still commit.
    pub(super) fn of(&mut self, holders: Holders) -> BTreeSet<String> {
        let before = std::mem::take(&mut self.present);
        let of_owner = |owner: &str| -> BTreeSet<String> {
            before.iter().filter(|((of, _), _)| of == owner).map(|(_, name)| name.clone()).collect()
        };
        let mut names = BTreeSet::new();
        for lock in &holders.locks {
            let name = match before.get(lock) {
                Some(name) => name.clone(),
                None => {
                    self.numbered += 1;
                    let name = format!("{} {}", self.numbered, lock.0);
                    self.also.insert(name.clone(), of_owner(&lock.0));
                    name
                }
            };
            names.insert(name.clone());
            self.present.insert(lock.clone(), name);
        }
        for prepared in holders.prepared {
            self.also.entry(prepared.clone()).or_insert_with(|| before.values().cloned().collect());
            names.insert(prepared);
        }
        self.also.retain(|name, _| names.contains(name));
        names.extend(self.also.values().flatten().cloned());
        names
    }
}

/// Looks for writers to end, at most, and how long between two of them. Most transactions are shorter than that;
/// a lease is longer.
const LOOKS_MAX: usize = 20;
const PAUSE: Duration = Duration::from_millis(25);

/// A position up to which every transaction is over: what a later snapshot does not show there, nobody will ever
/// see. That is what was deleted, and what was rolled back. Zero if some writer takes too long.
///
/// Never above the last event there is: a crash of the server may take back positions that nothing was
/// committed at or above, and give them again.
pub(super) async fn decided_up_to(work: &mut Work<'_>) -> Result<Position> {
    let last = last_row(work).await?;
    let mut names = Names::default();
    let Some(mut awaited) = listed(work, &mut names).await? else { return Ok(Position::ZERO) };
    for _ in 0..LOOKS_MAX {
        if awaited.is_empty() {
            return Ok(last);
        }
        tokio::time::sleep(PAUSE).await;
        let Some(present) = listed(work, &mut names).await? else { return Ok(Position::ZERO) };
        awaited.retain(|name| present.contains(name));
    }
    Ok(Position::ZERO)
}

async fn listed(work: &mut Work<'_>, names: &mut Names) -> Result<Option<BTreeSet<String>>> {
    let Some(locks) = work.server().locks else { return Ok(None) };
    let statements = locks.statements(work.schema());
    let mut answers = Vec::new();
    for statement in statements.split(";\n") {
        answers.push(work.query(statement, Vec::new()).await?);
    }
    Ok(locks.read(answers)?.map(|holders| names.of(holders)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holders(locks: &[(&str, &str)], prepared: &[&str]) -> Holders {
        Holders {
            locks: locks.iter().map(|(owner, lock)| ((*owner).to_owned(), (*lock).to_owned())).collect(),
            prepared: prepared.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// Whether whoever was listed first may still commit, after each later list.
    fn awaited(lists: &[Holders]) -> Vec<bool> {
        let mut names = Names::default();
        let mut lists = lists.iter().cloned();
        let mut watch = names.of(lists.next().unwrap_or_default());
        lists
            .map(|list| {
                let now = names.of(list);
                watch.retain(|name| now.contains(name));
                !watch.is_empty()
            })
            .collect()
    }

    #[test]
    fn a_writer_is_awaited_until_its_lock_is_gone() {
        let open = holders(&[("7", "1/a")], &[]);
        assert_eq!(awaited(&[open.clone(), open, holders(&[], &[])]), [true, false]);
    }

    #[test]
    fn the_next_transactions_of_a_busy_connection_are_not_waited_for() {
        let lists: Vec<_> = ["1/a", "2/a", "3/a"].iter().map(|lock| holders(&[("7", lock)], &[])).collect();
        assert_eq!(awaited(&lists), [true, false]);
    }

    #[test]
    fn a_lock_that_moved_when_its_transaction_was_prepared_is_still_awaited() {
        let moved = holders(&[("7", "2/b")], &[]);
        let and_more = holders(&[("7", "2/b"), ("7", "9/c")], &[]);
        assert_eq!(
            awaited(&[holders(&[("7", "1/a")], &[]), moved, and_more, holders(&[("7", "9/c")], &[])]),
            [true, true, false]
        );
    }

    #[test]
    fn a_transaction_that_is_listed_while_it_is_prepared_is_still_awaited() {
        let both = holders(&[("7", "1/a"), ("7", "2/b")], &[]);
        let moved = holders(&[("7", "2/b")], &[]);
        let lists = [holders(&[("7", "1/a")], &[]), both, moved, holders(&[], &[])];
        assert_eq!(awaited(&lists), [true, true, false]);
    }

    #[test]
    fn a_prepared_transaction_without_a_lock_is_awaited_whoever_it_was() {
        let open = holders(&[("7", ""), ("8", "")], &[]);
        let prepared = holders(&[("8", "")], &["xa 1"]);
        let left = holders(&[], &["xa 1"]);
        assert_eq!(awaited(&[open, prepared, left, holders(&[], &[])]), [true, true, false]);
    }

    #[test]
    fn a_transaction_prepared_long_ago_delays_nobody_who_came_later() {
        let old = ["xa 1"];
        let mut names = Names::default();
        names.of(holders(&[], &old));
        let mut watch = names.of(holders(&[("7", "1/a")], &old));
        watch.retain(|name| !name.starts_with("xa"));
        let now = names.of(holders(&[], &old));
        watch.retain(|name| now.contains(name));
        assert!(watch.is_empty(), "{watch:?}");
    }
}
