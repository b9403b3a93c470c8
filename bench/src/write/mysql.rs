//! On a MySQL or MariaDB server.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Statement, Transaction, TxOpts};
use postrider::Event;
use postrider::write::Outbox;

use super::Write;
use crate::drain::rates;
use crate::mysql::{Cost, Fixture, Gauge, row};
use crate::workload::Workload;
use crate::{Error, Ratio, Report, Usage};

/// The same columns with only a primary key: no checks, no index beyond it.
const TABLES: [&str; 2] = [
    "CREATE TABLE {schema}.bare_events (
         position bigint AUTO_INCREMENT PRIMARY KEY, time datetime(6), expires_at datetime(6), max_attempts bigint,
         id binary(16), type text, aggregate_type text, aggregate_id text, `key` text, payload longblob,
         headers mediumtext, topic text, action mediumtext, namespace text, producer text
     ) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "CREATE TABLE {schema}.orders (
         id bigint AUTO_INCREMENT PRIMARY KEY, customer bigint, cents bigint
     ) ENGINE = InnoDB",
];

/// What a contender does in each transaction in addition to the order.
#[derive(Clone, Copy)]
enum Work {
    Nothing,
    BareInsert,
    OutboxWrite,
}

/// Runs it in a new database of a server. `server` is its name.
///
/// # Errors
/// An error of the server.
pub async fn mysql(server: &str, url: &str, write: &Write, progress: impl Fn(&str)) -> Result<Report, Error> {
    let Write { transactions, payload_bytes, repetitions } = *write;
    let none = Workload { events: 0, payload_bytes: 0, keys: 0 };
    let fixture = Fixture::fill(url, "write", &none).await?;
    let mut connection = fixture.connect().await?;
    for table in TABLES {
        connection.query_drop(fixture.sql(table)).await?;
    }
    connection.disconnect().await?;
    let (mut alone, mut bare, mut outbox) = (Vec::new(), Vec::new(), Vec::new());
    for run in 1..=repetitions {
        progress(&format!("run {run} of {repetitions}"));
        for (work, costs) in
            [(Work::Nothing, &mut alone), (Work::BareInsert, &mut bare), (Work::OutboxWrite, &mut outbox)]
        {
            let writer = Writer::new(&fixture, payload_bytes).await?;
            costs.push(writer.run(&fixture, work, transactions).await?);
        }
    }
    fixture.close().await?;
    let here = |costs: &[Cost]| costs.iter().map(|cost| cost.here).collect::<Vec<Usage>>();
    let redo = |costs: &[Cost]| costs.iter().map(|cost| cost.redo_bytes as f64).collect::<Vec<_>>();
    let of_the_event =
        |costs: &[Cost]| redo(costs).into_iter().zip(redo(&alone)).map(|(with, without)| with - without);
    Ok(Report {
        title: format!(
            "write on {server}: {transactions} transactions of one order, {payload_bytes} bytes of payload, {repetitions} runs in turns"
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
            Ratio::of("redo: Outbox::write / bare INSERT", redo(&outbox).into_iter().zip(redo(&bare))),
            Ratio::of("redo: the same, of the event alone", of_the_event(&outbox).zip(of_the_event(&bare))),
        ],
    })
}

/// A connection and its prepared statements.
struct Writer {
    connection: Conn,
    order: Statement,
    bare: Statement,
    outbox: Outbox,
    payload: String,
}

impl Writer {
    async fn new(fixture: &Fixture, payload_bytes: usize) -> Result<Self, Error> {
        let mut connection = fixture.connect().await?;
        let order = fixture.sql("INSERT INTO {schema}.orders (customer, cents) VALUES (?, ?)");
        let bare = fixture.sql(
            "INSERT INTO {schema}.bare_events (id, type, aggregate_type, aggregate_id, payload, time, producer)
             VALUES (?, ?, ?, ?, ?, UTC_TIMESTAMP(6), ?)",
        );
        Ok(Self {
            order: connection.prep(order).await?,
            bare: connection.prep(bare).await?,
            connection,
            outbox: Outbox::anonymous().schema(fixture.schema.clone()),
            payload: "x".repeat(payload_bytes),
        })
    }

    async fn run(mut self, fixture: &Fixture, work: Work, transactions: u64) -> Result<Cost, Error> {
        let gauge = Gauge::start(fixture.connect().await?).await?;
        for number in 0..transactions {
            let mut tx = self.connection.start_transaction(TxOpts::default()).await?;
            tx.exec_drop(&self.order, (number, 100)).await?;
            let event = Event::new("order.placed", self.payload.clone())
                .with_aggregate("Order", number.to_string())
                .with_producer("shop");
            match work {
                Work::Nothing => {}
                Work::BareInsert => insert_bare(&mut tx, &self.bare, &event).await?,
                Work::OutboxWrite => _ = self.outbox.write(&mut tx, event).await?,
            }
            tx.commit().await?;
        }
        let cost = gauge.stop().await?;
        self.connection.disconnect().await?;
        Ok(cost)
    }
}

async fn insert_bare(tx: &mut Transaction<'_>, statement: &Statement, event: &Event) -> Result<(), Error> {
    let aggregate = event.aggregate.as_ref().ok_or("the event has an aggregate")?;
    let values = (
        event.id.as_bytes(),
        &event.event_type,
        &aggregate.kind,
        &aggregate.id,
        event.payload.as_ref(),
        &event.producer,
    );
    Ok(tx.exec_drop(statement, values).await?)
}
