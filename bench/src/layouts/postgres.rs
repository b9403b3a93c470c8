//! On a PostgreSQL server.

use std::sync::Arc;
use std::time::Duration;

use postrider::Ident;
use postrider::layout::{Ability, RowLayout, RowTable};
use postrider::relay::Policy;
use postrider::store::postgres::{PostgresConfig, PostgresRowStore};
use postrider::store::{RowExtras, Start};
use tokio_postgres::{Client, NoTls};

use super::{LayoutBench, Layouts, PAGE_ROWS, RunCost, unmeasured};
use crate::carry::{carry_from, handle};
use crate::postgres::{Cost, Gauge, report, row};
use crate::{Error, Report, Row, Usage};

/// The layouts that are measured.
const LAYOUTS: [RowLayout; 4] =
    [RowLayout::EventOutbox, RowLayout::Outbox, RowLayout::OutboxEvents, RowLayout::Eventlog];

/// Measures all layouts in new schemas of a server. `progress` is called with each next step.
///
/// # Errors
/// An error of the server or the relay.
pub async fn postgres(url: &str, layouts: Layouts, progress: impl Fn(&str)) -> Result<Report, Error> {
    let database = format!("PostgreSQL with {}", durability(url).await?);
    layouts.measure(&database, &LAYOUTS, progress, async |layout| Bench::new(url, layout).await).await
}

impl RunCost for Cost {
    fn row(name: &str, rows: u64, runs: &[Self]) -> Row {
        row(name, rows, runs)
    }

    fn here(&self) -> Usage {
        self.here
    }

    fn server_cpu(&self) -> Option<Duration> {
        self.server_cpu
    }
}

/// The durability of commits on this server: without it, a contender that commits often looks faster than it is.
async fn durability(url: &str) -> Result<String, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(async move { _ = connection.await });
    let sql = "SELECT format('fsync %s, synchronous_commit %s, shared_buffers %s',
                             current_setting('fsync'), current_setting('synchronous_commit'),
                             current_setting('shared_buffers'))";
    Ok(client.query_one(sql, &[]).await?.try_get(0)?)
}

/// A table of one layout in a new schema.
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
        let table = RowTable::new(layout).in_schema(schema.clone());
        let extras = RowExtras::default().handlers(layout.has(Ability::Notifications));
        PostgresRowStore::migrate(&config, &table, extras).await?;
        Ok(Self { config, table, schema, ledger, client })
    }
}

impl LayoutBench for Bench {
    type Cost = Cost;

    /// Each row also has its own time. All contenders start with clean pages.
    async fn fill(&mut self, rows: u64, payload_bytes: usize) -> Result<(), Error> {
        let name = self.table.layout().table_name();
        let columns = match self.table.layout() {
            RowLayout::EventOutbox => {
                "(created_at, payload, event_type, event_key, entity_table, entity_pk)
                 SELECT time, payload, 'order.placed', gen_random_uuid(), 'orders', n"
            }
            RowLayout::Outbox => {
                "(created_at, payload, event_type, topic, aggregate_type, aggregate_id)
                 SELECT time, payload, 'order.placed', 'orders', 'Order', gen_random_uuid()"
            }
            RowLayout::Eventlog => {
                self.client.batch_execute("TRUNCATE event_notifications").await?;
                // Ids grow, as those that Postrider writes.
                "(id, namespace, action_id, action_name, action_params, started_date, completion_date, model_id,
                  model_type, event_type, payload, event_date, delivered)
                 SELECT lpad(to_hex(n), 32, '0')::uuid, 'shop', lpad(to_hex(n), 32, '0')::uuid, 'PlaceOrder', '{}', at, at, n, 'Order',
                        'order.placed', payload, at, FALSE"
            }
            RowLayout::OutboxEvents => {
                "(created_at, payload, event_type, aggregate_type, aggregate_id)
                 SELECT time, payload, 'order.placed', 'Order', n"
            }
            other => return Err(unmeasured(other)),
        };
        let sql = format!(
            "TRUNCATE {name};
             INSERT INTO {name} {columns}
             FROM (SELECT n, now() - interval '1 hour' + n * interval '10 microseconds' AS time,
                          (now() - interval '1 hour' + n * interval '10 microseconds') AT TIME ZONE 'UTC' AS at,
                          jsonb_build_object('n', n, 'text', repeat('x', {payload_bytes} - 20)) AS payload
                   FROM generate_series(1, {rows}) AS n) AS made;
             "
        );
        self.client.batch_execute(&sql).await?;
        self.client.batch_execute(&format!("VACUUM ANALYZE {name}")).await?;
        Ok(self.client.batch_execute("CHECKPOINT").await?)
    }

    async fn row_by_row(&mut self, rows: u64) -> Result<Cost, Error> {
        let (due, claim, mark) = protocol(self.table.layout())?;
        let due = self.client.prepare(due).await?;
        let mark = self.client.prepare(mark).await?;
        let mut claims = Vec::new();
        for claim in claim {
            claims.push((*claim, self.client.prepare(claim).await?));
        }
        let gauge = Gauge::start(&self.client, self.schema.as_str()).await?;
        let mut published = 0;
        while published < rows {
            for row in self.client.query(&due, &[&i64::from(PAGE_ROWS)]).await? {
                let id: &str = row.try_get(0)?;
                for (claim, prepared) in &claims {
                    match claim.contains("$1") {
                        true => self.client.execute(prepared, &[&id]).await?,
                        false => self.client.execute(prepared, &[]).await?,
                    };
                }
                self.client.execute(&mark, &[&id]).await?;
                published += 1;
            }
        }
        report(&self.client).await?;
        gauge.stop().await
    }

    async fn relay(&mut self, rows: u64) -> Result<Cost, Error> {
        let store = Arc::new(PostgresRowStore::connect(&self.config, &self.table).await?);
        let gauge = Gauge::start(&self.client, self.schema.as_str()).await?;
        match self.table.layout().has(Ability::Notifications) {
            true => handle(store, "bench", Some("order.placed"), rows).await?,
            false => carry_from(store, "bench", Start::Beginning, rows, Policy::default()).await?,
        }
        gauge.stop().await
    }

    async fn close(self) -> Result<(), Error> {
        let Self { schema, ledger, client, .. } = self;
        Ok(client
            .batch_execute(&format!("DROP SCHEMA {schema} CASCADE; DROP SCHEMA {ledger} CASCADE"))
            .await?)
    }
}

