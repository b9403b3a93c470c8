//! Claiming: committed events in position order, each once, and the holes: positions whose event may still be
//! committed.
//!
//! A claim sends all its statements together and waits once:
//!
//! 1. a transaction id for the holes noticed before (their stamp), and the list of writers for the old ones;
//!    each in a separate transaction, so both are older than the snapshot that follows
//! 2. `BEGIN` with one snapshot for the rest
//! 3. the shape of the outbox table, if a hole may be declared empty
//! 4. the history: server, sequence, the highest event seen; and the snapshot's horizon
//! 5. the events: holes and tail in one stream
//! 6. `COMMIT`
//!
//! See [`holes`](crate::store::holes) for when a hole is declared empty, which means that no event will ever have the position.

use std::sync::LazyLock;
use std::time::Duration;

use tokio_postgres::Row;

use super::connect::PostgresConfig;
use super::failure::failed;
use super::history::{Incarnation, last_taken, started, timeline};
use super::page::{self, NONE_INLINE, is_row_damaged, payload_limit};
use super::row::{self, get, with_columns};
use super::session::{Access, Session};
use super::shape::{self, SHAPE};
use super::statement::Params;
use super::writers::{self, WRITERS};
use crate::ledger::Progress;
use crate::store::connection::{Link, link_lost};
use crate::store::holes::Ranges;
use crate::store::row_limit;
use crate::store::tail::{ScanFacts, Tail};
use crate::store::writer_watch::Writers;
use crate::store::{AsyncClaimer, Budget, Claimed};
use crate::{Code, Error, Position, Result};

/// A new transaction id, and the server that assigned it.
const STAMP: &str = concat!("SELECT pg_current_xact_id()::text::bigint, ", started!(), ", ", timeline!());

const COMMIT: &str = "COMMIT";

/// The server, the sequence, the snapshot's horizon, and the id of the highest event seen. Index: the primary key
/// (position), one row.
const HEAD: &str = concat!(
    "SELECT ",
    started!(),
    ", ",
    timeline!(),
    ", ",
    last_taken!(),
    ",
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
       (SELECT id FROM ONLY {schema}.events WHERE position = $1)
     FROM {schema}.events_position_seq"
);

/// Reads the tail alone, which needs no sort. Index: the primary key (position), one range.
static READ_TAIL: LazyLock<String> = LazyLock::new(|| {
    with_columns(
        "SELECT {columns} FROM ONLY {schema}.events
         WHERE position BETWEEN $2 AND $3
         ORDER BY position
         LIMIT $4",
    )
});

/// Index: the primary key (position), one range per hole and one for the tail. The inner LIMIT equals the outer one. It
/// prevents a sort of a hole that was filled with a million rows, and removes no row that the outer one would return.
static READ: LazyLock<String> = LazyLock::new(|| {
    with_columns(
        "SELECT {columns} FROM unnest($2::bigint[], $3::bigint[]) AS asked (first, last)
         CROSS JOIN LATERAL (
             SELECT * FROM ONLY {schema}.events
             WHERE position BETWEEN asked.first AND asked.last
             ORDER BY position
             LIMIT $4
         ) AS found
         ORDER BY position
         LIMIT $4",
    )
});

/// Reads events from a loaded state on, over a separate connection. Once that is lost, every claim fails: what the
/// claimer knows may belong to another history. A claim whose future is dropped changes nothing; the next claim reads
/// the same events. Everything here is in memory: after a crash the next owner starts from the recorded progress.
pub(super) struct PostgresClaimer {
    config: PostgresConfig,
    link: Link<Session>,
    /// The server the state was loaded from.
    server: Option<Incarnation>,
    tail: Tail,
}

/// Everything that one claim read from the database.
struct QueryResults {
    stamp: Option<u64>,
    writers: Option<Writers>,
    head: Row,
    rows: Vec<Row>,
}

impl PostgresClaimer {
    pub(super) fn new(config: PostgresConfig, server: Option<Incarnation>, progress: &Progress) -> Self {
        let tail = Tail::new(progress, config.options().patience);
        Self { config, link: Link::Unopened, server, tail }
    }

