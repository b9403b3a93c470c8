use postrider::Event;
use serde::Serialize;

#[derive(Serialize, Event)]
#[event(type = "a", aggregate = "A")]
struct WithoutId;

#[derive(Serialize, Event)]
#[event(type = "a")]
struct WithoutKind {
    #[event(aggregate_id)]
    id: u8,
}

#[derive(Serialize, Event)]
#[event(type = "a", aggregate = "A")]
enum VariantWithoutId {
    With(#[event(aggregate_id)] u8),
    Without(u8),
}

fn main() {}
