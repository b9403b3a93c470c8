//! Claiming: committed events in position order, each once, and the book of those that may still come.
//!
//! 1. the list of writers, if there are holes old enough to ask for it; older than what follows
//! 2. the events: holes and tail in one statement, which is one snapshot
//! 3. the history: the highest event seen is still where it was. Asked after the events, so that a change before
//!    or between the two is noticed before anything is handed out
//!
//! See [`holes`](crate::store::holes) for why a hole may be buried.

use std::time::Duration;

use mysql_async::Row;
use uuid::Uuid;

use super::absent::Absent;
use super::connect::MySqlConfig;
use super::history::{NEXT, before};
use super::page::{Read, small};
use super::ranges::within;
use super::row::{self, event_columns, get_opt};
use super::session::{Access, Params, Prepared, Session, params};
use super::writers::{Listed, Lister};
use crate::ledger::{Intervals, Mark, Progress};
use crate::store::holes::{Holes, Ranges, Scan};
use crate::store::{Budget, Claimed, Claimer, Loaded, Page, history};
use crate::{BoxFuture, Clock, Code, Error, Position, Result, SystemClock};

/// Index: the primary key (position), one range per hole and one for the tail, read in order.
const READ: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM {schema}.events FORCE INDEX (PRIMARY)
      WHERE {ranges}
      ORDER BY position
      LIMIT ?"
);

/// The tail alone: the same text for every page of a backlog.
const TAIL: &str = "position >= ?";

/// Index: the primary key (position), one row; and its last entry.
const HEAD: &str = "
    SELECT (SELECT id FROM {schema}.events WHERE position = ?),
           (SELECT MAX(position) FROM {schema}.events)";

/// Reads on from a loaded state, on a connection of its own. Once that is lost the claimer is of no use any
/// more: what it knows may belong to another history. Dropping the future of a claim costs the connection.
pub(super) struct MySqlClaimer {
    config: MySqlConfig,
    link: Link,
    /// The server the state was loaded from.
    server: Option<String>,
    clock: SystemClock,
    holes: Holes,
    lister: Lister,
    /// What was done at the start, and the positions of it that are empty.
    done: Intervals,
    absent: Absent,
    /// The highest event known: it tells this history from another.
    highest: Option<Mark>,
    /// The outbox was seen to reach at least here.
    reached: Position,
}

enum Link {
    Unopened,
    Open(Box<Session>),
    Lost,
}

/// Everything one claim learnt from the database.
struct Answer {
    listed: Option<Listed>,
    read: Read,
    /// The event that stands where the highest known one stood.
    found: Option<Uuid>,
    /// How far the outbox reaches.
    last: Position,
}

impl MySqlClaimer {
    /// Goes on from a state that came with a lease.
    pub(super) fn of(
        config: MySqlConfig,
        server: Option<String>,
        subscription: &str,
        loaded: &Loaded,
    ) -> Self {
        Self { absent: Absent::of(subscription, loaded.epoch), ..Self::new(config, server, &loaded.progress) }
    }

    pub(super) fn new(config: MySqlConfig, server: Option<String>, progress: &Progress) -> Self {
        let highest = progress.highest;
        Self {
            done: progress.done.clone(),
            absent: Absent::default(),
            holes: Holes::new(&progress.done, config.patience()),
            lister: Lister::default(),
            reached: progress.done.highest().max(highest.map_or(Position::ZERO, |mark| mark.position)),
            config,
            link: Link::Unopened,
            server,
            clock: SystemClock::new(),
            highest,
        }
    }

