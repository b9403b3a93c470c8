//! Events of one answer, within a budget; and reading events again by position.

use std::sync::Arc;

use tokio_postgres::Row;
use uuid::Uuid;

use super::connection::Guard;
use super::rest::{self, Rest};
use super::row::{self, event_columns};
use super::session::Session;
use crate::store::page_builder::PageBuilder;
use crate::store::{Budget, Fetched};
use crate::{Code, Position, Result, StoredEvent};

/// Room made for a page at once; a larger one grows.
const ROOM_EVENTS_MAX: usize = 2_048;

/// A payload, headers or action up to this size always come along with their event.
const PAYLOAD_BYTES_SMALL: usize = 1_024;

/// Payloads up to this size come along with their events: all together they keep to the budget. Larger ones
/// are asked for in a second round trip, once it is known which of them fit.
pub(super) fn payload_limit(budget: Budget) -> i32 {
    let fair = budget.bytes_max / budget.events_max.max(1);
    i32::try_from(fair.max(PAYLOAD_BYTES_SMALL)).unwrap_or(i32::MAX)
}

/// Events that fit the budget.
pub(super) struct Read {
    pub(super) events: Vec<StoredEvent>,
    /// Rows that no event can be made of, and why.
    pub(super) damaged: Vec<(Position, String)>,
    /// The first position that did not fit.
    pub(super) left: Option<Position>,
    /// Places of events of which some is still to come.
    bare: Vec<usize>,
}

impl Read {
    /// The events of the rows, in their order, as far as the budget goes.
    pub(super) fn of(rows: &[Row], budget: Budget) -> Result<Self> {
        let mut builder = PageBuilder::new(budget, rows.len().min(budget.events_max).min(ROOM_EVENTS_MAX));
        let (mut bare, mut left) = (Vec::new(), None);
        for row in rows {
            let (position, bytes) = (row::position(row, 0)?, row::size_bytes(row)?);
            if builder.is_full_for(bytes) {
                left = Some(position);
                break;
            }
            let event = row::event(row).map(|(event, is_bare)| {
                if is_bare {
                    bare.push(builder.events.len());
                }
                event
            });
            builder.take(position, event, bytes)?;
        }
        Ok(Self { events: builder.events, damaged: builder.damaged, left, bare })
    }

    /// Reads what stayed behind.
    pub(super) async fn complete(mut self, session: &Session) -> Result<Self> {
        if !self.bare.is_empty() {
            let (positions, ids) = self.asked();
            let rests = rest::of(session, &positions, &ids).await?;
            self.take_in(rests);
        }
        Ok(self)
    }

    /// Every position that was handed out, as an event or as damaged, ascending if the rows were.
    pub(super) fn found(&self) -> Vec<Position> {
        let events = self.events.iter().map(|event| event.position);
        let mut found: Vec<Position> = events.chain(self.damaged.iter().map(|(at, _)| *at)).collect();
        if !self.damaged.is_empty() {
            found.sort_unstable();
        }
        found
    }

    /// The positions and ids of events without their payloads.
    fn asked(&self) -> (Vec<i64>, Vec<Uuid>) {
        let bare = self.bare.iter().map(|place| &self.events[*place]);
        bare.map(|event| (event.position.get(), event.event.id)).unzip()
    }

    /// Gives the bare events what they lack, which comes in the same order.
    fn take_in(&mut self, rests: Vec<Result<Rest>>) {
        let mut damaged = Vec::new();
        for (place, rest) in self.bare.drain(..).zip(rests) {
            match rest {
                // No other process has seen the event yet.
                Ok(rest) => _ = Arc::get_mut(&mut self.events[place].event).map(|event| rest.put_into(event)),
                Err(error) => damaged.push((place, error.one_line())),
            }
        }
        for (place, why) in damaged.into_iter().rev() {
            self.damaged.push((self.events.remove(place).position, why));
        }
    }
}

/// Index: the primary key (position).
const FETCH: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM unnest($2::bigint[]) WITH ORDINALITY AS asked (position, place)
      JOIN ONLY {schema}.events USING (position)
      ORDER BY place"
);

/// See [`Store::fetch`](crate::store::Store::fetch).
pub(super) async fn fetch(conn: &mut Guard<'_>, positions: &[Position], bytes_max: usize) -> Result<Fetched> {
    if positions.is_empty() {
        return Ok(Fetched::default());
    }
    let budget = Budget { events_max: positions.len(), bytes_max };
    let asked: Vec<i64> = positions.iter().map(|position| position.get()).collect();
    let rows = match ask(conn, &asked, payload_limit(budget)).await {
        // The server cannot read some of a row. What is large is then asked for event by event.
        Err(error) if error.code() == Code::RowDamaged => ask(conn, &asked, -1).await?,
        rows => rows?,
    };
    let read = Read::of(&rows, budget)?.complete(conn.session()?).await?;
    // What stands before the first event that did not fit, and was not found, is gone.
    let looked_at = positions.iter().take_while(|position| Some(**position) != read.left);
    let mut found = read.events.iter().map(|event| event.position).peekable();
    let gone = looked_at.copied().filter(|position| found.next_if_eq(position).is_none()).collect();
    Ok(Fetched { events: read.events, gone, ..Fetched::default() })
}

async fn ask(conn: &mut Guard<'_>, positions: &Vec<i64>, payload_bytes_max: i32) -> Result<Vec<Row>> {
    // An event that is not seen counts as deleted: the look has to be one that a rewritten table cannot deceive.
    let tx = conn.begin_read().await?;
    let rows = tx.query(FETCH, &[&payload_bytes_max, positions]).await?;
    tx.commit().await?;
    Ok(rows)
}
