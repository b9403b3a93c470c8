use postrider::Event;
use serde::Serialize;

#[derive(Serialize, Event)]
#[event(type = "a", type = "b")]
struct TypeTwice;

#[derive(Serialize, Event)]
#[event(type = "a")]
struct KeyTwice {
    #[event(key)]
    a: u8,
    #[event(key)]
    b: u8,
}

fn main() {}
