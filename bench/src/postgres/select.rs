//! The physical limit: a paged, ordered SELECT that reads every column into owned values.

use tokio_postgres::{Row, Statement};
use uuid::Uuid;

use super::{Cost, Fixture, Gauge};
use crate::Error;

/// An event as the driver returns it.
struct Owned {
    position: i64,
    _id: Uuid,
    _texts: [Option<String>; 8],
    _payload: Vec<u8>,
    _max_attempts: Option<i64>,
    _times: [Option<i64>; 2],
}

impl Fixture {
    /// Reads all events, page by page.
    pub(crate) async fn select(&self, page_events: usize) -> Result<Cost, Error> {
        let client = self.connect().await?;
        client.batch_execute("SET jit = off").await?;
        let statement = client
            .prepare(&self.sql(
                "SELECT position, id, type, aggregate_type, aggregate_id, key, headers::text, topic, namespace,
                        producer, payload, max_attempts, action::text,
                        extract(epoch FROM time)::bigint, extract(epoch FROM expires_at)::bigint
                 FROM {schema}.events
                 WHERE position > $1
                 ORDER BY position
                 LIMIT $2",
            ))
            .await?;
        let gauge = Gauge::start(&self.client, self.schema.as_str()).await?;
        let mut after = 0;
        while let Some(last) = read_page(&client, &statement, after, page_events).await?.last() {
            after = last.position;
        }
        gauge.stop().await
    }
}

async fn read_page(
    client: &tokio_postgres::Client,
    statement: &Statement,
    after: i64,
    page_events: usize,
) -> Result<Vec<Owned>, Error> {
    let rows = client.query(statement, &[&after, &i64::try_from(page_events)?]).await?;
    rows.iter().map(owned).collect()
}

fn owned(row: &Row) -> Result<Owned, Error> {
    let text = |index: usize| row.try_get::<_, Option<String>>(index);
    Ok(Owned {
        position: row.try_get(0)?,
        _id: row.try_get(1)?,
        _texts: [text(2)?, text(3)?, text(4)?, text(5)?, text(6)?, text(7)?, text(8)?, text(9)?],
        _payload: row.try_get(10)?,
        _max_attempts: row.try_get(11)?,
        _times: [row.try_get(13)?, row.try_get(14)?],
    })
}
