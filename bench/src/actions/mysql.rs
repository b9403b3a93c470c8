//! On a MySQL or MariaDB server.

use mysql_async::Opts;
use mysql_async::prelude::Queryable;
use postrider::Outbox;
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};

use super::wallet::{Bank, Contender};
use super::{Actions, BY_HAND, Counted, EXECUTE, add_exchanged, exchanged_ratios};
use crate::drain::rates;
use crate::mysql::{Cost, Fixture, Gauge, row};
use crate::wire::{Counter, Protocol};
use crate::workload::Workload;
use crate::{Error, Ratio, Report, Usage};

const TABLE: &str = "CREATE TABLE {schema}.wallets (id BINARY(16) PRIMARY KEY, balance BIGINT NOT NULL, version BIGINT NOT NULL)
     ENGINE = InnoDB";

/// Runs it in a new database of a server. `server` is its name.
///
/// # Errors
/// An error of the server.
pub async fn mysql(
    server: &str,
    url: &str,
    actions: &Actions,
    progress: impl Fn(&str),
) -> Result<Report, Error> {
    let Actions { executions, repetitions } = *actions;
    let none = Workload { events: 0, payload_bytes: 0, keys: 0 };
    let fixture = Fixture::fill(url, "actions", &none).await?;
    let mut connection = fixture.connect().await?;
    connection.query_drop(fixture.sql(TABLE)).await?;
    connection.disconnect().await?;
    let address = Opts::from_url(url)?;
    let options: MySqlConnectOptions = url.parse()?;
    let options = options.database(fixture.schema.as_str());
    // One connection that is not checked before every use, as a busy pool has it.
    let pool = || MySqlPoolOptions::new().max_connections(1).test_before_acquire(false);
    let outbox = Outbox::new().schema(fixture.schema.clone());
    let (counter, port) =
        Counter::listen(Protocol::MySql, address.ip_or_hostname(), address.tcp_port()).await?;
    let near = pool().connect_with(options.clone()).await?;
    let direct = Bank::open(near.clone(), outbox.clone()).await?;
    let proxied = pool().connect_with(options.host("127.0.0.1").port(port)).await?;
    let counted = Counted::open(proxied.clone(), outbox, counter).await?;

    let mut costs = [Vec::new(), Vec::new()];
    let mut exchanged = [Vec::new(), Vec::new()];
    for run in 1..=repetitions {
        progress(&format!("run {run} of {repetitions}"));
        for (contender, (costs, exchanged)) in
            Contender::ALL.into_iter().zip(costs.iter_mut().zip(&mut exchanged))
        {
            let gauge = Gauge::start(fixture.connect().await?).await?;
            direct.deposit(contender, executions).await?;
            costs.push(gauge.stop().await?);
            exchanged.push(counted.exchanged(contender).await?);
        }
    }
    near.close().await;
    proxied.close().await;
    fixture.close().await?;

    let [by_hand, execute] = &costs;
    let here = |runs: &[Cost]| -> Vec<Usage> { runs.iter().map(|run| run.here).collect() };
    let redo = |runs: &[Cost]| -> Vec<f64> { runs.iter().map(|run| run.redo_bytes as f64).collect() };
    let mut rows = vec![row(BY_HAND, executions, by_hand), row(EXECUTE, executions, execute)];
    rows.iter_mut().zip(&exchanged).for_each(|(row, exchanged)| add_exchanged(row, exchanged));
    let mut ratios = exchanged_ratios(&exchanged[0], &exchanged[1]).to_vec();
    ratios.push(Ratio::of("redo: execute / by hand", redo(execute).into_iter().zip(redo(by_hand))));
    let name = "rate: execute / by hand";
    ratios.push(rates(name, (&here(execute), executions), (&here(by_hand), executions)));
    Ok(Report { title: actions.title(server), rows, ratios })
}
