//! What a SQLite file knows about one event; see [`event_facts`](crate::store::event_facts).

use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::claim;
use super::failure::Attempt;
use super::log_tx::SqliteTx;
use super::worker::poll_once;
use crate::operate::explain::{EventFacts, OpenWriter};
use crate::operate::{AuditEntry, AuditSearch, EventSelector, ParkedItem};
use crate::store::audit_tx;
use crate::store::event_facts::{self, EVENT_BYTES_MAX, FactsTx, ReadEvent};
use crate::{Position, Result, Timestamp};

/// See [`Store::event_facts`](crate::store::Store::event_facts).
pub(super) fn facts(snapshot: &mut Connection, sought: &EventSelector) -> Attempt<EventFacts> {
    match sought {
        EventSelector::Event(event) => {
            let position = poll_once(event_facts::find(&mut SqliteTx(snapshot), event))?;
            let read = position.map(|position| read(snapshot, position)).transpose()?;
            poll_once(event_facts::about_event(&mut SqliteTx(snapshot), event, read))
        }
        EventSelector::Key(key) => {
            let mut events = Vec::new();
            for (name, position) in poll_once(event_facts::of_key(&mut SqliteTx(snapshot), key))? {
                events.push((name, read(snapshot, position)?));
            }
            poll_once(event_facts::about_key(&mut SqliteTx(snapshot), events))
        }
    }
}

fn read(snapshot: &Connection, position: Position) -> Attempt<ReadEvent> {
    Ok(ReadEvent::of(position, claim::fetch(snapshot, &[position], EVENT_BYTES_MAX)?))
}

/// See [`Store::find_audit`](crate::store::Store::find_audit).
pub(super) fn find_audit(snapshot: &mut Connection, search: &AuditSearch) -> Attempt<Vec<AuditEntry>> {
    poll_once(audit_tx::find(&mut SqliteTx(snapshot), search))
}

/// The columns of [`ParkedItem::read`].
macro_rules! item {
    () => {
        "SELECT CAST(p.position AS TEXT), CASE typeof(p.event_id) WHEN 'text' THEN p.event_id END,
                (SELECT e.type FROM postrider_events AS e WHERE e.position = p.position),
                p.key, p.destination, p.state, p.attempts, p.next_attempt_at, p.last_error, p.parked_at, p.updated_at,
                p.redelivery
         FROM postrider_parked AS p "
    };
}

impl SqliteTx<'_> {
    fn position(&self, sql: &str, params: impl rusqlite::Params) -> Attempt<Option<Position>> {
        let found = self.0.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()?;
        Ok(found.map(Position::new))
    }

    fn item(&self, name: &str, sql: &str, params: impl rusqlite::Params) -> Attempt<Option<ParkedItem>> {
        let mut statement = self.0.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        Ok(match rows.next()? {
            Some(row) => Some(ParkedItem::read(name, row)?),
            None => None,
        })
    }
}

impl FactsTx for SqliteTx<'_> {
    async fn position_of(&mut self, id: Uuid, start: Position, end: Position) -> Result<Option<Position>> {
        // Ids are texts in any case, or 16 bytes. Index: the primary key (position), one range.
        let sql = "SELECT position FROM postrider_events
                   WHERE position BETWEEN ?1 AND ?2 AND CASE typeof(id) WHEN 'blob' THEN id = ?3 ELSE lower(id) = ?4 END
                   ORDER BY position LIMIT 1";
        let text = id.to_string();
        Ok(self.position(sql, params![start.get(), end.get(), id.as_bytes().as_slice(), text])?)
    }

    async fn first_of_key(&mut self, key: &str, start: Position, end: Position) -> Result<Option<Position>> {
        // Index: the primary key (position), one range.
        let sql = "SELECT position FROM postrider_events
                   WHERE position BETWEEN ?1 AND ?2
                     AND coalesce(key, replace(replace(aggregate_type, '%', '%25'), '/', '%2F') || '/'
                                       || aggregate_id) = ?3
                   ORDER BY position LIMIT 1";
        Ok(self.position(sql, params![start.get(), end.get(), key])?)
    }

    async fn parked_at(&mut self, name: &str, position: Position) -> Result<Option<ParkedItem>> {
        let sql = concat!(item!(), "WHERE p.subscription = ?1 AND p.position = ?2");
        Ok(self.item(name, sql, params![name, position.get()])?)
    }

    async fn parked_head(&mut self, name: &str, key: &str, below: Position) -> Result<Option<ParkedItem>> {
        let sql = concat!(
            item!(),
            "WHERE p.subscription = ?1 AND p.position < ?2 AND p.key = ?3 AND p.state <> 'behind'
             ORDER BY p.position DESC LIMIT 1"
        );
        Ok(self.item(name, sql, params![name, below.get(), key])?)
    }

    async fn recorded_at(&mut self, name: &str) -> Result<Option<Timestamp>> {
        let sql = "SELECT updated_at FROM postrider_subscriptions WHERE name = ?1";
        let read = || -> Attempt<Option<i64>> {
            Ok(self.0.prepare_cached(sql)?.query_row([name], |row| row.get(0)).optional()?)
        };
        Ok(read()?.map(Timestamp::from_micros))
    }

    /// A file does not show which process writes to it.
    async fn open_writers(&mut self) -> Result<Vec<OpenWriter>> {
        Ok(Vec::new())
    }
}
