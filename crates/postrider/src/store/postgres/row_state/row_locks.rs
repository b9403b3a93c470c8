//! Row locks that say "at work", where a table has no word for it and others publish from it too.
//!
//! A transaction of ours holds a lock on every row in the relay's hands, so that a publisher that asks `FOR UPDATE SKIP
//! LOCKED` passes them by; and we pass by the rows that such a publisher holds. The lock is the weakest there is, `FOR KEY
//! SHARE`: a settle over another connection changes the row under it. If the connection or this process dies, the server
//! lets the rows go. See adr/0031-row-locks-for-shared-tables.md.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::Mutex;

use super::super::connect::PostgresConfig;
use super::super::row::get;
use super::super::session::Session;
use super::super::time::Time;
use crate::Result;
use crate::store::Epoch;
use crate::store::row_state::refused::MarkedRows;
use crate::store::row_state::session_rows::{RowClaim, RowId};

/// Transactions open at one time, each on a connection of its own. At the limit the youngest takes more rows.
const OPEN_MAX: usize = 8;

/// Pages of rows that one transaction takes before another is begun: it stays open until the last of them is settled.
const PAGES_MAX: u32 = 8;

/// All locks of one session.
pub(super) struct RowLocks {
    config: PostgresConfig,
    held: Arc<Mutex<Held>>,
}

/// Transactions and connections.
#[derive(Default)]
struct Held {
    open: Vec<Holder>,
    /// Connections whose locks were let go.
    idle: Vec<Session>,
    /// Transactions begun so far.
    begun: i64,
}

/// One open transaction.
struct Holder {
    number: i64,
    session: Session,
    pages: u32,
}

impl RowLocks {
    pub(super) fn new(config: PostgresConfig) -> Self {
        Self { config, held: Arc::default() }
    }

    /// Locks those rows that no other publisher holds and that are as they were seen: id and attempts.
    pub(super) async fn lock(
        &self,
        statement: &'static str,
        subscription: &str,
        epoch: Epoch,
        rows: &[(RowId, i64)],
    ) -> Result<MarkedRows> {
        if rows.is_empty() {
            return Ok(MarkedRows::default());
        }
        let mut held = self.held.clone().lock_owned().await;
        held.open.retain(|holder| holder.session.is_usable());
        let takes_more = held.open.last().is_some_and(|holder| holder.pages < PAGES_MAX);
        if !takes_more && held.open.len() < OPEN_MAX {
            let session = match held.idle.pop().filter(Session::is_usable) {
                Some(session) => session,
                None => self.config.connect().await?,
            };
            session.hold().await?;
            held.begun += 1;
            let number = held.begun;
            held.open.push(Holder { number, session, pages: 0 });
        }
        let Some(holder) = held.open.last_mut() else { return Ok(MarkedRows::default()) };
        holder.pages += 1;
        let (ids, attempts): (Vec<&str>, Vec<i64>) =
            rows.iter().map(|(id, attempts)| (&**id, *attempts)).unzip();
        let number = holder.number;
        let locked = match holder.session.held(statement, &[&subscription, &epoch.0, &ids, &attempts]).await {
            Ok(locked) => locked,
            Err(error) => {
                // Its transaction has failed, and holds nothing any more.
                held.open.pop();
                return Err(error);
            }
        };
        let seen: HashMap<&str, i64> = rows.iter().map(|(id, attempts)| (&**id, *attempts)).collect();
        let mut claims = HashMap::new();
        for row in &locked {
            let id = get::<&str>(row, 0)?;
            let attempts = seen.get(id).copied().unwrap_or(0);
            claims.insert(Arc::from(id), RowClaim { at: get::<Time>(row, 1)?.0, number, attempts });
        }
        Ok(MarkedRows { claims, refused: HashMap::new(), _held: Some(Box::new(held)) })
    }

    /// Ends the transactions that have no row left; `in_use` are the numbers the session still uses.
    pub(super) async fn release(&self, in_use: impl FnOnce() -> HashSet<i64>) {
        let mut held = self.held.lock().await;
        if held.open.is_empty() {
            return;
        }
        let in_use = in_use();
        let (kept, over): (Vec<Holder>, Vec<Holder>) =
            std::mem::take(&mut held.open).into_iter().partition(|holder| in_use.contains(&holder.number));
        held.open = kept;
        for Holder { session, .. } in over {
            // One that does not answer is dropped, and its locks with it.
            if session.let_go().await.is_ok() {
                held.idle.push(session);
            }
        }
    }

    /// Lets everything go.
    pub(super) async fn clear(&self) {
        *self.held.lock().await = Held::default();
    }
}
