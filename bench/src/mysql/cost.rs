//! The cost of work: this process, the server's process, and the server's redo log.

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::machine::{Meter, process};
use crate::{Error, Measure, Row, Spread, Usage};

/// Cost of a piece of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// Of this process.
    pub(crate) here: Usage,
    /// CPU time of the server; `None` if it is not visible.
    pub(crate) server_cpu: Option<Duration>,
    /// Bytes that the server added to its redo log, including its background work.
    pub(crate) redo_bytes: u64,
    /// Rows the server inserted, updated and deleted.
    pub(crate) rows: u64,
}

/// Measures from its creation to [`Gauge::stop`].
pub(crate) struct Gauge {
    connection: Conn,
    server: Option<u32>,
    server_cpu: Option<Duration>,
    redo: u64,
    rows: u64,
    meter: Meter,
}

impl Gauge {
    /// Over a connection that does no other work.
    pub(crate) async fn start(mut connection: Conn) -> Result<Self, Error> {
        let server = server(&mut connection).await?;
        let (redo, rows) = (redo_bytes(&mut connection).await?, rows(&mut connection).await?);
        Ok(Self { connection, server, server_cpu: cpu(server), redo, rows, meter: Meter::start() })
    }

    pub(crate) async fn stop(mut self) -> Result<Cost, Error> {
        let here = self.meter.stop();
        let server_cpu = cpu(self.server).zip(self.server_cpu).map(|(now, then)| now.saturating_sub(then));
        let redo_bytes = redo_bytes(&mut self.connection).await?.saturating_sub(self.redo);
        let rows = rows(&mut self.connection).await?.saturating_sub(self.rows);
        self.connection.disconnect().await?;
        Ok(Cost { here, server_cpu, redo_bytes, rows })
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
    measures.push(measure("redo B/event", &|run| run.redo_bytes as f64 / count));
    measures.push(measure("rows written/event", &|run| run.rows as f64 / count));
    Row { name: name.to_owned(), measures }
}

/// The server's process, if it runs on this machine and its PID file is readable.
async fn server(connection: &mut Conn) -> Result<Option<u32>, Error> {
    let note: Option<String> = connection.query_first("SELECT @@pid_file").await?;
    let pid = note.and_then(|note| std::fs::read_to_string(note).ok()?.trim().parse().ok());
    let is_server = |pid: &u32| {
        process(*pid).is_some_and(|it| {
            ["mysqld", "mariadbd", "ld-linux-x86-64"].iter().any(|name| it.name.starts_with(name))
        })
    };
    Ok(pid.filter(is_server))
}

fn cpu(server: Option<u32>) -> Option<Duration> {
    process(server?).map(|server| server.cpu)
}

/// The position of the redo log; the counter has a different name on each server.
async fn redo_bytes(connection: &mut Conn) -> Result<u64, Error> {
    sum(connection, [&["Innodb_redo_log_current_lsn"], &["Innodb_lsn_current"]]).await
}

/// The counters of MariaDB and of MySQL. MariaDB counts rows of temporary tables separately.
async fn rows(connection: &mut Conn) -> Result<u64, Error> {
    let mysql: &[&str] = &["Innodb_rows_inserted", "Innodb_rows_updated", "Innodb_rows_deleted"];
    sum(connection, [mysql, &["Handler_write", "Handler_update", "Handler_delete"]]).await
}

/// The sum of the first of the two lists of counters that the server has.
async fn sum(connection: &mut Conn, lists: [&[&str]; 2]) -> Result<u64, Error> {
    let status: Vec<(String, String)> = connection.query("SHOW GLOBAL STATUS").await?;
    for names in lists {
        let counters = status.iter().filter(|(name, _)| names.contains(&name.as_str()));
        let values = counters.map(|(_, value)| value.parse()).collect::<Result<Vec<u64>, _>>()?;
        if values.len() == names.len() {
            return Ok(values.iter().sum());
        }
    }
    Err(format!("the server has none of the counters {lists:?}").into())
}
