//! `postrider events list`: the requested events, found with the index that the layout has for the filter. The cases
//! are the same for every database.

mod mysql;
mod postgres;
mod sqlite;

use serde_json::Value;

use crate::program::Program;

/// Rows of 50 aggregates and 5 types, one per second since 2026-01-01T00:00:00Z.
const ROWS: i64 = 20_000;

const TIME: [&str; 4] = ["--since", "2026-01-01T01:00:00Z", "--until", "2026-01-01T01:10:00Z"];
const AGGREGATE: [&str; 2] = ["--aggregate", "Order:07"];
const TYPE: [&str; 2] = ["--type", "type3"];
const PAYLOAD: [&str; 2] = ["--contains", "{\"part\": 1234}"];

/// A filter, and a part of its query plan.
type Expected = (&'static [&'static str], &'static str);

/// A database with the table of a layout.
trait ListCase: Sized {
    /// The layouts that it supports, each with the filters that an index serves.
    const LAYOUTS: &'static [(&'static str, &'static [Expected])];
    /// A text that none of these plans contains.
    const WITHOUT_INDEX: &'static [&'static str];
    /// Of `{"a": 1}`, `no JSON` and `{"a": [1, 2]}`, in this order, those that contain `{"a": 1}`, newest first.
    const ROWS_WITH_ONE: &'static [&'static str];

    /// If there is no server, prints why and returns `None`. The table does not exist yet.
    fn new(layout: &'static str) -> Option<Self>;

    fn program(&self) -> &Program;

    /// Row n has aggregate n % 50, type n % 5 and payload n.
    fn fill(&self);

    /// Changes the payload of `outbox_events` to a text, and writes the three rows.
    fn write_texts(&self);

    /// The optional index for aggregates, where the layout has one.
    fn make_index(&self) {}
}

fn made<P: ListCase>(layout: &'static str) -> Option<P> {
    let case = P::new(layout)?;
    let made = case.program().run(&["migrate", "up"]);
    assert_eq!(made.exit, Some(0), "{made:?}");
    Some(case)
}

/// The payloads of the events that were found.
fn payloads(program: &Program, filter: &[&str]) -> Vec<String> {
    let found = program.run(&[&["events", "list", "--json", "--payload"][..], filter].concat());
    assert_eq!(found.exit, Some(0), "{found:?}");
    let events: Vec<Value> = serde_json::from_str(&found.stdout).unwrap();
    events.iter().map(|event| event["payload"].as_str().unwrap().to_owned()).collect()
}

fn numbers(program: &Program, filter: &[&str]) -> Vec<i64> {
    let number =
        |payload: &String| -> Option<i64> { serde_json::from_str::<Value>(payload).unwrap()["n"].as_i64() };
    payloads(program, filter).iter().map(|payload| number(payload).unwrap()).collect()
}

