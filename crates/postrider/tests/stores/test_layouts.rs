//! What the tests know about each layout whose outbox has a state per row. One descriptor per layout, as
//! [`LayoutSpec`](postrider::layout::LayoutSpec) is one in the library: the other tests ask here, and contain no layout's
//! columns.

use postrider::layout::RowLayout;

/// How a program without Postrider uses a table of the layout. Statements may contain `{t}` for the table.
pub(crate) struct TestLayout {
    pub(crate) layout: RowLayout,
    /// The INSERT of one row: `{uuid}` is the database's function, `{key}` the key and `{payload}` the payload.
    insert: &'static str,
    /// The INSERT of one row on PostgreSQL that has no key except its aggregate: `{kind}` and `{id}`.
    insert_of_aggregate: &'static str,
    /// The column with the key of a row that `insert` writes.
    pub(crate) key: &'static str,
    /// The state of a row, as the cases of an SQL CASE; every other row waits for its retry.
    pub(crate) state_cases: &'static str,
    /// The state of a row that failed and is tried again.
    pub(crate) retrying: &'static str,
    /// The SET that makes a row that was given up due again.
    pub(crate) reset: &'static str,
    /// The SET of another publisher that delivered a row, at the time `{at}`.
    delivered: &'static str,
    /// The condition for a row that was given up, on PostgreSQL.
    pub(crate) given_up: &'static str,
    /// The column with the time of the last attempt or of the delivery.
    pub(crate) settled_at: &'static str,
    /// All columns with a time in the past.
    pub(crate) times: &'static [&'static str],
    /// The most attempts that the column can count.
    pub(crate) attempts_top: u32,
    /// How another publisher polls with `FOR UPDATE SKIP LOCKED`, if the layout has no state for rows that are being
    /// published.
    pub(crate) poller: Option<Poller>,
}

/// The statements of a publisher that polls with `FOR UPDATE SKIP LOCKED`, on PostgreSQL.
pub(crate) struct Poller {
    /// Reads `$1` rows.
    pub(crate) due: &'static str,
    /// Marks the row `$1` as delivered.
    pub(crate) deliver: &'static str,
    /// Records that the row `$1` could not be delivered.
    pub(crate) fail: &'static str,
}

/// The layouts whose outbox has a state per row.
pub(crate) const STATE_PER_ROW: [RowLayout; LAYOUTS.len()] = {
    let mut layouts = [RowLayout::EventOutbox; LAYOUTS.len()];
    let mut index = 0;
    while index < layouts.len() {
        layouts[index] = LAYOUTS[index].layout;
        index += 1;
    }
    layouts
};

/// Calls a macro with the layouts of a database: `call! { NAME = INDEX, VARIANT; ... }`. The index is that in
/// [`LAYOUTS`]. `mysql_shared` are those that other publishers may share on MySQL and MariaDB.
macro_rules! on_layouts {
    (postgres, $call:ident $($args:tt)*) => {
        $call! { $($args)*
            event_outbox = 0, EventOutbox;
            outbox = 1, Outbox;
            outbox_events = 2, OutboxEvents;
        }
    };
    (mysql, $call:ident $($args:tt)*) => {
        $call! { $($args)*
            event_outbox = 0, EventOutbox;
            outbox_events = 2, OutboxEvents;
        }
    };
    (mysql_shared, $call:ident $($args:tt)*) => {
        $call! { $($args)*
            event_outbox = 0, EventOutbox;
            outbox_events = 2, OutboxEvents;
        }
    };
    (sqlite, $call:ident $($args:tt)*) => {
        $call! { $($args)* outbox_events = 2, OutboxEvents; }
    };
}
pub(crate) use on_layouts;

