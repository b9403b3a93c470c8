//! `outbox_events`: PENDING, PUBLISHING, PUBLISHED, FAILED, with a count of attempts.

use super::shape::{Column, Index, Shape};
use super::spec::{Ability, EventField, Inserts, LayoutSpec, RowInsert, Tables, insert_postgres};

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "outbox_events",
    default_table: None,
    tables: Tables {
        postgres: &[Shape {
            table: "{name}",
            columns: COLUMNS,
            indexes: &[Index::new("{name}_pkey", "btree (id)"), STATUS_CREATED_AT, AGGREGATE],
        }],
        mysql: &[Shape {
            table: "{name}",
            columns: COLUMNS,
            indexes: &[Index::new("PRIMARY", "btree (id)"), STATUS_CREATED_AT, AGGREGATE],
        }],
        sqlite: &[Shape {
            table: "{name}",
            columns: COLUMNS,
            indexes: &[
                Index::new("PRIMARY", "btree (id)"),
                Index::new("idx_{name}_status", "btree (status, created_at)"),
            ],
        }],
    },
    states: &["PENDING", "PUBLISHING", "PUBLISHED", "FAILED"],
    attempts: "attempt_count",
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

const PG_TIME: &str = "timestamp with time zone";

const COLUMNS: &[Column] = &[
    Column::new("id", "bigint", "bigint", "integer").defaulted(),
    Column::new("aggregate_type", "text", "varchar(255)", "text"),
    Column::new("aggregate_id", "text", "varchar(255)", "text"),
    Column::new("event_type", "text", "varchar(255)", "text"),
    Column::new("payload", "jsonb", "json", "text"),
    Column::new("status", "text", "varchar(50)", "text").defaulted(),
    Column::new("created_at", PG_TIME, "timestamp", "timestamp").defaulted(),
    Column::new("last_attempt_at", PG_TIME, "timestamp", "timestamp").nullable(),
    Column::new("attempt_count", "integer", "int", "integer").defaulted(),
];

const STATUS_CREATED_AT: Index = Index::new("idx_{name}_status_created_at", "btree (status, created_at)");
const AGGREGATE: Index =
    Index::new("idx_{name}_aggregate", "btree (aggregate_type, aggregate_id)").optional();