fn events_are_found_by_aggregate_type_time_and_payload_newest_first<P: ListCase>() {
    for (name, _) in P::LAYOUTS {
        let Some(case) = made::<P>(name) else { return };
        let program = case.program();
        case.fill();
        let of_seven =
            if *name == "outbox" { "Order:00000000-0000-0000-0000-000000000007" } else { "Order:07" };
        let newest: Vec<i64> = (ROWS - 3..ROWS).rev().collect();
        assert_eq!(numbers(program, &["--limit", "3"]), newest, "{name}");
        let sevens = numbers(program, &["--aggregate", of_seven, "--limit", "1000"]);
        assert_eq!(sevens.len() as i64, ROWS / 50, "{name}");
        assert!(sevens.iter().all(|n| n % 50 == 7) && sevens.is_sorted_by(|a, b| a > b), "{name}");
        assert_eq!(numbers(program, &["--type", "type3", "--limit", "2"]), [ROWS - 2, ROWS - 7], "{name}");
        let hour = ["--since", "2026-01-01T01:00:00Z", "--until", "2026-01-01T01:00:02Z"];
        assert_eq!(numbers(program, &hour), [3602, 3601, 3600], "{name}");
        let between = ["--since", "2026-01-01T01:00:00.5Z", "--until", "2026-01-01T01:00:01.5Z"];
        assert_eq!(numbers(program, &between), [3601], "{name}");
        let part = numbers(program, &PAYLOAD);
        assert_eq!(part, (12340..12350).rev().collect::<Vec<_>>(), "{name}");
        let all = [&hour[..], &["--type", "type1", "--contains", "{\"part\": 360}"]].concat();
        assert_eq!(numbers(program, &all), [3601], "{name}");
        let none = program.run(&["events", "list", "--aggregate", of_seven, "--type", "type9"]);
        assert_eq!((none.exit, none.stdout.trim()), (Some(0), "no event matches"), "{name}");
        let hidden = program.run(&["events", "list", "--json", "--limit", "3", "--contains", "{}"]);
        assert!(hidden.stdout.contains("type") && !hidden.stdout.contains("payload"), "{name}: {hidden:?}");
        let of_key = program.run(&["events", "list", "--json", "--key", "Order/07", "--limit", "3"]);
        let page = program.run(&["events", "list", "--json", "--before", "100", "--limit", "2"]);
        if *name == "postrider" {
            let keyed = numbers(program, &["--key", "Order/07", "--limit", "1000"]);
            assert_eq!(keyed, sevens, "the key of an event without one is its aggregate");
            let rows: Vec<Value> = serde_json::from_str(&page.stdout).unwrap();
            let rows: Vec<_> = rows.iter().map(|event| event["row"].as_str().unwrap().to_owned()).collect();
            assert_eq!(rows, ["99", "98"]);
        } else {
            assert!(of_key.stderr.contains("use --aggregate"), "{name}: {of_key:?}");
            assert!(page.stderr.contains("use --until"), "{name}: {page:?}");
        }
        if *name != "postrider" {
            let state = if *name == "outbox_events" { ["PENDING", "FAILED"] } else { ["pending", "failed"] };
            assert_eq!(numbers(program, &["--state", state[0], "--limit", "3"]), newest, "{name}");
            assert!(numbers(program, &["--state", state[1]]).is_empty(), "{name}");
        }
    }
}

fn a_state_is_refused_where_events_have_none<P: ListCase>() {
    let Some(case) = made::<P>("postrider") else { return };
    for more in [&[][..], &["--plan"]] {
        let refused = case.program().run(&[&["events", "list", "--state", "failed"][..], more].concat());
        assert_ne!(refused.exit, Some(0), "{refused:?}");
        assert!(refused.stdout.is_empty(), "{refused:?}");
        assert!(refused.stderr.contains("remove --state"), "{refused:?}");
    }
}

fn a_payload_that_is_no_json_contains_nothing<P: ListCase>() {
    let Some(case) = made::<P>("outbox_events") else { return };
    case.write_texts();
    assert_eq!(payloads(case.program(), &[]).len(), 3);
    assert_eq!(payloads(case.program(), &["--contains", "{\"a\": 1}"]), P::ROWS_WITH_ONE);
    assert_eq!(case.program().run(&["events", "list", "--plan", "--contains", "{}"]).exit, Some(0));
}

fn each_filter_is_served_by_the_index_its_layout_has_for_it<P: ListCase>() {
    for (name, filters) in P::LAYOUTS {
        let Some(case) = made::<P>(name) else { return };
        if *name == "outbox_events" {
            case.make_index();
        }
        case.fill();
        for (filter, index) in *filters {
            let args = [&["events", "list", "--plan", "--limit", "10"][..], filter].concat();
            let plan = case.program().run(&args);
            assert!(plan.stdout.contains(index), "{name} {filter:?}: {plan:?}");
            for slow in P::WITHOUT_INDEX {
                assert!(!plan.stdout.contains(slow), "{name} {filter:?}: {plan:?}");
            }
        }
    }
}

/// The tests of a database, one per case.
macro_rules! events {
    ($database:ty) => {
        $crate::events::events!($database:
            events_are_found_by_aggregate_type_time_and_payload_newest_first
            a_state_is_refused_where_events_have_none
            a_payload_that_is_no_json_contains_nothing
            each_filter_is_served_by_the_index_its_layout_has_for_it
        );
    };
    ($database:ty: $($case:ident)+) => {
        $(
            #[test]
            fn $case() {
                $crate::events::$case::<$database>();
            }
        )+
    };
}
use events;
