//! Events in MySQL and MariaDB.

use std::marker::PhantomData;

use postrider_testkit::servers::mysql::Kind;

use super::{AGGREGATE, Expected, ListCase, ROWS, TIME, TYPE};
use crate::mysql::{Shop, rows};
use crate::program::Program;

mod on_mysql {
    crate::events::events!(super::MySql<super::Oracles>);
}

mod on_mariadb {
    crate::events::events!(super::MySql<super::MariaDbs>);
}

trait Which {
    const KIND: Kind;
}

struct Oracles;
struct MariaDbs;

impl Which for Oracles {
    const KIND: Kind = Kind::MySql;
}

impl Which for MariaDbs {
    const KIND: Kind = Kind::MariaDb;
}

struct MySql<W> {
    shop: Shop,
    layout: &'static str,
    program: Program,
    _which: PhantomData<W>,
}

const DEFAULT: &[Expected] = &[(&TIME, "key: PRIMARY"), (&AGGREGATE, "key: PRIMARY"), (&[], "key: PRIMARY")];
const EVENT_OUTBOX: &[Expected] = &[
    (&TIME, "key: idx_event_outbox_created_at"),
    (&AGGREGATE, "key: idx_event_outbox_entity_time"),
    (&TYPE, "key: idx_event_outbox_created_at"),
    (&[], "key: idx_event_outbox_created_at"),
];
const OUTBOX_EVENTS: &[Expected] = &[
    (&TIME, "key: idx_outbox_events_status_created_at"),
    (&AGGREGATE, "key: idx_outbox_events_aggregate"),
    (&[], "key: idx_outbox_events_status_created_at"),
];

impl<W: Which> ListCase for MySql<W> {
    const LAYOUTS: &'static [(&'static str, &'static [Expected])] =
        &[("postrider", DEFAULT), ("event_outbox", EVENT_OUTBOX), ("outbox_events", OUTBOX_EVENTS)];
    const WITHOUT_INDEX: &'static [&'static str] = &["table: t, type: ALL", "table: events, type: ALL"];
    const ROWS_WITH_ONE: &'static [&'static str] = &["{\"a\": [1, 2]}", "{\"a\": 1}"];

    fn new(layout: &'static str) -> Option<Self> {
        let shop = Shop::on(W::KIND)?;
        let program = if layout == "postrider" { shop.program() } else { rows(&shop, layout) };
        Some(Self { shop, layout, program, _which: PhantomData })
    }

    fn program(&self) -> &Program {
        &self.program
    }

    fn fill(&self) {
        let (table, columns) = match self.layout {
            "postrider" => (
                "{schema}.events",
                "(time, type, aggregate_type, aggregate_id, payload) SELECT at, kind, 'Order', about, payload",
            ),
            "event_outbox" => (
                "{schema}_shop.event_outbox",
                "(created_at, event_type, entity_table, entity_pk, payload, event_key)
                 SELECT at, kind, 'Order', about, payload, CONCAT('00000000-0000-0000-0000-', LPAD(n, 12, '0'))",
            ),
            _ => (
                "{schema}_shop.outbox_events",
                "(created_at, event_type, aggregate_type, aggregate_id, payload)
                 SELECT at, kind, 'Order', about, payload",
            ),
        };
        let digits =
            (0..10).map(|digit| format!("SELECT {digit} AS d")).collect::<Vec<_>>().join(" UNION ALL ");
        self.shop.sql(&format!(
            "SET time_zone = '+00:00';
             INSERT INTO {table} {columns}
             FROM (SELECT n, TIMESTAMP'2026-01-01 00:00:00' + INTERVAL n SECOND AS at, CONCAT('type', n % 5) AS kind,
                          LPAD(n % 50, 2, '0') AS about, CONCAT('{{\"n\": ', n, ', \"part\": ', n DIV 10, '}}') AS payload
                   FROM (SELECT a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d AS n
                         FROM ({digits}) AS a, ({digits}) AS b, ({digits}) AS c, ({digits}) AS d, ({digits}) AS e)
                        AS numbers
                   WHERE n < {ROWS}) AS made
             ORDER BY n;
             ANALYZE TABLE {table}"
        ));
    }

    /// The table also lacks the index that statements force if it exists.
    fn write_texts(&self) {
        self.shop.sql(
            "ALTER TABLE {schema}_shop.outbox_events MODIFY payload LONGTEXT NOT NULL,
                                                     DROP INDEX idx_outbox_events_status_created_at;
             INSERT INTO {schema}_shop.outbox_events (event_type, aggregate_type, aggregate_id, payload)
             VALUES ('a', 'Order', '1', '{\"a\": 1}'), ('a', 'Order', '1', 'no JSON'),
                    ('a', 'Order', '1', '{\"a\": [1, 2]}')",
        );
    }

    fn make_index(&self) {
        assert_eq!(self.program.run(&["migrate", "up", "--with", "aggregate-index"]).exit, Some(0));
    }
}
