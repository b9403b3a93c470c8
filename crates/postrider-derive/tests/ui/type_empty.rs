use postrider::Event;
use serde::Serialize;

#[derive(Serialize, Event)]
#[event(type = "")]
struct Empty;

#[derive(Serialize, Event)]
#[event(type = "a\n")]
struct Control;

#[derive(Serialize, Event)]
#[event(type = 5)]
struct Number;

#[derive(Serialize, Event)]
#[event(type)]
struct Nothing;

fn main() {}
