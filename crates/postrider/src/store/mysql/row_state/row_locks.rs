//! Row locks that reserve rows while they are published, for layouts without a state for that whose table other
//! publishers use, too.
//!
//! A transaction holds a shared lock on every row that is handed out. A publisher that uses `FOR UPDATE SKIP LOCKED` skips
//! these rows, and Postrider skips the rows that such a publisher has locked. Unlike on PostgreSQL, a row with a shared lock
//! of another connection cannot be updated. So a settle [hands locks over](RowLocks::hand_over): rows that stay in flight
//! get a lock of a new transaction, those that are settled one of the settling transaction, and only then the old
//! transactions end. No row is without a lock in between. If a connection or this process dies, the server releases its
//! locks. See adr/0031-row-locks-for-shared-tables.md.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::Mutex;

use super::super::connect::MySqlConfig;
use super::super::row::get;
use super::super::server::Product;
use super::super::session::{Access, Params, Session, params};
use super::read::id;
use super::sql::Ids;
use crate::store::row_state::dialect::{Owner, SeenRow};
use crate::store::row_state::lease_lost;
use crate::store::row_state::refused::MarkedRows;
use crate::store::row_state::term_rows::{Claims, RowClaim, RowId};
use crate::{Result, Timestamp};

/// Open transactions, each on its own connection. At the limit, the newest one locks more rows.
const OPEN_MAX: usize = 8;

/// Pages that one transaction locks before another begins.
const PAGES_MAX: u32 = 8;

/// The ids of one statement at most. With many thousands, MySQL would use more memory than it may for a range, and read
/// the whole table instead.
const STATEMENT_IDS_MAX: usize = 1_000;

/// The server ends a connection that holds locks and is idle for longer, in seconds: another relay may have taken over.
const IDLE_SECONDS_MAX: u32 = 60;

/// All locks of one session.
pub(super) struct RowLocks {
    config: MySqlConfig,
    held: Arc<Mutex<Held>>,
}

/// Transactions and connections.
#[derive(Default)]
struct Held {
    open: Vec<Holder>,
    /// Connections whose locks were released.
    idle: Vec<Session>,
    /// Claims made so far.
    claims: i64,
}

/// One open transaction.
struct Holder {
    /// The claims whose rows it locks.
    claims: BTreeSet<i64>,
    rows: HashSet<RowId>,
    session: Session,
    pages: u32,
}

