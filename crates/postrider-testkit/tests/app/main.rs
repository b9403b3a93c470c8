//! What the testkit offers to the tests of applications, used as they use it.
#![cfg(test)]

mod actions;
mod crash;
mod emitted;
mod handler_test;
mod page;
mod relay;

use postrider::Event;

#[derive(Debug, Event, serde::Serialize, serde::Deserialize)]
#[event(type = "order.placed", aggregate = "Order")]
struct OrderPlaced {
    #[event(aggregate_id)]
    order: i64,
    cents: i64,
}

#[derive(Debug, Event, serde::Serialize, serde::Deserialize)]
#[event(type = "order.billed")]
struct OrderBilled {
    order: i64,
}

fn placed(order: i64) -> OrderPlaced {
    OrderPlaced { order, cents: 100 * order }
}
