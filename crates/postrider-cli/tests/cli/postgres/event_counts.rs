//! Event counts, and the views for them.

use serde_json::Value;

use super::Shop;
use crate::event_counts::{
    CountCase, event_outbox_is_counted, outbox_events_is_counted, the_default_layout_is_counted,
};
use crate::program::Program;

fn program(shop: &Shop, layout: &str) -> Program {
    let config = super::config(&shop.url).replace("[sink", &format!("layout = '{layout}'\n[sink"));
    let program = Program::with_config(&config);
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    program
}

fn ago(seconds: i32) -> String {
    format!("now() - interval '{seconds} s'")
}

fn at(shop: &Shop, program: &Program, check: impl Fn(&CountCase<'_>)) {
    check(&CountCase {
        program,
        own: "postrider.",
        run: &|sql| shop.sql(sql),
        number: &|sql| shop.number(sql),
        ago: &ago,
        own_ago: &ago,
        at: &|time| format!("timestamptz '{time}+00'"),
    });
}

#[test]
fn events_are_counted_by_type_hour_and_producer() {
    let Some(shop) = Shop::new() else { return };
    let program = shop.program();
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    at(&shop, &program, the_default_layout_is_counted);
}

#[test]
fn the_views_belong_to_the_migrator_and_the_viewer_can_read_them() {
    let Some(shop) = Shop::new() else { return };
    let program = shop.program();
    assert_eq!(program.run(&["migrate", "up", "--with", "views"]).exit, Some(0));
    shop.sql(&program.run(&["migrate", "roles"]).stdout);
    let owned = "SELECT count(*) FROM pg_views WHERE schemaname = 'postrider' AND viewname LIKE 'vw%'
                   AND viewowner = 'postrider_migrator' AND has_table_privilege('postrider_viewer', schemaname || '.' || viewname, 'SELECT')";
    assert_eq!(shop.number(owned), 5);
}

#[test]
fn the_view_counts_hours_in_utc_in_every_time_zone() {
    let Some(shop) = Shop::new() else { return };
    assert_eq!(shop.program().run(&["migrate", "up", "--with", "views"]).exit, Some(0));
    shop.sql(
        "INSERT INTO postrider.events (type, payload, time)
         VALUES ('placed', '{}', '2026-01-01 10:10:00Z'), ('placed', '{}', '2026-01-01 10:40:00Z')",
    );
    for zone in ["UTC", "Asia/Kolkata"] {
        shop.sql(&format!(
            "ALTER DATABASE \"{}\" SET TimeZone = '{zone}'",
            shop.url.rsplit('/').next().unwrap()
        ));
        let hours = "SELECT count(*) FROM postrider.vw_outbox_throughput_hourly WHERE outbox_cnt = 2";
        assert_eq!(shop.number(hours), 1, "{zone}");
    }
}

#[test]
fn rows_of_event_outbox_are_counted_by_type_hour_and_producer() {
    let Some(shop) = Shop::new() else { return };
    at(&shop, &program(&shop, "event_outbox"), event_outbox_is_counted);
}

#[test]
fn rows_of_outbox_events_are_counted_by_type_hour_and_producer() {
    let Some(shop) = Shop::new() else { return };
    at(&shop, &program(&shop, "outbox_events"), outbox_events_is_counted);
}

#[test]
fn rows_of_outbox_are_counted_with_their_latency() {
    let Some(shop) = Shop::new() else { return };
    let program = program(&shop, "outbox");
    shop.sql(
        "INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, topic, payload, status, retry_count, created_at,
                             published_at)
         VALUES ('00000000-0000-0000-0000-000000000001', 'O', gen_random_uuid(), 'placed', 't', '{}', 'pending', 0, now(), NULL),
                ('00000000-0000-0000-0000-000000000002', 'O', gen_random_uuid(), 'placed', 't', '{}', 'pending', 1, now(), NULL),
                ('00000000-0000-0000-0000-000000000003', 'O', gen_random_uuid(), 'placed', 't', '{}', 'failed', 5, now(), NULL),
                ('00000000-0000-0000-0000-000000000004', 'O', gen_random_uuid(), 'placed', 't', '{}', 'published', 0,
                 '2020-01-01 00:00:00Z', '2020-01-01 00:00:20Z');
         INSERT INTO postrider.row_notes (row_id, state, attempts, next_attempt_at)
         VALUES ('00000000-0000-0000-0000-000000000002', 'retry', 1, now() + interval '1 day')",
    );
    let ran = program.run(&["status", "--by", "type", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    let reported = ["total", "pending", "failed", "done", "due", "attempts_max"]
        .map(|key| rows[0][key].as_u64().unwrap());
    assert_eq!(reported, [4, 2, 1, 1, 1, 5], "{ran:?}");
    assert_eq!(rows[0]["latency_seconds"]["p95"], 20.0, "{ran:?}");
}
