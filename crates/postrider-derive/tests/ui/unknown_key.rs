use postrider::Event;
use serde::Serialize;

#[derive(Serialize, Event)]
#[event(type = "a", topic = "b")]
struct OnType;

#[derive(Serialize, Event)]
#[event(type = "a")]
struct OnField {
    #[event(id)]
    id: u8,
}

fn main() {}
