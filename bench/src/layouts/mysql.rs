//! On a MySQL or MariaDB server.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use postrider::Ident;
use postrider::layout::{Ability, RowLayout, RowTable};
use postrider::relay::Policy;
use postrider::store::mysql::{MySqlConfig, MySqlRowStore};
use postrider::store::{RowExtras, Start};

use super::{LayoutBench, Layouts, PAGE_ROWS, RunCost, unmeasured};
use crate::carry::{carry_from, handle};
use crate::mysql::{Cost, Gauge, row};
use crate::{Error, Report, Row, Usage};

/// The layouts of these servers.
const LAYOUTS: [RowLayout; 3] = [RowLayout::EventOutbox, RowLayout::OutboxEvents, RowLayout::Eventlog];

/// Measures all layouts in new databases of a server. `server` is its name; `progress` is called with each next step.
///
/// # Errors
/// An error of the server or the relay.
pub async fn mysql(
    server: &str,
    url: &str,
    layouts: Layouts,
    progress: impl Fn(&str),
) -> Result<Report, Error> {
    let database = format!("{server} with {}", durability(url).await?);
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
    let mut client = connect(url).await?;
    let sql = "SELECT CONCAT('innodb_flush_log_at_trx_commit ', @@innodb_flush_log_at_trx_commit,
                             ', innodb_flush_method ', @@innodb_flush_method, ', sync_binlog ', @@sync_binlog)";
    let reported: Option<String> = client.query_first(sql).await?;
    client.disconnect().await?;
    Ok(reported.unwrap_or_default())
}

/// Connects over TCP like the relay. By default the driver would use a socket file, which is faster.
async fn connect(url: &str) -> Result<Conn, Error> {
    Ok(Conn::new(OptsBuilder::from_opts(Opts::from_url(url)?).prefer_socket(false)).await?)
}

/// A table of one layout in a new database.
struct Bench {
    url: String,
    config: MySqlConfig,
    table: RowTable,
    schema: Ident,
    ledger: Ident,
    client: Conn,
}

impl Bench {
    async fn new(url: &str, layout: RowLayout) -> Result<Self, Error> {
        let schema = Ident::new(&format!("postrider_bench_{}", layout.name()))?;
        let ledger = Ident::new(&format!("{}_ledger", schema.as_str()))?;
        let mut client = connect(url).await?;
        let (own, theirs) = (ledger.as_str(), schema.as_str());
        client
            .query_drop(format!(
                "DROP DATABASE IF EXISTS {theirs}; DROP DATABASE IF EXISTS {own};
                 CREATE DATABASE {theirs}; USE {theirs}"
            ))
            .await?;
        let config = MySqlConfig::new(url)?.schema(ledger.clone());
        let table = RowTable::new(layout).in_schema(schema.clone());
        let extras = RowExtras::default().handlers(layout.has(Ability::Notifications));
        MySqlRowStore::migrate(&config, &table, extras).await?;
        Ok(Self { url: url.to_owned(), config, table, schema, ledger, client })
    }
}

impl LayoutBench for Bench {
    type Cost = Cost;

