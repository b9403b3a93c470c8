//! On a PostgreSQL server.

use postrider::Event;
use postrider::write::Outbox;
use tokio_postgres::{Client, Statement, Transaction};

use super::Write;
use crate::drain::rates;
use crate::postgres::{Cost, Fixture, Gauge, report, row};
use crate::workload::Workload;
use crate::{Error, Ratio, Report, Usage};

/// The same columns with only a primary key: no checks, no index beyond it.
const TABLES: &str = "
    CREATE TABLE {schema}.bare_events (
        position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, time timestamptz, expires_at timestamptz,
        max_attempts bigint, id uuid, type text, aggregate_type text, aggregate_id text, key text, payload bytea,
        headers json, topic text, action json, namespace text, producer text);
    CREATE TABLE {schema}.orders (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer bigint, cents bigint)";

/// What a contender does in each transaction in addition to the order.
#[derive(Clone, Copy)]
enum Work {
    Nothing,
    BareInsert,
    OutboxWrite,
}

/// Runs it in a new schema of a server.
///
/// # Errors
/// An error of the server.
pub async fn postgres(url: &str, write: &Write, progress: impl Fn(&str)) -> Result<Report, Error> {
    let Write { transactions, payload_bytes, repetitions } = *write;
    let none = Workload { events: 0, payload_bytes: 0, keys: 0 };
    let fixture = Fixture::fill(url, "write", &none).await?;
    fixture.client.batch_execute(&fixture.sql(TABLES)).await?;
    let (mut alone, mut bare, mut outbox) = (Vec::new(), Vec::new(), Vec::new());
    for run in 1..=repetitions {
        progress(&format!("run {run} of {repetitions}"));
        for (work, costs) in
            [(Work::Nothing, &mut alone), (Work::BareInsert, &mut bare), (Work::OutboxWrite, &mut outbox)]
        {
            costs.push(Writer::new(&fixture, payload_bytes).await?.run(&fixture, work, transactions).await?);
        }
    }
    fixture.close().await?;
    let wal = |runs: &[Cost]| -> Vec<f64> { runs.iter().map(|run| run.wal_bytes as f64).collect() };
    let of_the_event =
        |runs: &[Cost]| wal(runs).into_iter().zip(wal(&alone)).map(|(with, alone)| with - alone);
    let here = |runs: &[Cost]| -> Vec<Usage> { runs.iter().map(|run| run.here).collect() };
    Ok(Report {
        title: format!(
            "write on PostgreSQL: {transactions} transactions of one order, {payload_bytes} bytes of payload, {repetitions} runs in turns"
        ),
        rows: vec![
            row("order alone", transactions, &alone),
            row("order + bare INSERT", transactions, &bare),
            row("order + Outbox::write", transactions, &outbox),
        ],
        ratios: vec![
            rates(
                "rate: Outbox::write / bare INSERT",
                (&here(&outbox), transactions),
                (&here(&bare), transactions),
            ),
            Ratio::of("WAL: Outbox::write / bare INSERT", wal(&outbox).into_iter().zip(wal(&bare))),
            Ratio::of("WAL: the same, of the event alone", of_the_event(&outbox).zip(of_the_event(&bare))),
        ],
    })
}

/// A connection and its prepared statements.
struct Writer {
    client: Client,
    order: Statement,
    bare: Statement,
    outbox: Outbox,
    payload: String,
}

impl Writer {
    async fn new(fixture: &Fixture, payload_bytes: usize) -> Result<Self, Error> {
        let client = fixture.connect().await?;
        let order = fixture.sql("INSERT INTO {schema}.orders (customer, cents) VALUES ($1, $2)");
        let bare = fixture.sql(
            "INSERT INTO {schema}.bare_events (id, type, aggregate_type, aggregate_id, payload, time, producer)
             VALUES ($1, $2, $3, $4, $5, clock_timestamp(), $6)",
        );
        Ok(Self {
            order: client.prepare(&order).await?,
            bare: client.prepare(&bare).await?,
            client,
            outbox: Outbox::anonymous().schema(fixture.schema.clone()),
            payload: "x".repeat(payload_bytes),
        })
    }

    async fn run(mut self, fixture: &Fixture, work: Work, transactions: u64) -> Result<Cost, Error> {
        // Otherwise the first contender after a checkpoint pays for full page writes.
        fixture.client.batch_execute("CHECKPOINT").await?;
        let gauge = Gauge::start(&fixture.client, fixture.schema.as_str()).await?;
        for number in 0..transactions {
            let tx = self.client.transaction().await?;
            tx.execute(&self.order, &[&i64::try_from(number)?, &100_i64]).await?;
            let event = Event::new("order.placed", self.payload.clone())
                .with_aggregate("Order", number.to_string())
                .with_producer("shop");
            match work {
                Work::Nothing => {}
                Work::BareInsert => insert_bare(&tx, &self.bare, &event).await?,
                Work::OutboxWrite => _ = self.outbox.write(&tx, event).await?,
            }
            tx.commit().await?;
        }
        report(&self.client).await?;
        gauge.stop().await
    }
}

async fn insert_bare(tx: &Transaction<'_>, statement: &Statement, event: &Event) -> Result<(), Error> {
    let aggregate = event.aggregate.as_ref().ok_or("the event has an aggregate")?;
    let (kind, id) = (&aggregate.kind, &aggregate.id);
    let payload: &[u8] = &event.payload;
    tx.execute(statement, &[&event.id, &event.event_type, kind, id, &payload, &event.producer]).await?;
    Ok(())
}
