//! One transaction of the shop: a step of an order, and its event.

use fastrand::Rng;
use postrider::{Event, Outbox, Result};
use postrider_verify::Sighting;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use serde::Serialize;

use super::{CUSTOMERS, failed};

/// One in this many transactions is rolled back after its event was written, as if a card had been declined.
const ROLLED_BACK_ONE_IN: u32 = 12;

/// One in this many steps of a customer with an open order is another order.
const NEW_ONE_IN: u32 = 4;

/// The result of a transaction.
#[derive(Debug)]
pub(super) enum Ended {
    Committed(Sighting),
    RolledBack,
}

/// The payload of every event.
#[derive(Debug, Serialize)]
struct Step<'a> {
    order: i64,
    customer: &'a str,
    cents: i64,
    version: u64,
}

/// Performs the next step of an order of a customer. The customer's row is written first, which locks it, so that the
/// order of events is the order of commits.
pub(super) fn serve(connection: &mut Connection, outbox: &Outbox, random: &mut Rng) -> Result<Ended> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let customer = random.i64(1..=CUSTOMERS.len() as i64);
    let (name, version) = next_version(&tx, customer).map_err(failed)?;
    let (event_type, order, cents) = advance(&tx, customer, random).map_err(failed)?;
    let step = Step { order, customer: &name, cents, version };
    let event =
        Event::json(event_type, &step)?.with_aggregate("Order", order.to_string()).with_key(name.as_str());
    let written = outbox.write(&tx, event)?;
    if random.u32(0..ROLLED_BACK_ONE_IN) == 0 {
        tx.rollback().map_err(failed)?;
        return Ok(Ended::RolledBack);
    }
    tx.commit().map_err(failed)?;
    Ok(Ended::Committed(Sighting { id: written.id, key: name, version }))
}

fn next_version(tx: &Transaction<'_>, customer: i64) -> rusqlite::Result<(String, u64)> {
    tx.prepare_cached("UPDATE customers SET version = version + 1 WHERE id = ?1 RETURNING name, version")?
        .query_row([customer], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))
}

/// Places an order, or pays or ships the customer's oldest open one.
fn advance(
    tx: &Transaction<'_>,
    customer: i64,
    random: &mut Rng,
) -> rusqlite::Result<(&'static str, i64, i64)> {
    // Index: orders_open (customer, id).
    let open: Option<(i64, String, i64)> = tx
        .prepare_cached(
            "SELECT id, state, cents FROM orders
             WHERE customer = ?1 AND state <> 'shipped' ORDER BY id LIMIT 1",
        )?
        .query_row([customer], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    match open {
        Some((order, state, cents)) if random.u32(0..NEW_ONE_IN) > 0 => {
            let (next, event_type) =
                if state == "placed" { ("paid", "order.paid") } else { ("shipped", "order.shipped") };
            tx.prepare_cached("UPDATE orders SET state = ?2 WHERE id = ?1")?.execute((order, next))?;
            Ok((event_type, order, cents))
        }
        _ => {
            let cents = random.i64(199..20_000);
            tx.prepare_cached("INSERT INTO orders (customer, state, cents) VALUES (?1, 'placed', ?2)")?
                .execute((customer, cents))?;
            Ok(("order.placed", tx.last_insert_rowid(), cents))
        }
    }
}
