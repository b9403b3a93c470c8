//! On a SQLite file.

use postrider::Event;
use postrider::write::Outbox;
use rusqlite::{Connection, params};

use super::Write;
use crate::drain::rates;
use crate::machine::Meter;
use crate::sqlite::Fixture;
use crate::workload::Workload;
use crate::{Error, Ratio, Report, Row, Usage};

/// The same columns with only a primary key: no defaults, no checks.
const BARE: &str = "CREATE TABLE IF NOT EXISTS bare_events (
    position INTEGER PRIMARY KEY AUTOINCREMENT, id, type, aggregate_type, aggregate_id, key, payload, headers,
    time, topic, max_attempts, expires_at, action, namespace, producer);
    CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer INTEGER, cents INTEGER)";

/// Runs it on a new SQLite file.
///
/// # Errors
/// An error of SQLite.
pub fn sqlite(write: &Write, progress: impl Fn(&str)) -> Result<Report, Error> {
    let Write { transactions, payload_bytes, repetitions } = *write;
    let fixture = Fixture::fill(&Workload { events: 0, payload_bytes: 0, keys: 0 })?;
    let mut connection = fixture.connect()?;
    connection.execute_batch(BARE)?;
    let payload = "x".repeat(payload_bytes);
    let (mut alone, mut bare, mut outbox) = (Vec::new(), Vec::new(), Vec::new());
    let writer = Outbox::new();
    for run in 1..=repetitions {
        progress(&format!("run {run} of {repetitions}"));
        alone.push(transact(&mut connection, transactions, |_, _| Ok(()))?);
        bare.push(transact(&mut connection, transactions, |tx, number| insert_bare(tx, number, &payload))?);
        outbox.push(transact(&mut connection, transactions, |tx, number| {
            let event =
                Event::new("order.placed", payload.clone()).with_aggregate("Order", number.to_string());
            writer.write(tx, event)?;
            Ok(())
        })?);
    }
    let bytes = |runs: &[Usage]| -> Vec<f64> { runs.iter().map(|run| run.written_bytes as f64).collect() };
    let written = bytes(&outbox).into_iter().zip(bytes(&bare));
    Ok(Report {
        title: format!(
            "write on SQLite: {transactions} transactions of one order, {payload_bytes} bytes of payload, {repetitions} runs in turns"
        ),
        rows: vec![
            Row::of_runs("order alone", transactions, &alone),
            Row::of_runs("order + bare INSERT", transactions, &bare),
            Row::of_runs("order + Outbox::write", transactions, &outbox),
        ],
        ratios: vec![
            rates("rate: Outbox::write / bare INSERT", (&outbox, transactions), (&bare, transactions)),
            Ratio::of("bytes: Outbox::write / bare INSERT", written),
        ],
    })
}

fn transact(
    connection: &mut Connection,
    transactions: u64,
    event: impl Fn(&Connection, u64) -> Result<(), Error>,
) -> Result<Usage, Error> {
    let meter = Meter::start();
    for number in 0..transactions {
        let tx = connection.transaction()?;
        tx.prepare_cached("INSERT INTO orders (customer, cents) VALUES (?1, ?2)")?
            .execute([number as i64, 100])?;
        event(&tx, number)?;
        tx.commit()?;
    }
    Ok(meter.stop())
}

fn insert_bare(tx: &Connection, number: u64, payload: &str) -> Result<(), Error> {
    let event = Event::new("order.placed", payload.to_owned());
    tx.prepare_cached(
        "INSERT INTO bare_events (id, type, aggregate_type, aggregate_id, payload, time)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        event.id.to_string(),
        event.event_type,
        "Order",
        number.to_string(),
        &event.payload[..],
        event.time.as_micros(),
    ])?;
    Ok(())
}
