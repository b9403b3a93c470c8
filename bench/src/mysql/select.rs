//! The physical limit: a paged, ordered SELECT that reads every column into owned values.

use mysql_async::prelude::Queryable;
use mysql_async::{Row, Value};
use uuid::Uuid;

use super::{Cost, Fixture, Gauge};
use crate::Error;

/// An event as the driver returns it, with texts as strings, as on the other databases.
struct Owned {
    position: i64,
    _id: Uuid,
    _texts: [Option<String>; 8],
    _payload: Vec<u8>,
    _others: [Value; 3],
}

impl Fixture {
    /// Reads all events, page by page.
    pub(crate) async fn select(&self, page_events: usize) -> Result<Cost, Error> {
        let mut connection = self.connect().await?;
        let statement = self.sql(
            "SELECT position, id, type, aggregate_type, aggregate_id, `key`, headers, topic, namespace,
                    producer, payload, max_attempts, action, time, expires_at
             FROM {schema}.events
             WHERE position > ?
             ORDER BY position
             LIMIT ?",
        );
        let statement = connection.prep(statement).await?;
        let gauge = Gauge::start(self.connect().await?).await?;
        let mut after = 0;
        loop {
            let rows: Vec<Row> = connection.exec(&statement, (after, page_events)).await?;
            let rows: Vec<Owned> = rows.into_iter().map(owned).collect::<Result<_, _>>()?;
            let Some(last) = rows.last() else { break };
            after = last.position;
        }
        let cost = gauge.stop().await?;
        connection.disconnect().await?;
        Ok(cost)
    }
}

/// Moves values instead of copying them.
fn owned(mut row: Row) -> Result<Owned, Error> {
    let id = bytes(&mut row, 1)?.ok_or("an event without an id")?;
    let mut text = |column| -> Result<Option<String>, Error> {
        Ok(bytes(&mut row, column)?.map(String::from_utf8).transpose()?)
    };
    // The action is text too, and NULL in all events.
    let texts = [text(2)?, text(3)?, text(4)?, text(5)?, text(6)?, text(7)?, text(8)?, text(9)?];
    let payload = bytes(&mut row, 10)?.unwrap_or_default();
    let mut other = |column: usize| row.take::<Value, _>(column).unwrap_or(Value::NULL);
    let others = [other(11), other(13), other(14)];
    let Some(Value::Int(position)) = row.take(0) else { return Err("an event without a position".into()) };
    Ok(Owned { position, _id: Uuid::from_slice(&id)?, _texts: texts, _payload: payload, _others: others })
}

fn bytes(row: &mut Row, column: usize) -> Result<Option<Vec<u8>>, Error> {
    match row.take(column) {
        Some(Value::Bytes(bytes)) => Ok(Some(bytes)),
        Some(Value::NULL) => Ok(None),
        _ => Err(format!("column {column} holds neither text nor bytes").into()),
    }
}
