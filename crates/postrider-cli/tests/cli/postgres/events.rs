//! `postrider events list`: the events that were asked for, found by the index the layout has for it.

use serde_json::Value;

use super::Shop;
use crate::program::Program;

/// Rows of 50 aggregates and 5 types, one per second since 2026-01-01T00:00:00Z.
const ROWS: i64 = 20_000;

fn layout(shop: &Shop, layout: &str) -> Program {
    let config = format!(
        "[outbox.shop]\nurl = '{}'\nlayout = '{layout}'\n[sink.out]\ntype = 'file'\npath = 'events.jsonl'\n\
         [subscription.orders]\nsink = 'out'\nstart = 'beginning'\n",
        shop.url
    );
    let program = Program::with_config(&config);
    let made = program.run(&["migrate", "up"]);
    assert_eq!(made.exit, Some(0), "{made:?}");
    program
}

/// Fills the table of a layout. Row n is of aggregate n % 50 and type n % 5, and says n.
fn fill(shop: &Shop, layout: &str) {
    let (table, columns) = match layout {
        "postrider" => (
            "postrider.events",
            "(time, type, aggregate_type, aggregate_id, payload)
             SELECT at, kind, 'Order', about, convert_to(payload::text, 'UTF8')",
        ),
        "event_outbox" => (
            "event_outbox",
            "(created_at, event_type, entity_table, entity_pk, payload, event_key)
             SELECT at, kind, 'Order', about, payload, gen_random_uuid()",
        ),
        "outbox" => (
            "outbox",
            "(created_at, event_type, aggregate_type, aggregate_id, payload, topic)
             SELECT at, kind, 'Order', ('00000000-0000-0000-0000-0000000000' || about)::uuid, payload, 'orders'",
        ),
        _ => (
            "outbox_events",
            "(created_at, event_type, aggregate_type, aggregate_id, payload)
             SELECT at, kind, 'Order', about, payload",
        ),
    };
    shop.sql(&format!(
        "INSERT INTO {table} {columns}
         FROM (SELECT timestamptz '2026-01-01 00:00:00+00' + n * interval '1 second' AS at, 'type' || n % 5 AS kind,
                      lpad((n % 50)::text, 2, '0') AS about, jsonb_build_object('n', n, 'part', n / 10) AS payload
               FROM generate_series(0, {ROWS} - 1) AS n ORDER BY n) AS made;
         ANALYZE {table}"
    ));
}

fn numbers(program: &Program, filter: &[&str]) -> Vec<i64> {
    let found = program.run(&[&["events", "list", "--json"][..], filter].concat());
    assert_eq!(found.exit, Some(0), "{found:?}");
    let events: Vec<Value> = serde_json::from_str(&found.stdout).unwrap();
    let number = |event: &Value| {
        let payload: Value = serde_json::from_str(event["payload"].as_str().unwrap()).unwrap();
        payload["n"].as_i64().unwrap()
    };
    events.iter().map(number).collect()
}

#[test]
fn events_are_found_by_aggregate_type_time_and_payload_newest_first() {
    for name in ["postrider", "event_outbox", "outbox", "outbox_events"] {
        let Some(shop) = Shop::new() else { return };
        let program = layout(&shop, name);
        fill(&shop, name);
        let of_seven =
            if name == "outbox" { "Order:00000000-0000-0000-0000-000000000007" } else { "Order:07" };
        let newest: Vec<i64> = (ROWS - 3..ROWS).rev().collect();
        assert_eq!(numbers(&program, &["--limit", "3"]), newest, "{name}");
        let sevens = numbers(&program, &["--aggregate", of_seven, "--limit", "1000"]);
        assert_eq!(sevens.len() as i64, ROWS / 50, "{name}");
        assert!(sevens.iter().all(|n| n % 50 == 7) && sevens.is_sorted_by(|a, b| a > b), "{name}");
        assert_eq!(numbers(&program, &["--type", "type3", "--limit", "2"]), [ROWS - 2, ROWS - 7], "{name}");
        let hour = ["--since", "2026-01-01T01:00:00Z", "--until", "2026-01-01T01:00:02Z"];
        assert_eq!(numbers(&program, &hour), [3602, 3601, 3600], "{name}");
        let part = numbers(&program, &["--contains", "{\"part\": 1234}"]);
        assert_eq!(part, (12340..12350).rev().collect::<Vec<_>>(), "{name}");
        let all = [&hour[..], &["--type", "type1", "--contains", "{\"part\": 360}"]].concat();
        assert_eq!(numbers(&program, &all), [3601], "{name}");
        let none = program.run(&["events", "list", "--aggregate", of_seven, "--type", "type9"]);
        assert_eq!((none.exit, none.stdout.trim()), (Some(0), "no event is like that"), "{name}");
    }
}