impl RowLocks {
    pub(super) fn new(config: MySqlConfig) -> Self {
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
            let session = self.begin(&mut held).await?;
            held.open.push(Holder { claims: BTreeSet::new(), rows: HashSet::new(), session, pages: 0 });
        }
        held.claims += 1;
        let number = held.claims;
        let Some(holder) = held.open.last_mut() else { return Ok(MarkedRows::default()) };
        holder.pages += 1;
        holder.claims.insert(number);
        let seen: HashMap<&str, i64> = rows.iter().map(|(id, attempts)| (&**id, *attempts)).collect();
        let locked = match lock_as_owner(&mut holder.session, statement, owner, &seen).await {
            Ok(locked) => locked,
            Err(error) => {
                // The transaction may have failed, and its locks with it.
                held.open.pop();
                return Err(error);
            }
        };
        let mut claims = Claims::new();
        for Locked { id, attempts, at } in locked {
            holder.rows.insert(id.clone());
            if seen.get(&*id) == Some(&attempts) {
                claims.insert(id, RowClaim { at, number, attempts });
            }
        }
        Ok(MarkedRows { claims, refused: HashMap::new(), _lock_guard: Some(Box::new(held)) })
    }

    /// Begins the transaction of a settle, with locks on the rows that it changes. Their old locks, and those of rows that
    /// are `released`, have ended when this returns; the other rows of those transactions have new ones. Returns a guard:
    /// until it is dropped, no row is locked or released.
    ///
    /// # Errors
    /// That of the database. The transaction of the settle is rolled back; some rows may have lost their locks.
    pub(super) async fn hand_over(
        &self,
        statement: &'static str,
        settler: &mut Session,
        settled: &HashSet<&str>,
        released: &HashSet<&str>,
    ) -> Result<Box<dyn Send>> {
        let mut held = self.held.clone().lock_owned().await;
        let is_affected = |holder: &mut Holder| holder.rows.iter().any(|row| settled.contains(&**row));
        let affected: Vec<Holder> = held.open.extract_if(.., is_affected).collect();
        let stays = |row: &&RowId| !settled.contains(&***row) && !released.contains(&***row);
        let left: Vec<RowId> =
            affected.iter().flat_map(|holder| &holder.rows).filter(stays).cloned().collect();
        if !left.is_empty() {
            let mut session = self.begin(&mut held).await?;
            let ids: Vec<&str> = left.iter().map(|row| &**row).collect();
            let locked = lock_rows(&mut session, statement, &ids).await?;
            let claims = affected.iter().flat_map(|holder| &holder.claims).copied().collect();
            let rows = locked.into_iter().map(|row| row.id).collect();
            let pages = affected.iter().map(|holder| holder.pages).max().unwrap_or(0);
            // The newest one takes the next pages.
            held.open.push(Holder { claims, rows, session, pages });
        }
        settler.several(Access::Reads, "START TRANSACTION READ WRITE").await?;
        let ids: Vec<&str> = settled.iter().copied().collect();
        if let Err(error) = lock_rows(settler, statement, &ids).await {
            _ = settler.several(Access::Reads, "ROLLBACK").await;
            return Err(error);
        }
        for Holder { session, .. } in affected {
            end(&mut held, session).await;
        }
        Ok(Box::new(held))
    }

    /// Ends the transactions that have no row left; `in_use` are the claims that still have rows.
    pub(super) async fn release(&self, in_use: impl FnOnce() -> HashSet<i64>) {
        let mut held = self.held.lock().await;
        if held.open.is_empty() {
            return;
        }
        let in_use = in_use();
        let is_over = |holder: &mut Holder| holder.claims.iter().all(|claim| !in_use.contains(claim));
        let over: Vec<Holder> = held.open.extract_if(.., is_over).collect();
        for Holder { session, .. } in over {
            end(&mut held, session).await;
        }
    }

    /// Releases all locks.
    pub(super) async fn clear(&self) {
        *self.held.lock().await = Held::default();
    }

    /// A connection with an open transaction.
    async fn begin(&self, held: &mut Held) -> Result<Session> {
        let begin = format!("SET SESSION wait_timeout = {IDLE_SECONDS_MAX}; START TRANSACTION READ WRITE");
        while let Some(mut session) = held.idle.pop() {
            // The server may have ended it meanwhile.
            if session.is_usable() && session.several(Access::Reads, &begin).await.is_ok() {
                return Ok(session);
            }
        }
        let mut session = self.config.connect().await?;
        session.several(Access::Reads, &begin).await?;
        Ok(session)
    }
}

/// Ends a transaction and keeps its connection. One that does not answer is dropped, and the server releases its locks.
async fn end(held: &mut Held, mut session: Session) {
    if session.is_usable() && session.several(Access::Reads, "ROLLBACK").await.is_ok() {
        held.idle.push(session);
    }
}

/// A row that was locked: its attempts, and the time of the server.
struct Locked {
    id: RowId,
    attempts: i64,
    at: Timestamp,
}

/// Locks rows if the subscription still belongs to the owner.
async fn lock_as_owner(
    session: &mut Session,
    statement: &'static str,
    owner: Owner<'_>,
    rows: &HashMap<&str, i64>,
) -> Result<Vec<Locked>> {
    // Index: the primary key (name).
    let fence = "SELECT epoch FROM {schema}.subscriptions WHERE name = ? AND epoch = ?";
    let owned = session.autocommit(Access::Reads, fence, params![owner.subscription, owner.epoch.0]).await?;
    if owned.is_empty() {
        return Err(lease_lost());
    }
    lock_rows(session, statement, &rows.keys().copied().collect::<Vec<_>>()).await
}

/// Locks the rows that no other program has locked, in the transaction that is open.
async fn lock_rows(session: &mut Session, statement: &'static str, ids: &[&str]) -> Result<Vec<Locked>> {
    let lock = match session.server.product {
        Product::MySql => " FOR SHARE SKIP LOCKED",
        Product::MariaDb => " LOCK IN SHARE MODE SKIP LOCKED",
    };
    let mut sorted: Vec<i64> = ids.iter().filter_map(|id| id.parse().ok()).collect();
    sorted.sort_unstable();
    let mut locked = Vec::with_capacity(ids.len());
    for some in sorted.chunks(STATEMENT_IDS_MAX) {
        let some: Vec<String> = some.iter().map(i64::to_string).collect();
        let listed = Ids::Numbers.listed(some.iter().map(String::as_str));
        let statement = statement.replace("{ids}", &listed) + lock;
        for row in session.autocommit(Access::Reads, &statement, Params::new()).await? {
            let at = Timestamp::from_micros(get(&row, 2)?);
            locked.push(Locked { id: id(&row)?, attempts: get(&row, 1)?, at });
        }
    }
    Ok(locked)
}
