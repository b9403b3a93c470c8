//! The physical limit: a paged, ordered SELECT that reads every column into owned values.

use rusqlite::types::Value;

use super::Fixture;
use crate::machine::Meter;
use crate::{Error, Usage};

const COLUMNS: usize = 15;

impl Fixture {
    /// Reads all events, page by page.
    pub(crate) fn select(&self, page_events: usize) -> Result<Usage, Error> {
        let connection = self.connect()?;
        let meter = Meter::start();
        let mut after = 0_i64;
        loop {
            let page = read_page(&connection, after, page_events)?;
            match page.last().map(|row| &row[0]) {
                Some(Value::Integer(last)) => after = *last,
                _ => return Ok(meter.stop()),
            }
        }
    }
}

fn read_page(
    connection: &rusqlite::Connection,
    after: i64,
    page_events: usize,
) -> Result<Vec<[Value; COLUMNS]>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT position, id, type, aggregate_type, aggregate_id, key, payload, headers, time, topic,
                max_attempts, expires_at, action, namespace, producer
         FROM postrider_events
         WHERE position > ?1
         ORDER BY position
         LIMIT ?2",
    )?;
    let mut rows = statement.query([after, page_events as i64])?;
    let mut page = Vec::with_capacity(page_events);
    while let Some(row) = rows.next()? {
        let mut owned = [const { Value::Null }; COLUMNS];
        for (index, column) in owned.iter_mut().enumerate() {
            *column = row.get(index)?;
        }
        page.push(owned);
    }
    Ok(page)
}