    async fn fill(&mut self, rows: u64, payload_bytes: usize) -> Result<(), Error> {
        let name = self.table.layout().table_name();
        let columns = match self.table.layout() {
            RowLayout::EventOutbox => {
                "(payload, event_type, event_key, entity_table, entity_pk)
                 SELECT payload, 'order.placed', UUID(), 'orders', n"
            }
            RowLayout::Eventlog => {
                self.client.query_drop("TRUNCATE event_notifications").await?;
                "(id, namespace, action_id, action_name, action_params, started_date, completion_date, model_id,
                  model_type, event_type, payload, event_date, delivered)
                 SELECT UUID(), 'shop', UUID(), 'PlaceOrder', '{}', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), n, 'Order',
                        'order.placed', payload, UTC_TIMESTAMP(6) - INTERVAL 1 HOUR + INTERVAL n * 10 MICROSECOND, FALSE"
            }
            RowLayout::OutboxEvents => {
                "(payload, event_type, aggregate_type, aggregate_id)
                 SELECT payload, 'order.placed', 'Order', n"
            }
            other => return Err(unmeasured(other)),
        };
        let padding = payload_bytes.saturating_sub(20);
        // One table per digit of the number, because recursion is limited on these servers.
        let digits = "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
                       UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
        let digits_max = rows.max(2).ilog10() + 1;
        let from: Vec<String> = (0..digits_max).map(|digit| format!("{digits} AS p{digit}")).collect();
        let number: Vec<String> =
            (0..digits_max).map(|digit| format!("p{digit}.d * {}", 10_u64.pow(digit))).collect();
        let sql = format!(
            "TRUNCATE {name};
             INSERT INTO {name} {columns}
             FROM (SELECT n, JSON_OBJECT('n', n, 'text', REPEAT('x', {padding})) AS payload
                   FROM (SELECT {} AS n FROM {}) AS numbers WHERE n < {rows}) AS made
             ORDER BY n",
            number.join(" + "),
            from.join(" CROSS JOIN ")
        );
        self.client.query_drop(sql).await?;
        Ok(self.client.query_drop(format!("ANALYZE TABLE {name}")).await?)
    }

    async fn row_by_row(&mut self, rows: u64) -> Result<Cost, Error> {
        let (due, claim, mark) = protocol(self.table.layout())?;
        let due = self.client.prep(due.replace("{page}", &PAGE_ROWS.to_string())).await?;
        let mark = self.client.prep(mark).await?;
        let mut claims = Vec::new();
        for claim in claim {
            // Only statements with a parameter can be prepared on these servers.
            let prepared = if claim.contains('?') { Some(self.client.prep(*claim).await?) } else { None };
            claims.push((*claim, prepared));
        }
        let gauge = Gauge::start(connect(&self.url).await?).await?;
        let mut published = 0;
        while published < rows {
            let page: Vec<(String, String)> = self.client.exec(&due, ()).await?;
            for (id, _) in page {
                for (claim, prepared) in &claims {
                    match prepared {
                        Some(prepared) => self.client.exec_drop(prepared, (&id,)).await?,
                        None => self.client.query_drop(*claim).await?,
                    }
                }
                self.client.exec_drop(&mark, (&id,)).await?;
                published += 1;
            }
        }
        gauge.stop().await
    }

    async fn relay(&mut self, rows: u64) -> Result<Cost, Error> {
        let store = Arc::new(MySqlRowStore::connect(&self.config, &self.table).await?);
        let gauge = Gauge::start(connect(&self.url).await?).await?;
        match self.table.layout().has(Ability::Notifications) {
            true => handle(store, "bench", Some("order.placed"), rows).await?,
            false => carry_from(store, "bench", Start::Beginning, rows, Policy::default()).await?,
        }
        gauge.stop().await
    }

    async fn close(mut self) -> Result<(), Error> {
        let (own, theirs) = (self.ledger.as_str(), self.schema.as_str());
        self.client.query_drop(format!("DROP DATABASE {theirs}; DROP DATABASE {own}")).await?;
        Ok(self.client.disconnect().await?)
    }
}

/// The statements of a row-by-row publisher: select, claim before publishing, and mark after it.
fn protocol(layout: RowLayout) -> Result<(&'static str, &'static [&'static str], &'static str), Error> {
    Ok(match layout {
        RowLayout::EventOutbox => (
            "SELECT CAST(id AS CHAR), CAST(payload AS CHAR) FROM event_outbox
             WHERE status IN ('pending', 'failed')
               AND (next_attempt_at IS NULL OR next_attempt_at <= UTC_TIMESTAMP(6))
             ORDER BY created_at LIMIT {page}",
            &[],
            "UPDATE event_outbox SET status = 'sent', processed_at = UTC_TIMESTAMP(6) WHERE id = ?",
        ),
        // The claim is the fan-out of one event to one handler: a transaction of two statements.
        RowLayout::Eventlog => (
            "SELECT CAST(id AS CHAR(36)), CAST(payload AS CHAR) FROM events
             WHERE delivered = FALSE AND event_type = 'order.placed' ORDER BY event_date LIMIT {page}",
            &[
                "START TRANSACTION",
                "INSERT INTO event_notifications (
                     id, event_id, handler_name, namespace, action_id, action_name, action_params, started_date,
                     completion_date, model_id, model_type, event_type, payload, event_date, state, attempts,
                     next_retry_at, created_date, updated_date)
                 SELECT UUID(), id, 'bench', namespace, action_id, action_name, action_params, started_date,
                        completion_date, model_id, model_type, event_type, payload, event_date, 'PENDING', 0,
                        UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6)
                 FROM events WHERE id = ?",
                "UPDATE events SET delivered = TRUE WHERE id = ?",
                "COMMIT",
            ],
            "UPDATE event_notifications SET state = 'SUCCEEDED', updated_date = UTC_TIMESTAMP(6)
             WHERE event_id = ? AND handler_name = 'bench'",
        ),
        RowLayout::OutboxEvents => (
            "SELECT CAST(id AS CHAR), CAST(payload AS CHAR) FROM outbox_events
             WHERE status = 'PENDING' OR (status = 'FAILED' AND attempt_count < 10)
             ORDER BY created_at LIMIT {page}",
            &["UPDATE outbox_events
               SET status = 'PUBLISHING', attempt_count = attempt_count + 1, last_attempt_at = CURRENT_TIMESTAMP
               WHERE id = ? AND status IN ('PENDING', 'FAILED')"],
            "UPDATE outbox_events SET status = 'PUBLISHED' WHERE id = ?",
        ),
        other => return Err(unmeasured(other)),
    })
}
