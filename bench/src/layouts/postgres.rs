//! On a PostgreSQL server.

use std::sync::Arc;

use postrider::Ident;
use postrider::layout::{RowLayout, RowTable};
use postrider::relay::Policy;
use postrider::store::Start;
use postrider::store::postgres::{PostgresConfig, PostgresRowStore, RowExtras};
use tokio_postgres::{Client, NoTls};

use super::{Layouts, PAGE_ROWS, ROW_BY_ROW_ROWS};
use crate::carry::carry_from;
use crate::drain::rates;
use crate::postgres::{Cost, Gauge, report, row};
use crate::{Error, Ratio, Report};

/// The layouts that are measured.
const LAYOUTS: [RowLayout; 3] = [RowLayout::EventOutbox, RowLayout::Outbox, RowLayout::OutboxEvents];

/// Measures all layouts in fresh schemas of a server. `progress` is reported what happens next.
///
/// # Errors
/// What the server or the relay says.
pub async fn postgres(url: &str, layouts: Layouts, progress: impl Fn(&str)) -> Result<Report, Error> {
    let Layouts { rows, payload_bytes, repetitions } = layouts;
    let durable = durability(url).await?;
    let title = format!(
        "layouts on PostgreSQL with {durable}: {rows} rows of {payload_bytes} bytes, {repetitions} runs in turns"
    );
    let by_row_rows = rows.min(ROW_BY_ROW_ROWS);
    let mut found = Report { title, rows: Vec::new(), ratios: Vec::new() };
    let mut runs: Vec<(Vec<Cost>, Vec<Cost>)> = vec![Default::default(); LAYOUTS.len()];
    for run in 1..=repetitions {
        for (layout, (relay, by_row)) in LAYOUTS.into_iter().zip(&mut runs) {
            progress(&format!("run {run} of {repetitions}: {}", layout.name()));
            let bench = Bench::new(url, layout).await?;
            bench.fill(rows, payload_bytes).await?;
            by_row.push(bench.row_by_row(by_row_rows).await?);
            bench.fill(rows, payload_bytes).await?;
            relay.push(bench.relay(rows).await?);
            bench.close().await?;
        }
    }
    for (layout, (relay, by_row)) in LAYOUTS.into_iter().zip(&runs) {
        let name = layout.name();
        found.rows.push(row(&format!("{name}: postrider"), rows, relay));
        found.rows.push(row(&format!("{name}: row by row"), by_row_rows, by_row));
        found.ratios.push(compare(&format!("{name} / row by row"), (relay, rows), (by_row, by_row_rows)));
        if let Some(ratio) = processors(name, (relay, rows), (by_row, by_row_rows)) {
            found.ratios.push(ratio);
        }
    }
    Ok(found)
}

/// What a commit is worth on this server: who commits often is flattered where it is worth nothing.
async fn durability(url: &str) -> Result<String, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(async move { _ = connection.await });
    let sql = "SELECT format('fsync %s, synchronous_commit %s, shared_buffers %s',
                             current_setting('fsync'), current_setting('synchronous_commit'),
                             current_setting('shared_buffers'))";
    Ok(client.query_one(sql, &[]).await?.try_get(0)?)
}

fn compare(name: &str, one: (&[Cost], u64), other: (&[Cost], u64)) -> Ratio {
    let here = |runs: &[Cost]| runs.iter().map(|run| run.here).collect::<Vec<_>>();
    rates(name, (&here(one.0), one.1), (&here(other.0), other.1))
}

/// What a row costs in time of processors, here and at the server, row by row as against the relay. Other than rates it
/// does not change with what else the machine does. `None` where the server's cannot be seen.
fn processors(name: &str, relay: (&[Cost], u64), by_row: (&[Cost], u64)) -> Option<Ratio> {
    let per_row = |(runs, rows): (&[Cost], u64)| -> Option<Vec<f64>> {
        runs.iter().map(|run| Some((run.here.cpu + run.server_cpu?).as_secs_f64() / rows as f64)).collect()
    };
    let pairs = per_row(by_row)?.into_iter().zip(per_row(relay)?);
    Some(Ratio::of(&format!("{name}: CPU of row by row"), pairs))
}

/// A table of one layout in a schema of its own, dropped by [`Bench::close`].
struct Bench {
    config: PostgresConfig,
    table: RowTable,
    schema: Ident,
    ledger: Ident,
    client: Client,
}

impl Bench {
    async fn new(url: &str, layout: RowLayout) -> Result<Self, Error> {
        let schema = Ident::new(&format!("postrider_bench_{}", layout.name()))?;
        let ledger = Ident::new(&format!("{}_ledger", schema.as_str()))?;
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(async move { _ = connection.await });
        client
            .batch_execute(&format!(
                "DROP SCHEMA IF EXISTS {schema} CASCADE; DROP SCHEMA IF EXISTS {ledger} CASCADE;
                 CREATE SCHEMA {schema}; SET search_path = {schema}"
            ))
            .await?;
        let config = PostgresConfig::new(url)?.schema(ledger.clone());
        let table = RowTable::new(layout)?.in_schema(schema.clone());
        PostgresRowStore::migrate(&config, &table, RowExtras::default()).await?;
        Ok(Self { config, table, schema, ledger, client })
    }

