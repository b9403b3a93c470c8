//! `outbox_events`: PENDING, PUBLISHING, PUBLISHED, FAILED, with a count of attempts.

use super::shape::{Column, Index, Shape};
use super::spec::{Ability, EventField, Inserts, LayoutSpec, RowInsert, Tables, insert_postgres};

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "outbox_events",
    tables: Tables { postgres: POSTGRES, mysql: MYSQL, mariadb: MARIADB, sqlite: SQLITE },
    states: &["PENDING", "PUBLISHING", "PUBLISHED", "FAILED"],
    columns: &[
        (EventField::AggregateType, None),
        (EventField::AggregateId, None),
        (EventField::EventType, None),
        (EventField::Payload, None),
    ],
    abilities: &[Ability::AggregateIndex, Ability::PublishingState, Ability::RowLimitColumn],
    inserts: Inserts {
        postgres: Some(insert_postgres!(
            "aggregate_type, aggregate_id, event_type, payload",
            "e.aggregate_type, e.aggregate_id, e.type, e.payload::jsonb"
        )),
        mysql: Some(RowInsert {
            before: "INSERT INTO {table} (aggregate_type, aggregate_id, event_type, payload) VALUES ",
            row: "(?, ?, ?, ?)",
            fields: &[
                EventField::AggregateType,
                EventField::AggregateId,
                EventField::EventType,
                EventField::Payload,
            ],
        }),
        sqlite: Some(
            "INSERT INTO {table} (aggregate_type, aggregate_id, event_type, payload)
             VALUES (?1, ?2, ?3, ?4)
             RETURNING id, CAST(round((julianday(created_at) - 2440587.5) * 86400000) AS INTEGER) * 1000",
        ),
    },
};

const TIME: &str = "timestamp with time zone";

const POSTGRES: &[Shape] = &[Shape {
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

const MYSQL: &[Shape] = on_mysql!("json");
const MARIADB: &[Shape] = on_mysql!("longtext");

const SQLITE: &[Shape] = &[Shape {
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
