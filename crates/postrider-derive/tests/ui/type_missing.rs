use postrider::Event;
use serde::Serialize;

#[derive(Serialize, Event)]
struct OrderPlaced;

#[derive(Serialize, Event)]
#[event(aggregate = "Order")]
struct OrderPaidEvent(#[event(aggregate_id)] u8);

fn main() {}
