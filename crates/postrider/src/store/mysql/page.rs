//! Events of one answer, within a budget; and reading events again by position.

use std::collections::HashMap;
use std::sync::Arc;

use mysql_async::Row;
use uuid::Uuid;

use super::ranges::listed;
use super::row::{self, event_columns};
use super::session::{Access, Params, Prepared, Session, params};
use crate::store::page_builder::PageBuilder;
use crate::store::{Budget, Fetched};
use crate::{Code, Error, Position, Result};

/// Room made for a page at once; a larger one grows.
const ROOM_EVENTS_MAX: usize = 2_048;

/// A payload, headers or action up to this size always come along with their event.
const PAYLOAD_BYTES_SMALL: usize = 1_024;

/// The size up to which payloads come along with their events: all together they keep to the budget. Larger ones
/// are asked for in a second round trip, once it is known which of them fit.
pub(super) fn payload_limit(budget: Budget) -> i64 {
    let fair = budget.bytes_max / budget.events_max.max(1);
    i32::try_from(fair.max(PAYLOAD_BYTES_SMALL)).unwrap_or(i32::MAX).into()
}

/// The first parameters of a statement with [`event_columns!`].
pub(super) fn small(budget: Budget) -> Params {
    let limit = payload_limit(budget);
    params![limit, limit, limit]
}

/// Events that fit the budget.
pub(super) struct Read {
    pub(super) builder: PageBuilder,
    /// The first position that did not fit.
    pub(super) left: Option<Position>,
    /// Places of events of which some is still to come.
    bare: Vec<usize>,
}

impl Read {
    /// Nothing yet.
    pub(super) fn new(budget: Budget) -> Self {
        let room = budget.events_max.min(ROOM_EVENTS_MAX);
        Self { builder: PageBuilder::new(budget, room), left: None, bare: Vec::new() }
    }

    /// Takes the event of the next row in, as far as the budget goes.
    pub(super) fn take(&mut self, row: Row) -> Result<()> {
        if self.left.is_some() {
            return Ok(());
        }
        let (position, bytes) = (row::position(&row, 0)?, row::size_bytes(&row)?);
        if self.builder.is_full_for(bytes) {
            self.left = Some(position);
            return Ok(());
        }
        let event = row::event(row).map(|(event, is_bare)| {
            if is_bare {
                self.bare.push(self.builder.events.len());
            }
            event
        });
        self.builder.take(position, event, bytes)
    }

    /// Reads what stayed behind.
    pub(super) async fn complete(mut self, session: &mut Session) -> Result<Self> {
        if self.bare.is_empty() {
            return Ok(self);
        }
        // Index: the primary key (position).
        let list = listed(self.bare.iter().map(|place| self.builder.events[*place].position));
        let sql = format!(
            "SELECT position, id, payload, headers, action FROM {{schema}}.events WHERE position IN ({list})"
        );
        let mut rests: HashMap<(Position, Uuid), Row> = HashMap::new();
        for row in session.autocommit(Access::Reads, &sql, Params::new()).await? {
            rests.insert((row::position(&row, 0)?, row::uuid(&row, 1)?), row);
        }
        let mut damaged = Vec::new();
        for place in std::mem::take(&mut self.bare) {
            let event = &mut self.builder.events[place];
            // With the id, so that an event never gets the payload of another.
            let Some(row) = rests.remove(&(event.position, event.event.id)) else {
                return Err(Error::new(Code::StoreBusy, "an event was deleted while it was read"));
            };
            match row::Rest::of(row) {
                // No other process has seen the event yet.
                Ok(rest) => _ = Arc::get_mut(&mut event.event).map(|event| rest.put_into(event)),
                Err(error) if error.code() == Code::RowDamaged => damaged.push((place, error.one_line())),
                Err(error) => return Err(error),
            }
        }
        for (place, why) in damaged.into_iter().rev() {
            let event = self.builder.events.remove(place);
            self.builder.damaged.push((event.position, why));
        }
        Ok(self)
    }

    /// Every position that was handed out, as an event or as damaged, ascending if the rows were.
    pub(super) fn found(&self) -> Vec<Position> {
        let events = self.builder.events.iter().map(|event| event.position);
        let mut found: Vec<Position> = events.chain(self.builder.damaged.iter().map(|(at, _)| *at)).collect();
        if !self.builder.damaged.is_empty() {
            found.sort_unstable();
        }
        found
    }
}

/// Index: the primary key (position).
const FETCH: &str =
    concat!("SELECT ", event_columns!(), " FROM {schema}.events WHERE position IN ({positions})");

/// See [`Store::fetch`](crate::store::Store::fetch).
pub(super) async fn fetch(
    session: &mut Session,
    positions: &[Position],
    bytes_max: usize,
) -> Result<Fetched> {
    if positions.is_empty() {
        return Ok(Fetched::default());
    }
    let budget = Budget { events_max: positions.len(), bytes_max };
    let sql = FETCH.replace("{positions}", &listed(positions.iter().copied()));
    let mut found: HashMap<Position, Row> = HashMap::new();
    let mut keep = |row: Row| {
        found.insert(row::position(&row, 0)?, row);
        Ok(())
    };
    session.each(Prepared::Once, &sql, small(budget), &mut keep).await?;
    let mut read = Read::new(budget);
    for row in positions.iter().filter_map(|position| found.remove(position)) {
        read.take(row)?;
    }
    let read = read.complete(session).await?;
    // What stands before the first event that did not fit, and was not found, is gone.
    let looked_at = positions.iter().take_while(|position| Some(**position) != read.left);
    let mut found = read.builder.events.iter().map(|event| event.position).peekable();
    let gone = looked_at.copied().filter(|position| found.next_if_eq(position).is_none()).collect();
    Ok(Fetched { events: read.builder.events, gone, ..Fetched::default() })
}
