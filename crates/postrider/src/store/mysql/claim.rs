//! Claiming: committed events in position order, each once, and the holes: positions whose event may still be
//! committed.
//!
//! A claim queries in this order:
//!
//! 1. the list of writers, if there are old holes; it must be older than the snapshot that follows
//! 2. the events: holes and tail in one statement, which is one snapshot
//! 3. the history: whether the highest event seen still has its position. It is queried after the events, so that a
//!    change before or between the two queries is detected before any event is handed out
//!
//! See [`holes`](crate::store::holes) for when a hole is declared empty, which means that no event will ever have the position.

use std::sync::LazyLock;
use std::time::Duration;

use mysql_async::Row;
use uuid::Uuid;

use super::connect::MySqlConfig;
use super::empty_positions::EmptyPositions;
use super::history::{NEXT, before};
use super::page::{self, small};
use super::ranges::within;
use super::row::{self, get_opt, with_columns};
use super::session::{Access, Params, Prepared, Session, params};
use super::writers::{Listed, Lister};
use crate::ledger::{Intervals, Progress};
use crate::store::connection::{Link, link_lost};
use crate::store::holes::Ranges;
use crate::store::page_builder::PageBuilder;
use crate::store::tail::{ScanFacts, Tail};
use crate::store::{AsyncClaimer, Budget, Claimed, Loaded};
use crate::{Code, Error, Position, Result};

/// Index: the primary key (position), one range per hole and one for the tail, read in order.
static READ: LazyLock<String> = LazyLock::new(|| {
    with_columns(
        "SELECT {columns} FROM {schema}.events FORCE INDEX (PRIMARY)
         WHERE {ranges}
         ORDER BY position
         LIMIT ?",
    )
});

/// The condition for the tail alone: the same statement for every page of a backlog.
const TAIL: &str = "position >= ?";

/// Index: the primary key (position), one row; and its last entry.
const HEAD: &str = "
    SELECT (SELECT id FROM {schema}.events WHERE position = ?),
           (SELECT MAX(position) FROM {schema}.events)";

/// Reads events from a loaded state on, over a separate connection. Once that is lost, every claim fails: what the
/// claimer knows may belong to another history. If the future of a claim is dropped, the connection is lost.
pub(super) struct MySqlClaimer {
    config: MySqlConfig,
    link: Link<Session>,
    /// The server the state was loaded from.
    server: Option<String>,
    tail: Tail,
    lister: Lister,
    /// The positions that were done at the start.
    done: Intervals,
    /// Those of them, and later ones, that are empty.
    empty_positions: EmptyPositions,
}

/// Everything that one claim read from the database.
struct QueryResults {
    listed: Option<Listed>,
    read: PageBuilder,
    /// The id of the event at the position of the highest one known.
    found: Option<Uuid>,
    /// The highest position taken.
    last: Position,
}

impl MySqlClaimer {
    /// Continues from the state of a lease.
    pub(super) fn of(
        config: MySqlConfig,
        server: Option<String>,
        subscription: &str,
        loaded: &Loaded,
    ) -> Self {
        Self {
            empty_positions: EmptyPositions::of(subscription, loaded.epoch),
            ..Self::new(config, server, &loaded.progress)
        }
    }

    pub(super) fn new(config: MySqlConfig, server: Option<String>, progress: &Progress) -> Self {
        Self {
            done: progress.done.clone(),
            empty_positions: EmptyPositions::default(),
            tail: Tail::new(progress, config.options().patience),
            lister: Lister::default(),
            config,
            link: Link::Unopened,
            server,
        }
    }

    async fn open(&mut self) -> Result<()> {
        let session = self.config.connect().await?;
        // Whether the subscription may continue on another server is decided when its state is loaded again.
        if self.server.as_ref().is_some_and(|server| *server != session.server.history) {
            self.link = Link::Lost;
            return Err(link_lost());
        }
        if session.server.locks.is_none() {
            let age = self.config.insert_duration();
            tracing::warn!(
                age_ms = age.as_millis(),
                "the server does not report which sessions write to the outbox: rolled-back positions stay \
                 holes for this long, and until every transaction that had written by then has ended"
            );
            self.tail.holes.wait_at_least(age);
        }
        self.link = Link::Open(Box::new(session));
        Ok(())
    }

