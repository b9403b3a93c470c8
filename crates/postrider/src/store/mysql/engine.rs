//! Which transactions may still commit an event, on a server that does not report metadata locks: the transactions of
//! InnoDB.
//!
//! `INNODB_TRX` does not show the current moment. It is a copy that is not refreshed while it is read more often than
//! every 0.1 s, and it contains a writer from its first row on, not from the moment it took its position. It proves a
//! hole empty under these conditions, all of which are needed (ADR 26):
//!
//! - The copy was made during the statement that reads it: it shows this connection with that statement, by a unique
//!   number in its text.
//! - Transactions are identified by their numbers, which are never reused. No times are compared.
//! - The hole was noticed longer ago than a statement may take between taking a position and writing there. So the
//!   writer of the position has either written, and is listed for as long as it may commit, or never will write.
//! - There is no uncommitted row in the hole; see [`uncommitted`](super::writers::uncommitted).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mysql_async::Row;

use super::row::get;
use super::server::Product;
use super::session::{Params, Session, Tx};
use crate::store::writer_watch::Writers;
use crate::{Code, Error, Result};

/// The shortest time between two lists of one claimer: a copy is refreshed only when it is 0.1 s old. Varying parts of
/// it are added, so that several claimers do not prevent a refresh forever.
const PAUSE: Duration = Duration::from_millis(300);
const PAUSE_PARTS: u32 = 7;

/// The maximum number of transactions: a copy has room for some thousands, and does not report that it is truncated.
const TRANSACTIONS_MAX: usize = 1_000;

/// Begins a transaction in InnoDB. Index: the primary key (version).
const BEGIN: &str = "SELECT version FROM {schema}.migrations WHERE version = 1";

/// All transactions: the number, whether it has written, and whether it is this statement's. A transaction that has
/// only read has no number, or one outside this range. No index: memory of the server.
const LIST: &str = "
    SELECT CAST(trx_id AS CHAR), trx_id BETWEEN 1 AND 281474976710655,
           trx_mysql_thread_id = CONNECTION_ID() AND COALESCE(trx_query, '') LIKE '%postrider list {number}.%'
    FROM information_schema.innodb_trx
    LIMIT {limit}";

/// When to list the transactions next.
#[derive(Debug, Default)]
pub(super) struct Engine {
    asked_at: Option<Duration>,
    asked: u32,
}

impl Engine {
    /// The writers at a moment during this call; `None` if a list is not due or the server did not refresh its copy.
    pub(super) async fn list(&mut self, session: &mut Session, now: Duration) -> Result<Option<Writers>> {
        let pause = PAUSE + PAUSE * (self.asked % PAUSE_PARTS) / PAUSE_PARTS;
        if self.asked_at.is_some_and(|at| now.saturating_sub(at) < pause) {
            return Ok(None);
        }
        self.asked_at = Some(now);
        let number = next_number();
        // Two claimers that began at the same time must not stay in step.
        self.asked = self.asked.wrapping_add(u32::try_from(number % 5).unwrap_or(0) + 1);
        let mut tx = session.begin().await?;
        let rows = read(&mut tx, number).await;
        writers(&tx.finish(rows).await?)
    }
}

/// Refuses a server that does not let this user read its transactions.
pub(super) async fn check(session: &mut Session) -> Result<()> {
    let product = session.server.product;
    let mut tx = session.begin().await?;
    let rows = tx.query("SELECT COUNT(*) FROM information_schema.innodb_trx", Params::new()).await;
    match tx.finish(rows).await {
        Ok(_) => Ok(()),
        Err(error) => Err(hidden(product).with_source(error)),
    }
}

/// The error for a server that reports neither metadata locks nor transactions.
pub(super) fn hidden(product: Product) -> Error {
    let hint = match product {
        Product::MySql => {
            "set performance_schema = ON and keep the instrument wait/lock/metadata/sql/mdl enabled (the \
             default); or GRANT PROCESS ON *.* to the user of the relay and to the user of `migrate up`"
        }
        Product::MariaDb => {
            "add plugin_load_add = metadata_lock_info to the server's configuration, or run INSTALL SONAME \
             'metadata_lock_info' while no process writes; or GRANT PROCESS ON *.* to the user of the relay \
             and to the user of `migrate up`"
        }
    };
    let what = format!("{product} does not report which sessions write to the outbox");
    Error::new(Code::ServerUnfit, what).with_hint(hint)
}

/// A number that no other list of this process has. A copy does not survive the connections that it shows.
fn next_number() -> u64 {
    static LISTS: AtomicU64 = AtomicU64::new(0);
    LISTS.fetch_add(1, Ordering::Relaxed)
}

async fn read(tx: &mut Tx<'_>, number: u64) -> Result<Vec<Row>> {
    tx.query(BEGIN, Params::new()).await?;
    let list = LIST.replace("{number}", &number.to_string());
    tx.query(&list.replace("{limit}", &(TRANSACTIONS_MAX + 1).to_string()), Params::new()).await
}

fn writers(rows: &[Row]) -> Result<Option<Writers>> {
    let mut writers = Writers::new();
    let mut is_new = false;
    for row in rows {
        let (name, has_written, is_this): (String, bool, bool) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
        is_new |= is_this;
        if has_written && !is_this {
            // Whether it is idle is not known: it counts as active.
            writers.insert(name, None);
        }
    }
    Ok((is_new && rows.len() <= TRANSACTIONS_MAX).then_some(writers))
}
