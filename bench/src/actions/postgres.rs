//! On a PostgreSQL server.

use postrider::Outbox;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::wallet::{Bank, Contender};
use super::{Actions, BY_HAND, Counted, EXECUTE, add_exchanged, exchanged_ratios};
use crate::drain::rates;
use crate::postgres::{Cost, Fixture, Gauge, row};
use crate::wire::{Counter, Protocol};
use crate::workload::Workload;
use crate::{Error, Ratio, Report, Usage};

const TABLE: &str =
    "CREATE TABLE {schema}.wallets (id uuid PRIMARY KEY, balance bigint NOT NULL, version bigint NOT NULL)";

/// Runs it in a new schema of a server.
///
/// # Errors
/// An error of the server.
pub async fn postgres(url: &str, actions: &Actions, progress: impl Fn(&str)) -> Result<Report, Error> {
    let Actions { executions, repetitions } = *actions;
    let none = Workload { events: 0, payload_bytes: 0, keys: 0 };
    let fixture = Fixture::fill(url, "actions", &none).await?;
    fixture.client.batch_execute(&fixture.sql(TABLE)).await?;
    let options: PgConnectOptions = url.parse()?;
    let options = options.options([("search_path", fixture.schema.as_str())]);
    // One connection that is not checked before every use, as a busy pool has it.
    let pool = || PgPoolOptions::new().max_connections(1).test_before_acquire(false);
    let outbox = Outbox::new().schema(fixture.schema.clone());
    let (counter, port) = Counter::listen(Protocol::Postgres, options.get_host(), options.get_port()).await?;
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
            report(&proxied).await?;
            // Otherwise the first contender after a checkpoint pays for full page writes.
            fixture.client.batch_execute("CHECKPOINT").await?;
            let gauge = Gauge::start(&fixture.client, fixture.schema.as_str()).await?;
            direct.deposit(contender, executions).await?;
            report(&near).await?;
            costs.push(gauge.stop().await?);
            exchanged.push(counted.exchanged(contender).await?);
        }
    }
    near.close().await;
    proxied.close().await;
    fixture.close().await?;

    let [by_hand, execute] = &costs;
    let here = |runs: &[Cost]| -> Vec<Usage> { runs.iter().map(|run| run.here).collect() };
    let wal = |runs: &[Cost]| -> Vec<f64> { runs.iter().map(|run| run.wal_bytes as f64).collect() };
    let mut rows = vec![row(BY_HAND, executions, by_hand), row(EXECUTE, executions, execute)];
    rows.iter_mut().zip(&exchanged).for_each(|(row, exchanged)| add_exchanged(row, exchanged));
    let mut ratios = exchanged_ratios(&exchanged[0], &exchanged[1]).to_vec();
    ratios.push(Ratio::of("WAL: execute / by hand", wal(execute).into_iter().zip(wal(by_hand))));
    let name = "rate: execute / by hand";
    ratios.push(rates(name, (&here(execute), executions), (&here(by_hand), executions)));
    Ok(Report { title: actions.title("PostgreSQL"), rows, ratios })
}

/// Makes a connection report its statistics now; otherwise it does so only from time to time.
async fn report(pool: &PgPool) -> Result<(), Error> {
    let flush = "DO $$ BEGIN
        IF current_setting('server_version_num')::int >= 150000 THEN PERFORM pg_stat_force_next_flush(); END IF;
    END $$";
    sqlx::raw_sql(flush).execute(pool).await?;
    Ok(())
}