    async fn claim_next(&mut self, budget: Budget) -> Result<Claimed> {
        if matches!(self.link, Link::Unopened) {
            self.open().await?;
        }
        let now = self.tail.now();
        let asked = self.tail.holes.ranges(budget.events_max);
        let QueryResults { listed, mut read, found, last } = self.ask(&asked, budget, now).await?;
        if let Some(change) = self.tail.history_change(last, found) {
            return Ok(Claimed::HistoryChanged(change));
        }
        let session = self.link.session()?;
        self.empty_positions.check(session, &self.done, now).await?;
        page::complete(session, &mut read).await?;
        let (writers, assigned_up_to, held) = match listed {
            Some(Listed { writers, assigned_up_to, held }) => (Some(writers), assigned_up_to, held),
            None => (None, Position::LAST, Vec::new()),
        };
        let facts = ScanFacts { last, stamp: None, horizon: None, writers, assigned_up_to, held };
        let mut page = self.tail.page(asked, now, read, facts);
        page.empty_positions = self.empty_positions.add(page.empty_positions);
        page.damaged.extend(self.empty_positions.take_late_rows());
        Ok(Claimed::Page(page))
    }

    async fn ask(&mut self, asked: &Ranges, budget: Budget, now: Duration) -> Result<QueryResults> {
        let session = self.link.session()?;
        let listed = self.lister.list(session, &self.tail.holes, now).await?;

        let read = read(session, asked, budget).await?;
        let mark = self.tail.mark().map_or(0, Position::get);
        let mut head = None;
        let mut keep = |row: Row| {
            head = Some((row::uuid_opt(&row, 0)?, get_opt::<i64>(&row, 1)?));
            Ok(())
        };
        session.each(Prepared::Kept, HEAD, params![mark], &mut keep).await?;
        let (found, last) =
            head.ok_or_else(|| Error::new(Code::StoreFailed, "the database returned an incomplete result"))?;
        let mut last = last.map_or(Position::ZERO, Position::new);
        if last < self.tail.reached() {
            // The last events were deleted. Their positions are still taken, if the counter has passed them.
            let next = NEXT.replace("{name}", session.schema().as_str());
            let rows = session.autocommit(Access::Reads, &next, Params::new()).await?;
            last = rows.first().map_or(Ok(last), before)?;
        }
        Ok(QueryResults { listed, read, found, last })
    }
}

/// The events of the ranges, within the budget.
async fn read(session: &mut Session, asked: &Ranges, budget: Budget) -> Result<PageBuilder> {
    let mut read = PageBuilder::new(budget, usize::MAX);
    let mut take = |row| page::take(&mut read, row);
    // One more than the budget, to know whether there are more events.
    let (mut values, limit) = (small(budget), budget.events_max.max(1).saturating_add(1));
    match (asked.first.as_slice(), asked.last.as_slice()) {
        ([first], [i64::MAX]) => {
            let statement = READ.replace("{ranges}", TAIL);
            values.extend(params![*first, limit]);
            session.each(Prepared::Kept, &statement, values, &mut take).await?;
        }
        (first, last) => {
            let ranges = within(first.iter().copied().zip(last.iter().copied()));
            let statement = READ.replace("{ranges}", &ranges);
            values.extend(params![limit]);
            session.each(Prepared::Once, &statement, values, &mut take).await?;
        }
    }
    Ok(read)
}

impl AsyncClaimer for MySqlClaimer {
    async fn claim(&mut self, budget: Budget) -> Result<Claimed> {
        self.link.close_if_lost();
        self.claim_next(budget).await
    }
}