    async fn claim_next(&mut self, budget: Budget) -> Result<Claimed> {
        if matches!(self.link, Link::Unopened) {
            let session = self.config.connect().await?;
            // Whether the subscription may go on at another server is decided when its state is loaded again.
            if self.server.as_ref().is_some_and(|server| *server != session.server.history) {
                self.link = Link::Lost;
                return Err(lost());
            }
            if session.server.locks.is_none() {
                let age = self.config.statements_end();
                tracing::warn!(
                    age_ms = age.as_millis(),
                    "the server does not report which sessions write to the outbox: rolled-back positions stay \
                     undecided for this long, and until every transaction that had written by then has ended"
                );
                self.holes.wait_at_least(age);
            }
            self.link = Link::Open(Box::new(session));
        }
        let now = self.clock.now().elapsed;
        let was_full = self.holes.is_full();
        let asked = self.holes.ranges(budget.events_max);
        let answer = self.ask(&asked, budget, now).await?;
        if let Some(change) = history::change(answer.last, self.reached, self.highest, answer.found) {
            return Ok(Claimed::HistoryChanged(change));
        }
        let Link::Open(session) = &mut self.link else { return Err(lost()) };
        self.absent.check(session, &self.done, now).await?;
        let mut read = answer.read.complete(session).await?;

        // From here on nothing waits and nothing fails.
        self.reached = self.reached.max(answer.last);
        if let Some(last) = read.builder.events.last()
            && self.highest.is_none_or(|mark| mark.position < last.position)
        {
            self.highest = Some(Mark { position: last.position, id: last.event.id });
        }
        let to_the_end = asked.reach_the_tail() && read.left.is_none();
        let has_left = read.left.is_some();
        let found = read.found();
        let (writers, taken, held) = match answer.listed {
            Some(Listed { writers, taken, held }) => (Some(writers), taken, held),
            None => (None, Position::new(i64::MAX), Vec::new()),
        };
        let (left, held) = (read.left, &held);
        let scan = Scan { asked, found: &found, left, stamp: None, horizon: None, writers, taken, held };
        let dead = self.holes.apply_between(scan, now, self.clock.now().elapsed);
        let dead = self.absent.add(dead);
        read.builder.damaged.extend(self.absent.take());
        let holes_full = self.holes.is_full();
        if holes_full && !was_full {
            tracing::warn!(
                holes = self.holes.len(),
                "too many open transactions: no new events are read until they end"
            );
        }
        // At the limit, looking again at once does not help; but no process may believe that all has been read.
        let more_at_once = !to_the_end && (has_left || !holes_full);
        Ok(Claimed::Page(Page {
            events: read.builder.events,
            dead,
            damaged: read.builder.damaged,
            more_at_once,
            left_unread: !to_the_end,
            holes: self.holes.len(),
            holes_full,
            taken: 0,
        }))
    }

    async fn ask(&mut self, asked: &Ranges, budget: Budget, now: Duration) -> Result<Answer> {
        let Link::Open(session) = &mut self.link else { return Err(lost()) };
        let listed = self.lister.list(session, &self.holes, now).await?;

        let read = read(session, asked, budget).await?;
        let mark = self.highest.map_or(0, |mark| mark.position.get());
        let mut head = None;
        let mut keep = |row: Row| {
            head = Some((row::uuid_opt(&row, 0)?, get_opt::<i64>(&row, 1)?));
            Ok(())
        };
        session.each(Prepared::Kept, HEAD, params![mark], &mut keep).await?;
        let (found, last) =
            head.ok_or_else(|| Error::new(Code::StoreFailed, "the database returned an incomplete result"))?;
        let mut last = last.map_or(Position::ZERO, Position::new);
        if last < self.reached {
            // Another process has deleted the last events. What was given stays given, if the counter knows of it.
            let next = NEXT.replace("{name}", session.schema().as_str());
            let rows = session.autocommit(Access::Reads, &next, Params::new()).await?;
            last = rows.first().map_or(Ok(last), before)?;
        }
        Ok(Answer { listed, read, found, last })
    }
}

/// The events of the ranges, as far as the budget goes.
async fn read(session: &mut Session, asked: &Ranges, budget: Budget) -> Result<Read> {
    let mut read = Read::new(budget);
    let mut take = |row| read.take(row);
    // One more than fits, to know whether there is more.
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

impl Claimer for MySqlClaimer {
    fn claim(&mut self, budget: Budget) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(async move {
            if let Link::Open(session) = &self.link
                && !session.is_usable()
            {
                self.link = Link::Lost;
            }
            self.claim_next(budget).await
        })
    }
}

fn lost() -> Error {
    Error::new(Code::StoreFailed, "the connection that events were read from was lost")
        .with_hint("nothing to do: the subscription is loaded again")
}
