//! Tables of other layouts, from the command line.

use super::Shop;
use crate::adopt::{both, three_rows_move_forth_and_back};
use crate::program::Program;
use crate::story::{
    assert_printed_id, assert_unfit_event_is_refused, delivered, drain_rows, migrate_twice, write_order,
};

pub(super) fn program(shop: &Shop, layout: &str) -> Program {
    let config = format!(
        "[outbox.shop]\nurl = '{}'\nlayout = '{layout}'\n[sink.out]\ntype = 'file'\npath = 'events.jsonl'\n\
         [subscription.orders]\nsink = 'out'\nstart = 'beginning'\n",
        shop.url
    );
    Program::with_config(&config)
}

pub(super) const INSERTS: [(&str, &str); 3] = [
    (
        "event_outbox",
        "INSERT INTO event_outbox (event_key, entity_table, entity_pk, event_type, payload)
         SELECT gen_random_uuid(), 'orders', n, 'order.placed', '{}' FROM generate_series(1, 3) AS n",
    ),
    (
        "outbox",
        "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, topic, payload)
         SELECT 'Order', gen_random_uuid(), 'order.placed', 'orders', '{}' FROM generate_series(1, 3)",
    ),
    (
        "outbox_events",
        "INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
         SELECT 'Order', n, 'order.placed', '{}' FROM generate_series(1, 3) AS n",
    ),
];

#[test]
fn rows_written_by_another_program_are_delivered_and_listed() {
    for (layout, insert) in INSERTS {
        let Some(shop) = Shop::new() else { return };
        let program = program(&shop, layout);
        migrate_twice(&program, "", "6");
        shop.sql(insert);
        drain_rows(&program, 3);
        let left = format!("SELECT count(*) FROM {layout} WHERE lower(status) NOT IN ('sent', 'published')");
        assert_eq!(shop.number(&left), 0);
        let doctor = program.run(&["doctor"]);
        assert!(doctor.stdout.contains(&format!("matches layout {layout}")), "{layout}: {doctor:?}");
        assert_eq!(doctor.stdout.contains("PD-0133"), layout == "outbox", "{doctor:?}");
    }
}

#[test]
fn an_event_is_written_to_the_table_and_one_that_does_not_fit_is_refused() {
    let Some(shop) = Shop::new() else { return };
    let program = program(&shop, "outbox_events");
    assert_eq!(program.run(&["migrate", "up", "--with", "aggregate-index"]).exit, Some(0));
    assert_eq!(
        shop.number("SELECT count(*) FROM pg_indexes WHERE indexname = 'idx_outbox_events_aggregate'"),
        1
    );
    let written = write_order(&program, "{\"a\": 1}");
    assert_eq!(written.exit, Some(0), "{written:?}");
    assert_eq!(
        shop.number("SELECT count(*) FROM outbox_events WHERE aggregate_id = '42' AND status = 'PENDING'"),
        1
    );
    assert_unfit_event_is_refused(&program);
    drain_rows(&program, 1);
    assert_printed_id(&written, &delivered(&program));
}

#[test]
fn the_layout_flag_creates_a_layout_and_refuses_one_that_is_not_configured() {
    let Some(shop) = Shop::new() else { return };
    let made = shop.program().run(&["migrate", "up", "--layout", "outbox"]);
    assert_eq!(made.exit, Some(0), "{made:?}");
    assert_eq!(shop.number("SELECT count(*) FROM processed_events"), 0);
    let refused = program(&shop, "outbox").run(&["migrate", "up", "--layout", "event_outbox"]);
    assert!(refused.exit != Some(0) && refused.stderr.contains("PR-0220"), "{refused:?}");
}

#[test]
fn a_table_that_differs_is_reported_and_not_modified() {
    let Some(shop) = Shop::new() else { return };
    let program = program(&shop, "outbox_events");
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    shop.sql("DROP INDEX idx_outbox_events_status_created_at");
    let reported = program.run(&["migrate", "up"]);
    assert_eq!(reported.exit, Some(0), "{reported:?}");
    assert!(
        reported.stderr.contains("index \"idx_outbox_events_status_created_at\" is missing"),
        "{reported:?}"
    );
    shop.sql("ALTER TABLE outbox_events DROP attempt_count");
    let refused = program.run(&["relay", "--drain", "--fail-fast"]);
    assert!(refused.stderr.contains("has no column \"attempt_count\""), "{refused:?}");
}

#[test]
fn rows_abandoned_by_a_dead_publisher_are_reported_and_not_modified() {
    let Some(shop) = Shop::new() else { return };
    let program = program(&shop, "outbox_events");
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    shop.sql(INSERTS[2].1);
    shop.sql(
        "UPDATE outbox_events SET status = 'PUBLISHING', last_attempt_at = now() - interval '1 day' WHERE id = 1",
    );
    let doctor = program.run(&["doctor"]);
    assert!(doctor.stdout.contains("1 row is marked as PUBLISHING by another publisher"), "{doctor:?}");
    let relay = program.run(&["relay", "--drain", "--set", "outbox.shop.foreign_claim_timeout=1h"]);
    assert_eq!(relay.exit, Some(0), "{relay:?}");
    assert_eq!(shop.number("SELECT count(*) FROM outbox_events WHERE status = 'PUBLISHED'"), 3);
}

#[test]
fn the_doctor_checks_the_key_of_the_inbox_of_layout_outbox() {
    let Some(shop) = Shop::new() else { return };
    let program = program(&shop, "outbox");
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    let reported = program.run(&["doctor"]);
    assert!(reported.stdout.contains("processed_events_pkey (event_id)"), "{reported:?}");
    shop.sql(
        "ALTER TABLE processed_events DROP CONSTRAINT processed_events_pkey,
                                      ADD PRIMARY KEY (consumer_group, event_id)",
    );
    let reported = program.run(&["doctor", "--json"]);
    let all = format!("{}{}", reported.stdout, reported.stderr);
    assert!(!all.contains("only one consumer group"), "{reported:?}");
}

#[test]
fn a_table_moves_into_the_layout_postrider_and_back() {
    for (layout, insert) in INSERTS {
        let Some(shop) = Shop::new() else { return };
        let old = format!("url = '{}'\nlayout = '{layout}'\nschema = 'of_rows'", shop.url);
        let program = both(&old, &format!("url = '{}'", shop.url));
        shop.sql(insert);
        three_rows_move_forth_and_back(&program, layout);
        assert_eq!(
            shop.number("SELECT count(*) FROM postrider.events"),
            3,
            "{layout}: nothing is deleted there"
        );
    }
}
