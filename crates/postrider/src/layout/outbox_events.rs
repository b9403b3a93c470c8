//! Layout `outbox_events`.

use super::shape::{Column, Index, Shape};

const TIME: &str = "timestamp with time zone";

pub(super) const SHAPES: &[Shape] = &[Shape {
    table: "{name}",
    columns: &[
        Column::new("id", "bigint").defaulted(),
        Column::new("aggregate_type", "text"),
        Column::new("aggregate_id", "text"),
        Column::new("event_type", "text"),
        Column::new("payload", "jsonb"),
        Column::new("status", "text").defaulted(),
        Column::new("created_at", TIME).defaulted(),
        Column::new("last_attempt_at", TIME).nullable(),
        Column::new("attempt_count", "integer").defaulted(),
    ],
    indexes: &[
        Index::new("{name}_pkey", "btree (id)"),
        Index::new("idx_{name}_status_created_at", "btree (status, created_at)"),
        Index::new("idx_{name}_aggregate", "btree (aggregate_type, aggregate_id)").optional(),
    ],
}];

/// As MySQL prints it; MariaDB's JSON is a text.
macro_rules! on_mysql {
    ($json:literal) => {
        &[Shape {
            table: "{name}",
            columns: &[
                Column::new("id", "bigint").defaulted(),
                Column::new("aggregate_type", "varchar(255)"),
                Column::new("aggregate_id", "varchar(255)"),
                Column::new("event_type", "varchar(255)"),
                Column::new("payload", $json),
                Column::new("status", "varchar(50)").defaulted(),
                Column::new("created_at", "timestamp").defaulted(),
                Column::new("last_attempt_at", "timestamp").nullable(),
                Column::new("attempt_count", "int").defaulted(),
            ],
            indexes: &[
                Index::new("PRIMARY", "btree (id)"),
                Index::new("idx_{name}_status_created_at", "btree (status, created_at)"),
                Index::new("idx_{name}_aggregate", "btree (aggregate_type, aggregate_id)").optional(),
            ],
        }]
    };
}

pub(super) const MYSQL: &[Shape] = on_mysql!("json");
pub(super) const MARIADB: &[Shape] = on_mysql!("longtext");

pub(super) const SQLITE: &[Shape] = &[Shape {
    table: "{name}",
    columns: &[
        Column::new("id", "integer").defaulted(),
        Column::new("aggregate_type", "text"),
        Column::new("aggregate_id", "text"),
        Column::new("event_type", "text"),
        Column::new("payload", "text"),
        Column::new("status", "text").defaulted(),
        Column::new("created_at", "timestamp").defaulted(),
        Column::new("last_attempt_at", "timestamp").nullable(),
        Column::new("attempt_count", "integer").defaulted(),
    ],
    indexes: &[
        Index::new("PRIMARY", "btree (id)"),
        Index::new("idx_{name}_status", "btree (status, created_at)"),
    ],
}];
