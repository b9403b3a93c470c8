//! Events in a SQLite file.

use rusqlite::Connection;

use super::{AGGREGATE, Expected, ListCase, ROWS, TIME, TYPE, events};
use crate::program::Program;

events!(Sqlite);

struct Sqlite {
    layout: &'static str,
    program: Program,
}

impl Sqlite {
    fn sql(&self, sql: &str) {
        Connection::open(self.program.path().join("shop.db")).unwrap().execute_batch(sql).unwrap();
    }
}

const POSITIONS: &str = "SEARCH postrider_events USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)";
const STATES: &str =
    "SEARCH t USING INDEX idx_outbox_events_status (status=? AND created_at>? AND created_at<?)";

impl ListCase for Sqlite {
    const LAYOUTS: &'static [(&'static str, &'static [Expected])] = &[
        ("postrider", &[(&TIME, POSITIONS), (&AGGREGATE, POSITIONS), (&[], POSITIONS)]),
        (
            "outbox_events",
            &[(&TIME, STATES), (&TYPE, STATES), (&[], STATES), (&["--state", "FAILED"], STATES)],
        ),
    ];
    const WITHOUT_INDEX: &'static [&'static str] = &["SCAN", "TEMP B-TREE"];
    const ROWS_WITH_ONE: &'static [&'static str] = &["{\"a\": 1}"];

    fn new(layout: &'static str) -> Option<Self> {
        let program = Program::with_config(&format!(
            "[outbox.shop]\nurl = 'sqlite:shop.db'\nlayout = '{layout}'\n[sink.out]\ntype = 'file'\n\
             path = 'events.jsonl'\n[subscription.orders]\nsink = 'out'\nstart = 'beginning'\n"
        ));
        Some(Self { layout, program })
    }

    fn program(&self) -> &Program {
        &self.program
    }

    fn fill(&self) {
        let columns = match self.layout {
            "postrider" => {
                "postrider_events (time, type, aggregate_type, aggregate_id, payload)
                 SELECT (1767225600 + n) * 1000000, 'type' || (n % 5), 'Order', printf('%02d', n % 50),"
            }
            _ => {
                "outbox_events (created_at, event_type, aggregate_type, aggregate_id, payload)
                 SELECT datetime(1767225600 + n, 'unixepoch'), 'type' || (n % 5), 'Order', printf('%02d', n % 50),"
            }
        };
        self.sql(&format!(
            "WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {ROWS})
             INSERT INTO {columns} json_object('n', n, 'part', n / 10) FROM numbers;
             ANALYZE"
        ));
    }

    fn write_texts(&self) {
        self.sql(
            "INSERT INTO outbox_events (event_type, aggregate_type, aggregate_id, payload)
             VALUES ('a', 'Order', '1', '{\"a\": 1}'), ('a', 'Order', '1', 'no JSON'),
                    ('a', 'Order', '1', '{\"a\": [1, 2]}')",
        );
    }
}
