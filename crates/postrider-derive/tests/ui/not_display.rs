use postrider::Event;
use serde::Serialize;

#[derive(Serialize, Event)]
#[event(type = "a")]
struct NotDisplay {
    #[event(key)]
    key: Option<u8>,
}

fn main() {}
