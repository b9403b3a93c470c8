//! Row locks that reserve rows while they are published, for layouts without a state for that whose table other
//! publishers use, too.
//!
//! A transaction holds a lock on every row that is handed out. A publisher that uses `FOR UPDATE SKIP LOCKED` skips
//! these rows, and Postrider skips the rows that such a publisher has locked. The lock is the weakest there is, `FOR
//! KEY SHARE`: a settle over another connection can still update the row. If the connection or this process dies, the
//! server releases the locks. See adr/0031-row-locks-for-shared-tables.md.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::Mutex;

use super::super::connect::PostgresConfig;
use super::super::row::get;
use super::super::session::Session;
use super::super::time::Time;
use crate::Result;
use crate::store::row_state::dialect::{Owner, SeenRow};
use crate::store::row_state::refused::MarkedRows;
use crate::store::row_state::term_rows::{Claims, RowClaim};

/// Open transactions, each on its own connection. At the limit, the newest one locks more rows.
const OPEN_MAX: usize = 8;

/// Pages that one transaction locks before another begins. It stays open until the last of their rows is settled.
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
    /// Connections whose locks were released.
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

    /// Locks the rows that no other publisher has locked and whose attempts are unchanged.
    pub(super) async fn lock(
        &self,
        statement: &'static str,
        owner: Owner<'_>,
        rows: &[SeenRow],
    ) -> Result<MarkedRows> {
        if rows.is_empty() {
            return Ok(MarkedRows::default());
        }
        let mut held = self.held.clone().lock_owned().await;
        held.open.retain(|holder| holder.session.is_usable());
        let has_room = held.open.last().is_some_and(|holder| holder.pages < PAGES_MAX);
        if !has_room && held.open.len() < OPEN_MAX {
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
        let locked = match holder
            .session
            .held(statement, &[&owner.subscription, &owner.epoch.0, &ids, &attempts])
            .await
        {
            Ok(locked) => locked,
            Err(error) => {
                // The transaction has failed, so its locks are released.
                held.open.pop();
                return Err(error);
            }
        };
        let seen: HashMap<&str, i64> = rows.iter().map(|(id, attempts)| (&**id, *attempts)).collect();
        let mut claims = Claims::new();
        for row in &locked {
            let id = get::<&str>(row, 0)?;
            let attempts = seen.get(id).copied().unwrap_or(0);
            claims.insert(Arc::from(id), RowClaim { at: get::<Time>(row, 1)?.0, number, attempts });
        }
        Ok(MarkedRows { claims, refused: HashMap::new(), _lock_guard: Some(Box::new(held)) })
    }

    /// Ends the transactions that have no row left; `in_use` are the claims that still have rows.
    pub(super) async fn release(&self, in_use: impl FnOnce() -> HashSet<i64>) {
        let mut held = self.held.lock().await;
        if held.open.is_empty() {
            return;
        }
        let in_use = in_use();
        let (kept, finished): (Vec<Holder>, Vec<Holder>) =
            std::mem::take(&mut held.open).into_iter().partition(|holder| in_use.contains(&holder.number));
        held.open = kept;
        for Holder { session, .. } in finished {
            // A connection that does not answer is dropped, and the server releases its locks.
            if session.let_go().await.is_ok() {
                held.idle.push(session);
            }
        }
    }

    /// Releases all locks.
    pub(super) async fn clear(&self) {
        *self.held.lock().await = Held::default();
    }
}
