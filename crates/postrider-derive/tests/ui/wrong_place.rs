use postrider::Event;
use serde::Serialize;

#[derive(Serialize, Event)]
#[event(type = "a", key)]
struct FieldKeyOnType;

#[derive(Serialize, Event)]
#[event(type = "a")]
struct TypeKeyOnField {
    #[event(aggregate = "A")]
    id: u8,
}

#[derive(Serialize, Event)]
#[event(type = "a")]
enum OnVariant {
    #[event(type = "b")]
    B,
}

fn main() {}