    /// Replaces the rows by so many new ones, each of its own key and time. Everybody starts with clean pages.
    async fn fill(&self, rows: u64, payload_bytes: usize) -> Result<(), Error> {
        let name = self.table.layout().name();
        let columns = match self.table.layout() {
            RowLayout::EventOutbox => {
                "(created_at, payload, event_type, event_key, entity_table, entity_pk)
                 SELECT time, payload, 'order.placed', gen_random_uuid(), 'orders', n"
            }
            RowLayout::Outbox => {
                "(created_at, payload, event_type, topic, aggregate_type, aggregate_id)
                 SELECT time, payload, 'order.placed', 'orders', 'Order', gen_random_uuid()"
            }
            _ => {
                "(created_at, payload, event_type, aggregate_type, aggregate_id)
                 SELECT time, payload, 'order.placed', 'Order', n"
            }
        };
        let sql = format!(
            "TRUNCATE {name};
             INSERT INTO {name} {columns}
             FROM (SELECT n, now() - interval '1 hour' + n * interval '10 microseconds' AS time,
                          jsonb_build_object('n', n, 'text', repeat('x', {payload_bytes} - 20)) AS payload
                   FROM generate_series(1, {rows}) AS n) AS made;
             "
        );
        self.client.batch_execute(&sql).await?;
        self.client.batch_execute(&format!("VACUUM ANALYZE {name}")).await?;
        Ok(self.client.batch_execute("CHECKPOINT").await?)
    }

    /// Publishes so many rows to nowhere and marks each, one after the other, as the seed's statements invite: every
    /// statement is a transaction, and its commit is waited for.
    async fn row_by_row(&self, rows: u64) -> Result<Cost, Error> {
        let (due, claim, mark) = protocol(self.table.layout());
        let due = self.client.prepare(due).await?;
        let mark = self.client.prepare(mark).await?;
        let claim = match claim {
            Some(claim) => Some(self.client.prepare(claim).await?),
            None => None,
        };
        let gauge = Gauge::start(&self.client, self.schema.as_str()).await?;
        let mut published = 0;
        while published < rows {
            for row in self.client.query(&due, &[&i64::from(PAGE_ROWS)]).await? {
                let id: &str = row.try_get(0)?;
                if let Some(claim) = &claim {
                    self.client.execute(claim, &[&id]).await?;
                }
                self.client.execute(&mark, &[&id]).await?;
                published += 1;
            }
        }
        report(&self.client).await?;
        gauge.stop().await
    }

    /// Carries all rows to the null sink.
    async fn relay(&self, rows: u64) -> Result<Cost, Error> {
        let store = Arc::new(PostgresRowStore::connect(&self.config, &self.table).await?);
        let gauge = Gauge::start(&self.client, self.schema.as_str()).await?;
        carry_from(store, "bench", Start::Beginning, rows, Policy::default()).await?;
        gauge.stop().await
    }

    async fn close(self) -> Result<(), Error> {
        let Self { schema, ledger, client, .. } = self;
        Ok(client
            .batch_execute(&format!("DROP SCHEMA {schema} CASCADE; DROP SCHEMA {ledger} CASCADE"))
            .await?)
    }
}

/// What a row-by-row publisher asks, does before and does after publishing.
fn protocol(layout: RowLayout) -> (&'static str, Option<&'static str>, &'static str) {
    match layout {
        RowLayout::EventOutbox => (
            "SELECT id::text, payload FROM event_outbox
             WHERE status IN ('pending', 'failed') AND (next_attempt_at IS NULL OR next_attempt_at <= now())
             ORDER BY created_at LIMIT $1",
            None,
            "UPDATE event_outbox SET status = 'sent', processed_at = now() WHERE id = $1::text::bigint",
        ),
        RowLayout::Outbox => (
            "SELECT id::text, payload FROM outbox WHERE status = 'pending' ORDER BY created_at LIMIT $1",
            None,
            "UPDATE outbox SET status = 'published', published_at = now() WHERE id = $1::text::uuid",
        ),
        _ => (
            "SELECT id::text, payload FROM outbox_events
             WHERE status = 'PENDING' OR (status = 'FAILED' AND attempt_count < 10)
             ORDER BY created_at LIMIT $1",
            Some(
                "UPDATE outbox_events
                 SET status = 'PUBLISHING', attempt_count = attempt_count + 1, last_attempt_at = now()
                 WHERE id = $1::text::bigint AND status IN ('PENDING', 'FAILED')",
            ),
            "UPDATE outbox_events SET status = 'PUBLISHED' WHERE id = $1::text::bigint",
        ),
    }
}
