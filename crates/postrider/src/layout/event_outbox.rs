//! Layout `event_outbox`.

use super::shape::{Column, Index, Shape};

const TIME: &str = "timestamp(6) with time zone";

pub(super) const SHAPES: &[Shape] = &[Shape {
    table: "{name}",
    columns: &[
        Column::new("id", "bigint").defaulted(),
        Column::new("event_key", "character(36)"),
        Column::new("entity_table", "character varying(64)"),
        Column::new("entity_pk", "character varying(64)"),
        Column::new("event_type", "character varying(100)"),
        Column::new("payload", "jsonb"),
        Column::new("status", "text").defaulted(),
        Column::new("attempts", "integer").defaulted(),
        Column::new("next_attempt_at", TIME).nullable(),
        Column::new("processed_at", TIME).nullable(),
        Column::new("producer_node", "character varying(100)").nullable(),
        Column::new("created_at", TIME).defaulted(),
    ],
    indexes: &[
        Index::new("{name}_pkey", "btree (id)"),
        Index::new("uq_{name}_key", "btree (event_key)"),
        Index::new("gin_{name}_payload", "gin (payload jsonb_path_ops)"),
        Index::new("idx_{name}_created_at", "btree (created_at)"),
        Index::new("idx_{name}_entity_time", "btree (entity_table, entity_pk, created_at)"),
        Index::new("idx_{name}_status_sched", "btree (status, next_attempt_at)"),
    ],
}];

/// As MySQL prints it; MariaDB's JSON is a text. There is no index over what is in the payload.
macro_rules! on_mysql {
    ($json:literal) => {
        &[Shape {
            table: "{name}",
            columns: &[
                Column::new("id", "bigint").defaulted(),
                Column::new("event_key", "char(36)"),
                Column::new("entity_table", "varchar(64)"),
                Column::new("entity_pk", "varchar(64)"),
                Column::new("event_type", "varchar(100)"),
                Column::new("payload", $json),
                Column::new("status", "enum('pending','sent','failed')").defaulted(),
                Column::new("attempts", "int").defaulted(),
                Column::new("next_attempt_at", "datetime(6)").nullable(),
                Column::new("processed_at", "datetime(6)").nullable(),
                Column::new("producer_node", "varchar(100)").nullable(),
                Column::new("created_at", "datetime(6)").defaulted(),
            ],
            indexes: &[
                Index::new("PRIMARY", "btree (id)"),
                Index::new("uq_{name}_key", "btree (event_key)"),
                Index::new("idx_{name}_created_at", "btree (created_at)"),
                Index::new("idx_{name}_entity_time", "btree (entity_table, entity_pk, created_at)"),
                Index::new("idx_{name}_status_sched", "btree (status, next_attempt_at)"),
            ],
        }]
    };
}

pub(super) const MYSQL: &[Shape] = on_mysql!("json");
pub(super) const MARIADB: &[Shape] = on_mysql!("longtext");
