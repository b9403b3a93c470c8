//! Who may still commit an event, on a server that tells no metadata locks: the transactions of its engine.
//!
//! `INNODB_TRX` is no list of the moment. It is a copy that is not refreshed while it is read more often than
//! every 0.1 s, and a writer is in it from its first row on, not from where it took its position. It counts under these
//! conditions, all of them needed (ADR 26):
//!
//! - The copy was made during the very statement that reads it: it shows this connection with that statement, by a
//!   number that no other has.
//! - Transactions go by their numbers, which are never given twice. No time is compared.
//! - The hole was noticed longer ago than a statement may need to take a position and write there. So the writer that took it
//!   has either written, and is listed for as long as it may commit, or never will.
//! - No row stands there that is not committed; see [`uncommitted`](super::writers::uncommitted).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mysql_async::Row;

use super::row::get;
use super::server::Product;
use super::session::{Params, Session, Tx};
use crate::store::writer_watch::Writers;
use crate::{Code, Error, Result};

/// Between two lists of one claimer, at least: a copy is 0.1 s old before another is made. Odd parts of it are added by
/// connection, so that several claimers do not keep each other from a new one forever.
const PAUSE: Duration = Duration::from_millis(300);
const PAUSE_PARTS: u32 = 7;

/// Transactions at most: a copy has room for some thousands, and does not say when it is cut off.
const TRANSACTIONS_MAX: usize = 1_000;

/// Begins a transaction in the eyes of the engine. Index: the primary key (version).
const BEGIN: &str = "SELECT version FROM {schema}.migrations WHERE version = 1";

/// Everybody who has written something, and whether it is this very statement. Those who have only read have no number,
/// or one beyond these. No index: memory of the server.
const LIST: &str = "
    SELECT CAST(trx_id AS CHAR), trx_id BETWEEN 1 AND 281474976710655,
           trx_mysql_thread_id = CONNECTION_ID() AND COALESCE(trx_query, '') LIKE '%postrider list {number}.%'
    FROM information_schema.innodb_trx
    LIMIT {limit}";

/// When to ask next.
#[derive(Debug, Default)]
pub(super) struct Engine {
    asked_at: Option<Duration>,
    asked: u32,
}

impl Engine {
    /// The writers of a moment within this call, or none if it is not time or the server did not look again.
    pub(super) async fn list(&mut self, session: &mut Session, now: Duration) -> Result<Option<Writers>> {
        let pause = PAUSE + PAUSE * (self.asked % PAUSE_PARTS) / PAUSE_PARTS;
        if self.asked_at.is_some_and(|at| now.saturating_sub(at) < pause) {
            return Ok(None);
        }
        self.asked_at = Some(now);
        let number = next_number();
        // Two claimers that have begun together do not stay so.
        self.asked = self.asked.wrapping_add(u32::try_from(number % 5).unwrap_or(0) + 1);
        let mut tx = session.begin().await?;
        let rows = read(&mut tx, number).await;
        writers(&tx.finish(rows).await?)
    }
}

/// Whether the server shows this connection its own transaction. Without the right it shows none.
pub(super) async fn check(session: &mut Session) -> Result<()> {
    let product = session.server.product;
    let mut tx = session.begin().await?;
    let rows = tx.query("SELECT COUNT(*) FROM information_schema.innodb_trx", Params::new()).await;
    match tx.finish(rows).await {
        Ok(_) => Ok(()),
        Err(error) => Err(hidden(product).with_source(error)),
    }
}

/// The error of a server that tells neither who has a table open nor which transactions it runs.
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

/// A number that no other list of this process has; the copy of a server does not outlive its connections.
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
            // What it does is not asked: it counts as busy.
            writers.insert(name, None);
        }
    }
    Ok((is_new && rows.len() <= TRANSACTIONS_MAX).then_some(writers))
}
