//! Events in PostgreSQL.

use super::{AGGREGATE, Expected, ListCase, PAYLOAD, ROWS, TIME, TYPE, events};
use crate::postgres::Shop;
use crate::program::Program;

events!(Postgres);

struct Postgres {
    shop: Shop,
    layout: &'static str,
    program: Program,
}

const UUID: [&str; 2] = ["--aggregate", "Order:00000000-0000-0000-0000-000000000007"];
const PENDING: [&str; 4] = ["--state", "pending", "--since", "2026-01-01T05:30:00Z"];

const DEFAULT: &[Expected] = &[(&TIME, "events_pkey"), (&AGGREGATE, "events_pkey"), (&[], "events_pkey")];
const EVENT_OUTBOX: &[Expected] = &[
    (&TIME, "idx_event_outbox_created_at"),
    (&AGGREGATE, "idx_event_outbox_entity_time"),
    (&PAYLOAD, "gin_event_outbox_payload"),
    (&TYPE, "idx_event_outbox_created_at"),
    (&[], "idx_event_outbox_created_at"),
];
const OUTBOX: &[Expected] = &[(&UUID, "idx_outbox_aggregate"), (&PENDING, "idx_outbox_status_created")];
const OUTBOX_EVENTS: &[Expected] = &[
    (&TIME, "idx_outbox_events_status_created_at"),
    (&AGGREGATE, "idx_outbox_events_aggregate"),
    (&[], "idx_outbox_events_status_created_at"),
];

impl ListCase for Postgres {
    const LAYOUTS: &'static [(&'static str, &'static [Expected])] = &[
        ("postrider", DEFAULT),
        ("event_outbox", EVENT_OUTBOX),
        ("outbox", OUTBOX),
        ("outbox_events", OUTBOX_EVENTS),
    ];
    const WITHOUT_INDEX: &'static [&'static str] = &["Seq Scan"];
    const ROWS_WITH_ONE: &'static [&'static str] = &["{\"a\": 1}"];

    fn new(layout: &'static str) -> Option<Self> {
        let shop = Shop::new()?;
        let config = format!(
            "[outbox.shop]\nurl = '{}'\nlayout = '{layout}'\n[sink.out]\ntype = 'file'\npath = 'events.jsonl'\n\
             [subscription.orders]\nsink = 'out'\nstart = 'beginning'\n",
            shop.url
        );
        let program = Program::with_config(&config);
        Some(Self { shop, layout, program })
    }

    fn program(&self) -> &Program {
        &self.program
    }

    fn fill(&self) {
        let (table, columns) = match self.layout {
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
        self.shop.sql(&format!(
            "INSERT INTO {table} {columns}
             FROM (SELECT timestamptz '2026-01-01 00:00:00+00' + n * interval '1 second' AS at, 'type' || n % 5 AS kind,
                          lpad((n % 50)::text, 2, '0') AS about, jsonb_build_object('n', n, 'part', n / 10) AS payload
                   FROM generate_series(0, {ROWS} - 1) AS n ORDER BY n) AS made;
             ANALYZE {table}"
        ));
    }

    fn write_texts(&self) {
        self.shop.sql(
            "ALTER TABLE outbox_events ALTER COLUMN payload TYPE text;
             INSERT INTO outbox_events (event_type, aggregate_type, aggregate_id, payload)
             VALUES ('a', 'Order', '1', '{\"a\": 1}'), ('a', 'Order', '1', 'no JSON'),
                    ('a', 'Order', '1', '{\"a\": [1, 2]}')",
        );
    }

    fn make_index(&self) {
        assert_eq!(self.program.run(&["migrate", "up", "--with", "aggregate-index"]).exit, Some(0));
    }
}
