//! The physical limit: a paged, ordered SELECT that reads every column into owned values.

use mysql_async::prelude::Queryable;
use mysql_async::{Row, Value};

use super::{Cost, Fixture, Gauge};
use crate::Error;

impl Fixture {
    /// Reads all events, a page at a time.
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
        let gauge = Gauge::start(self).await?;
        let mut after = 0;
        loop {
            let rows: Vec<Row> = connection.exec(&statement, (after, page_events)).await?;
            let rows: Vec<Vec<Value>> = rows.into_iter().map(Row::unwrap).collect();
            let Some(last) = rows.last() else { break };
            after = mysql_async::from_value_opt(last[0].clone())?;
        }
        let cost = gauge.stop().await?;
        connection.disconnect().await?;
        Ok(cost)
    }
}