/// The statements of a row-by-row publisher: select, claim before publishing, and mark after it.
fn protocol(layout: RowLayout) -> Result<(&'static str, &'static [&'static str], &'static str), Error> {
    Ok(match layout {
        RowLayout::EventOutbox => (
            "SELECT id::text, payload FROM event_outbox
             WHERE status IN ('pending', 'failed') AND (next_attempt_at IS NULL OR next_attempt_at <= now())
             ORDER BY created_at LIMIT $1",
            &[],
            "UPDATE event_outbox SET status = 'sent', processed_at = now() WHERE id = $1::text::bigint",
        ),
        RowLayout::Outbox => (
            "SELECT id::text, payload FROM outbox WHERE status = 'pending' ORDER BY created_at LIMIT $1",
            &[],
            "UPDATE outbox SET status = 'published', published_at = now() WHERE id = $1::text::uuid",
        ),
        // The claim is the fan-out of one event to one handler: a transaction of two statements.
        RowLayout::Eventlog => (
            "SELECT id::text, payload FROM events
             WHERE delivered = FALSE AND event_type = 'order.placed' ORDER BY event_date LIMIT $1",
            &[
                "BEGIN",
                "INSERT INTO event_notifications (
                     id, event_id, handler_name, namespace, action_id, action_name, action_params, started_date,
                     completion_date, model_id, model_type, event_type, payload, event_date, state, attempts,
                     next_retry_at, created_date, updated_date)
                 SELECT gen_random_uuid(), id, 'bench', namespace, action_id, action_name, action_params,
                        started_date, completion_date, model_id, model_type, event_type, payload, event_date,
                        'PENDING', 0, now() AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC'
                 FROM events WHERE id = $1::text::uuid",
                "UPDATE events SET delivered = TRUE WHERE id = $1::text::uuid",
                "COMMIT",
            ],
            "UPDATE event_notifications SET state = 'SUCCEEDED', updated_date = now() AT TIME ZONE 'UTC'
             WHERE event_id = $1::text::uuid AND handler_name = 'bench'",
        ),
        RowLayout::OutboxEvents => (
            "SELECT id::text, payload FROM outbox_events
             WHERE status = 'PENDING' OR (status = 'FAILED' AND attempt_count < 10)
             ORDER BY created_at LIMIT $1",
            &["UPDATE outbox_events
               SET status = 'PUBLISHING', attempt_count = attempt_count + 1, last_attempt_at = now()
               WHERE id = $1::text::bigint AND status IN ('PENDING', 'FAILED')"],
            "UPDATE outbox_events SET status = 'PUBLISHED' WHERE id = $1::text::bigint",
        ),
        other => return Err(unmeasured(other)),
    })
}