#[test]
fn a_status_is_refused_where_events_have_none() {
    let Some(shop) = Shop::new() else { return };
    let program = layout(&shop, "postrider");
    for more in [&[][..], &["--plan"]] {
        let refused = program.run(&[&["events", "list", "--status", "failed"][..], more].concat());
        assert_ne!(refused.exit, Some(0), "{refused:?}");
        assert!(refused.stdout.is_empty(), "{refused:?}");
        assert!(refused.stderr.contains("leave --status out"), "{refused:?}");
    }
}

#[test]
fn each_filter_is_served_by_the_index_its_layout_has_for_it() {
    let time = ["--since", "2026-01-01T01:00:00Z", "--until", "2026-01-01T01:10:00Z"];
    let aggregate = ["--aggregate", "Order:07"];
    let uuid = ["--aggregate", "Order:00000000-0000-0000-0000-000000000007"];
    let payload = ["--contains", "{\"part\": 1234}"];
    let pending = ["--status", "pending", "--since", "2026-01-01T05:30:00Z"];
    type Expected<'a> = &'a [(&'a [&'a str], &'a str)];
    let expected: [(&str, Expected<'_>); 4] = [
        ("postrider", &[(&time, "events_pkey"), (&aggregate, "events_pkey"), (&[], "events_pkey")]),
        (
            "event_outbox",
            &[
                (&time, "idx_event_outbox_created_at"),
                (&aggregate, "idx_event_outbox_entity_time"),
                (&payload, "gin_event_outbox_payload"),
                (&["--type", "type3"], "idx_event_outbox_created_at"),
                (&[], "idx_event_outbox_created_at"),
            ],
        ),
        ("outbox", &[(&uuid, "idx_outbox_aggregate"), (&pending, "idx_outbox_status_created")]),
        (
            "outbox_events",
            &[
                (&time, "idx_outbox_events_status_created_at"),
                (&aggregate, "idx_outbox_events_aggregate"),
                (&[], "idx_outbox_events_status_created_at"),
            ],
        ),
    ];
    for (name, filters) in expected {
        let Some(shop) = Shop::new() else { return };
        let program = layout(&shop, name);
        if name == "outbox_events" {
            assert_eq!(program.run(&["migrate", "up", "--with", "aggregate-index"]).exit, Some(0));
        }
        fill(&shop, name);
        for (filter, index) in filters {
            let plan = program.run(&[&["events", "list", "--plan", "--limit", "10"][..], filter].concat());
            assert!(plan.stdout.contains(index), "{name} {filter:?}: {plan:?}");
            assert!(!plan.stdout.contains("Seq Scan"), "{name} {filter:?}: {plan:?}");
        }
    }
}

#[test]
fn the_doctor_looks_at_the_key_that_the_inbox_of_seed_003_has() {
    let Some(shop) = Shop::new() else { return };
    let program = layout(&shop, "outbox");
    let told = program.run(&["doctor"]);
    assert!(told.stdout.contains("processed_events_pkey (event_id)"), "{told:?}");
    shop.sql(
        "ALTER TABLE processed_events DROP CONSTRAINT processed_events_pkey,
                                      ADD PRIMARY KEY (consumer_group, event_id)",
    );
    let told = program.run(&["doctor", "--json"]);
    let all = format!("{}{}", told.stdout, told.stderr);
    assert!(!all.contains("one consumer group only"), "{told:?}");
}
