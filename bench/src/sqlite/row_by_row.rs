//! The common approach: a status column and two updates per event.

use rusqlite::Connection;

use super::Fixture;
use crate::machine::Meter;
use crate::{Error, Usage};

impl Fixture {
    /// Publishes events to nowhere and marks each before and after, with the statements of `outbox_events`. Its rows
    /// are copies of this fixture's.
    pub(crate) fn row_by_row(&self, events: u64, page_events: usize) -> Result<Usage, Error> {
        let connection = self.connect()?;
        connection.execute_batch("PRAGMA synchronous = FULL")?;
        copy_rows(&connection, events)?;
        let meter = Meter::start();
        let mut published = 0;
        while published < events {
            for id in due(&connection, page_events)? {
                publish(&connection, id)?;
                published += 1;
            }
        }
        Ok(meter.stop())
    }
}

fn copy_rows(connection: &Connection, events: u64) -> Result<(), Error> {
    connection.execute_batch(
        "DROP TABLE IF EXISTS outbox_events;
         CREATE TABLE outbox_events (
             id INTEGER PRIMARY KEY AUTOINCREMENT,
             aggregate_type TEXT NOT NULL,
             aggregate_id TEXT NOT NULL,
             event_type TEXT NOT NULL,
             payload TEXT NOT NULL,
             status TEXT NOT NULL DEFAULT 'PENDING',
             created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
             last_attempt_at TIMESTAMP,
             attempt_count INTEGER NOT NULL DEFAULT 0
         );
         CREATE INDEX idx_outbox_events_status ON outbox_events(status, created_at);",
    )?;
    connection.execute(
        "INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
         SELECT aggregate_type, aggregate_id, type, payload
         FROM postrider_events
         ORDER BY position
         LIMIT ?1",
        [events as i64],
    )?;
    Ok(())
}

fn due(connection: &Connection, page_events: usize) -> Result<Vec<i64>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT *
         FROM outbox_events
         WHERE status = 'PENDING' OR (status = 'FAILED' AND attempt_count < 10)
         ORDER BY created_at
         LIMIT ?1",
    )?;
    let ids = statement.query_map([page_events as i64], |row| {
        let _payload: Vec<u8> = row.get_ref(4)?.as_bytes()?.to_vec();
        row.get(0)
    })?;
    Ok(ids.collect::<Result<_, _>>()?)
}

fn publish(connection: &Connection, id: i64) -> Result<(), Error> {
    let mut claim = connection.prepare_cached(
        "UPDATE outbox_events
         SET status = 'PUBLISHING', attempt_count = attempt_count + 1, last_attempt_at = CURRENT_TIMESTAMP
         WHERE id = ?1 AND status IN ('PENDING', 'FAILED')",
    )?;
    claim.execute([id])?;
    let mut mark =
        connection.prepare_cached("UPDATE outbox_events SET status = 'PUBLISHED' WHERE id = ?1")?;
    mark.execute([id])?;
    Ok(())
}