pub(crate) const LAYOUTS: &[TestLayout] = &[
    TestLayout {
        layout: RowLayout::EventOutbox,
        insert: "INSERT INTO event_outbox (event_key, entity_table, entity_pk, event_type, payload)
                 VALUES ({uuid}, 'orders', '{key}', 'order.placed', '{payload}')",
        insert_of_aggregate: "INSERT INTO event_outbox (event_key, entity_table, entity_pk, event_type, payload)
                              VALUES (gen_random_uuid(), '{kind}', '{id}', 'changed', '{\"n\": 1}')",
        key: "entity_pk",
        state_cases: "WHEN status = 'sent' THEN 'done'
                      WHEN status = 'pending' THEN 'waiting'
                      WHEN next_attempt_at >= '9999-12-31' THEN 'given up'",
        retrying: "failed",
        reset: "next_attempt_at = NULL, attempts = 0",
        delivered: "status = 'sent', processed_at = {at}",
        given_up: "next_attempt_at = '9999-12-31 00:00:00+00'",
        settled_at: "processed_at",
        times: &["created_at", "processed_at"],
        attempts_top: 2_147_483_647,
        poller: Some(Poller {
            due: "SELECT id::text FROM event_outbox
                  WHERE status IN ('pending', 'failed') AND (next_attempt_at IS NULL OR next_attempt_at <= now())
                  ORDER BY created_at LIMIT $1 FOR UPDATE SKIP LOCKED",
            deliver: "UPDATE event_outbox SET status = 'sent', processed_at = now() WHERE id::text = $1",
            fail: "UPDATE event_outbox SET status = 'failed', attempts = attempts + 1, next_attempt_at = now()
                   WHERE id::text = $1",
        }),
    },
    TestLayout {
        layout: RowLayout::Outbox,
        insert: "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, topic, partition_key, payload, max_retries)
                 VALUES ('Order', {uuid}, 'order.placed', 'orders', '{key}', '{payload}', {attempts_max})",
        insert_of_aggregate: "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, topic, payload)
                              VALUES ('{kind}', '{id}', 'changed', 'orders', '{\"n\": 1}')",
        key: "partition_key",
        state_cases: "WHEN status = 'published' THEN 'done'
                      WHEN status = 'failed' THEN 'given up'
                      WHEN retry_count = 0 THEN 'waiting'",
        retrying: "pending",
        reset: "status = 'pending', retry_count = 0",
        delivered: "status = 'published', published_at = {at}",
        given_up: "retry_count = max_retries",
        settled_at: "published_at",
        times: &["created_at", "published_at", "expires_at"],
        attempts_top: 32_767,
        poller: Some(Poller {
            due: "SELECT id::text FROM outbox WHERE status = 'pending'
                  ORDER BY created_at LIMIT $1 FOR UPDATE SKIP LOCKED",
            deliver: "UPDATE outbox SET status = 'published', published_at = now() WHERE id::text = $1",
            fail: "UPDATE outbox SET retry_count = retry_count + 1 WHERE id::text = $1",
        }),
    },
    TestLayout {
        layout: RowLayout::OutboxEvents,
        insert: "INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
                 VALUES ('Order', '{key}', 'order.placed', '{payload}')",
        insert_of_aggregate: "INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
                              VALUES ('{kind}', '{id}', 'changed', '{\"n\": 1}')",
        key: "aggregate_id",
        state_cases: "WHEN status = 'PUBLISHED' THEN 'done'
                      WHEN status = 'PUBLISHING' THEN 'in flight'
                      WHEN status = 'PENDING' THEN 'waiting'
                      WHEN attempt_count >= 3 THEN 'given up'",
        retrying: "FAILED",
        reset: "status = 'PENDING', attempt_count = 0",
        delivered: "status = 'PUBLISHED'",
        given_up: "attempt_count = 3",
        settled_at: "last_attempt_at",
        times: &["created_at"],
        attempts_top: 2_147_483_647,
        poller: None,
    },
];

impl TestLayout {
    /// The descriptor of a layout.
    pub(crate) fn of(layout: RowLayout) -> &'static Self {
        let found = LAYOUTS.iter().find(|test| test.layout == layout);
        found.unwrap_or_else(|| {
            panic!("the tests have no descriptor of {layout:?}: add it to test_layouts.rs")
        })
    }

    /// The INSERT of one row. `uuid` is the database's function for a new UUID.
    pub(crate) fn insert(&self, uuid: &str, key: &str, number: usize) -> String {
        let attempts_max = postrider_testkit::conformance::rows::ATTEMPTS_MAX.to_string();
        self.insert
            .replace("{uuid}", uuid)
            .replace("{key}", key)
            .replace("{attempts_max}", &attempts_max)
            .replace("{payload}", &format!("{{\"n\": {number}}}"))
    }

    /// The INSERT of one row of an aggregate, on PostgreSQL.
    pub(crate) fn insert_of_aggregate(&self, kind: &str, id: &str) -> String {
        self.insert_of_aggregate.replace("{kind}", kind).replace("{id}", id)
    }

    /// The SET of another publisher that delivered a row, at a time.
    pub(crate) fn delivered(&self, at: &str) -> String {
        self.delivered.replace("{at}", at)
    }
}
