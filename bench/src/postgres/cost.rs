//! The cost of work: this process, the server's processes, and the server's log.

use std::time::Duration;

use tokio_postgres::Client;

use super::server::Server;
use crate::machine::Meter;
use crate::{Error, Measure, Row, Spread, Usage};

/// How often to check whether a relay's connections have ended; connections of other processes may remain.
const RELAY_LOOKS_MAX: usize = 200;

/// Cost of a piece of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// Of this process.
    pub(crate) here: Usage,
    /// CPU time of all processes of the server; `None` if they are not visible.
    pub(crate) server_cpu: Option<Duration>,
    /// Bytes the server added to its write-ahead log.
    pub(crate) wal_bytes: i64,
    /// Rows the work inserted, updated and deleted.
    pub(crate) rows: i64,
}

/// Measures from its creation to [`Gauge::stop`].
pub(crate) struct Gauge<'a> {
    client: &'a Client,
    schema: &'a str,
    server: Server,
    server_cpu: Option<Duration>,
    wal: i64,
    rows: i64,
    meter: Meter,
}

impl<'a> Gauge<'a> {
    pub(crate) async fn start(client: &'a Client, schema: &'a str) -> Result<Self, Error> {
        let server = Server::of(client).await?;
        report(client).await?;
        let rows = rows_written(client, schema).await?;
        let (wal, server_cpu) = (wal_bytes(client).await?, server.cpu());
        Ok(Self { client, schema, server, server_cpu, wal, rows, meter: Meter::start() })
    }

    pub(crate) async fn stop(self) -> Result<Cost, Error> {
        let here = self.meter.stop();
        let server_cpu = self.server.cpu().zip(self.server_cpu).map(|(now, then)| now.saturating_sub(then));
        let wal_bytes = wal_bytes(self.client).await? - self.wal;
        relays_gone(self.client).await?;
        let rows = rows_written(self.client, self.schema).await? - self.rows;
        Ok(Cost { here, server_cpu, wal_bytes, rows })
    }
}

/// Rate and cost of runs with this many events each.
pub(crate) fn row(name: &str, events: u64, runs: &[Cost]) -> Row {
    let count = events as f64;
    let measure = |name, of: &dyn Fn(&Cost) -> f64| Measure { name, spread: Spread::of(runs.iter().map(of)) };
    let micros = |cpu: Duration| cpu.as_secs_f64() * 1e6 / count;
    let mut measures = vec![
        measure("events/s", &|run| count / run.here.wall.as_secs_f64().max(1e-9)),
        measure("CPU us/event", &|run| micros(run.here.cpu)),
    ];
    if runs.iter().all(|run| run.server_cpu.is_some()) {
        measures.push(measure("server CPU us/event", &|run| micros(run.server_cpu.unwrap_or_default())));
    }
    measures.push(measure("WAL B/event", &|run| run.wal_bytes as f64 / count));
    measures.push(measure("rows written/event", &|run| run.rows as f64 / count));
    Row { name: name.to_owned(), measures }
}

async fn wal_bytes(client: &Client) -> Result<i64, Error> {
    let sql = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint";
    Ok(client.query_one(sql, &[]).await?.try_get(0)?)
}

/// Makes a connection report its statistics now; otherwise it does so only from time to time.
pub(crate) async fn report(client: &Client) -> Result<(), Error> {
    let sql = "SELECT current_setting('server_version_num')::int >= 150000";
    if client.query_one(sql, &[]).await?.try_get(0)? {
        client.batch_execute("SELECT pg_stat_force_next_flush()").await?;
    }
    Ok(())
}

/// Waits for the end of the connections of a relay that was shut down: they report when they end.
pub(super) async fn relays_gone(client: &Client) -> Result<(), Error> {
    let sql = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'postrider')";
    for _ in 0..RELAY_LOOKS_MAX {
        if client.query_one(sql, &[]).await?.try_get(0)? {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Statistics of all tables of the schema.
async fn rows_written(client: &Client, schema: &str) -> Result<i64, Error> {
    let sql = "SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint
               FROM pg_stat_all_tables
               WHERE schemaname = $1";
    Ok(client.query_one(sql, &[&schema]).await?.try_get(0)?)
}
