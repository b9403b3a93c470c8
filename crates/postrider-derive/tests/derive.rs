//! What a derived event becomes.

#![allow(missing_docs)]

use std::fmt;

use postrider::{Event, IntoEvent, TypedEvent};
use serde::Serialize;

#[derive(Serialize, Event)]
#[event(type = "order.placed", aggregate = "Order")]
struct Renamed {
    #[event(aggregate_id)]
    order: u64,
    #[event(key)]
    customer: String,
}

#[test]
fn the_wire_format_contains_the_declared_type_and_not_the_rust_name() {
    let event = (&Renamed { order: 42, customer: "ann".into() }).into_event().unwrap();
    assert_eq!(event.event_type, "order.placed");
    assert_eq!(event.payload, r#"{"order":42,"customer":"ann"}"#);
    let aggregate = event.aggregate.as_ref().unwrap();
    assert_eq!((aggregate.kind.as_str(), aggregate.id.as_str()), ("Order", "42"));
    assert_eq!(event.message_key(), Some("ann"));
}

#[derive(Serialize, Event)]
#[event(type = "clock.ticked")]
struct Unit;

#[test]
fn an_event_needs_only_a_type() {
    let event = (&Unit).into_event().unwrap();
    assert_eq!((event.aggregate, event.key), (None, None));
    assert_eq!(Unit::AGGREGATE, None);
}

#[derive(Serialize, Event)]
#[event(type = "pair.made", aggregate = "Pair")]
struct Tuple(String, #[event(aggregate_id, key)] u8);

#[test]
fn an_unnamed_field_may_be_both_aggregate_id_and_key() {
    let event = (&Tuple("a".into(), 7)).into_event().unwrap();
    assert_eq!(event.aggregate.unwrap().id, "7");
    assert_eq!(event.key.as_deref(), Some("7"));
}

#[derive(Serialize)]
struct Id<T>(T);

impl<T: fmt::Display> fmt::Display for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "id-{}", self.0)
    }
}

#[derive(Serialize, Event)]
#[event(type = "thing.moved")]
#[event(aggregate = "Thing")]
struct Generic<'a, T, const N: usize>
where
    T: Clone,
{
    #[event(aggregate_id)]
    id: Id<T>,
    place: &'a str,
    #[serde(skip)]
    _path: [u8; N],
}

#[test]
fn generics_lifetimes_and_where_clauses_are_kept() {
    let event = (&Generic { id: Id(5), place: "here", _path: [0; 3] }).into_event().unwrap();
    assert_eq!(event.aggregate.unwrap().id, "id-5");
    assert_eq!(event.payload, r#"{"id":5,"place":"here"}"#);
}

#[derive(Serialize, Event)]
#[event(type = "order.changed", aggregate = "Order")]
enum Change {
    Renamed {
        #[event(aggregate_id)]
        order: u32,
        name: String,
    },
    Closed(#[event(aggregate_id)] u64, #[event(key)] char),
}

#[test]
fn an_enum_reads_the_marked_field_of_its_variant() {
    let renamed = (&Change::Renamed { order: 1, name: "n".into() }).into_event().unwrap();
    let closed = (&Change::Closed(2, 'k')).into_event().unwrap();
    assert_eq!(renamed.event_type, closed.event_type);
    assert_eq!(renamed.message_key(), Some("1"));
    assert_eq!(closed.aggregate.as_ref().unwrap().id, "2");
    assert_eq!(closed.message_key(), Some("k"));
}

/// Names that the generated code must not pick up by accident.
mod hygiene {
    #![allow(dead_code, non_camel_case_types)]
    struct String;
    struct Option;
    struct str;
    trait ToString {}
    mod postrider {}
    mod core {}
    mod std {}

    #[derive(serde::Serialize, ::postrider::Event)]
    #[event(type = "a", aggregate = "A")]
    pub(super) struct r#Type {
        #[event(aggregate_id, key)]
        pub(super) r#type: u8,
    }
}

#[test]
fn names_in_scope_do_not_affect_the_derived_code() {
    assert_eq!((&hygiene::Type { r#type: 1 }).into_event().unwrap().message_key(), Some("1"));
}

#[test]
fn mistakes_are_reported_at_compile_time() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