    async fn claim_next(&mut self, budget: Budget) -> Result<Claimed> {
        if matches!(self.link, Link::Unopened) {
            self.link = Link::Open(Box::new(self.config.connect().await?));
        }
        let Link::Open(session) = &self.link else { return Err(link_lost()) };
        let now = self.tail.now();
        let asked = self.tail.holes.ranges(budget.events_max);
        let ask = |payload_bytes_max| {
            session.in_time(Access::Reads, self.ask(session, &asked, budget, payload_bytes_max, now))
        };
        let mut answer = ask(payload_limit(budget)).await;
        if is_row_damaged(&answer) {
            answer = ask(NONE_INLINE).await;
        }
        let answer = answer?;
        let sequence = row::position(&answer.head, 2)?;
        self.refuse_other_server(&answer.head)?;
        if let Some(change) = self.tail.history_change(sequence, get(&answer.head, 4)?) {
            return Ok(Claimed::HistoryChanged(change));
        }
        let facts = ScanFacts {
            last: sequence,
            stamp: answer.stamp,
            horizon: u64::try_from(get::<i64>(&answer.head, 3)?).ok(),
            writers: answer.writers,
            assigned_up_to: sequence,
            held: Vec::new(),
        };
        let read = page::read(session, &answer.rows, budget).await?;
        Ok(Claimed::Page(self.tail.page(asked, now, read, facts)))
    }

    /// Sends the statements of a claim without waiting in between, in the order they must run.
    async fn ask(
        &self,
        session: &Session,
        asked: &Ranges,
        budget: Budget,
        payload_bytes_max: i32,
        now: Duration,
    ) -> Result<QueryResults> {
        let Session { client, statements, .. } = session;
        // One more than the budget, to know whether there are more events.
        let limit = row_limit(budget.events_max.max(1).saturating_add(1));
        let (read, read_params): (_, Params<'_>) = match (asked.first.as_slice(), asked.last.as_slice()) {
            ([first], [last]) => (READ_TAIL.as_str(), &[&payload_bytes_max, first, last, &limit]),
            _ => (READ.as_str(), &[&payload_bytes_max, &asked.first, &asked.last, &limit]),
        };
        let mark = self.tail.mark().map(Position::get);
        let head_params: Params<'_> = &[&mark];
        let head = statements.get(client, HEAD, head_params).await?;
        let read = statements.get(client, read, read_params).await?;
        let (stamp, writers) =
            (statements.get(client, STAMP, &[]).await?, statements.get(client, WRITERS, &[]).await?);
        let shape = statements.get(client, SHAPE, &[]).await?;
        let (wants_stamp, wants_writers) =
            (self.tail.holes.wants_stamp(), self.tail.holes.wants_writers(now));
        // Only a hole that was noticed before can be declared empty now, and only if the table still assigns positions
        // as it should.
        let wants_shape = self.tail.holes.len() > 0;
        // Each future sends its statement when it is first polled, and `biased` polls them in this order.
        let (stamp, writers, begun, shape, head, rows, ended) = tokio::join!(
            biased;
            async { if wants_stamp { session.in_own_transaction(&stamp, &[]).await.map(Some) } else { Ok(None) } },
            async { if wants_writers { session.in_own_transaction(&writers, &[]).await.map(Some) } else { Ok(None) } },
            client.batch_execute(session.begin_events()),
            async { if wants_shape { shape.query(client, &[]).await.map(Some) } else { Ok(None) } },
            head.query(client, head_params),
            read.query(client, read_params),
            client.batch_execute(COMMIT),
        );
        begun.map_err(failed)?;
        if let Some(shape) = shape.map_err(failed)? {
            shape::check(&shape)?;
        }
        let (head, rows) = (head.map_err(failed)?, rows.map_err(failed)?);
        ended.map_err(failed)?;
        let server = self.server.as_ref().unwrap_or(&session.incarnation);
        let stamp = match stamp.map_err(failed)?.as_deref() {
            Some([row, ..]) if !server.is_same(get(row, 1)?, get(row, 2)?) => return Err(session.give_up()),
            Some([row, ..]) => u64::try_from(get::<i64>(row, 0)?).ok(),
            _ => None,
        };
        let mut writers = writers.map_err(failed)?.map(|rows| writers::read(&rows)).transpose()?;
        let named = format!("server {} {}", server.started, server.timeline());
        if writers.as_mut().is_some_and(|names| names.remove(&named).is_none()) {
            return Err(session.give_up());
        }
        let head = head.into_iter().next();
        let head =
            head.ok_or_else(|| Error::new(Code::SchemaMissing, "the sequence of the outbox does not exist"))?;
        Ok(QueryResults { stamp, writers, head, rows })
    }

    /// Refuses an answer after a restart of the server, or from another server. Whether the subscription may continue
    /// there is decided when its state is loaded again.
    fn refuse_other_server(&self, head: &Row) -> Result<()> {
        match &self.server {
            Some(server) if !server.is_same(get(head, 0)?, get(head, 1)?) => Err(link_lost()),
            _ => Ok(()),
        }
    }
}

impl AsyncClaimer for PostgresClaimer {
    async fn claim(&mut self, budget: Budget) -> Result<Claimed> {
        self.link.close_if_lost();
        self.claim_next(budget).await
    }
}
