//! `event_outbox`: pending, sent, failed, with the time of the next attempt.

use super::shape::{Column, Index, Shape};
use super::spec::{Ability, EventField, Inserts, LayoutSpec, RowInsert, Tables, insert_postgres};

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "event_outbox",
    default_table: None,
    tables: Tables {
        postgres: &[Shape { table: "{name}", columns: COLUMNS, indexes: POSTGRES_INDEXES }],
        mysql: &[Shape { table: "{name}", columns: COLUMNS, indexes: MYSQL_INDEXES }],
        ..Tables::NONE
    },
    states: &["pending", "sent", "failed"],
    attempts: "attempts",
    columns: &[
        (EventField::Id, None),
        (EventField::AggregateType, Some(64)),
        (EventField::AggregateId, Some(64)),
        (EventField::EventType, Some(100)),
        (EventField::Payload, None),
        (EventField::Producer, Some(100)),
    ],
    abilities: &[Ability::Views, Ability::DeliveryTime],
    inserts: Inserts {
        postgres: Some(insert_postgres!(
            "event_key, entity_table, entity_pk, event_type, payload, producer_node",
            "e.id, e.aggregate_type, e.aggregate_id, e.type, e.payload::jsonb, e.producer"
        )),
        // The creation time must be UTC, whatever the time zone of the session.
        mysql: Some(RowInsert {
            before: "INSERT INTO {table} (event_key, entity_table, entity_pk, event_type, payload, producer_node, created_at)
                     VALUES ",
            row: "(?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))",
            fields: &[
                EventField::Id,
                EventField::AggregateType,
                EventField::AggregateId,
                EventField::EventType,
                EventField::Payload,
                EventField::Producer,
            ],
        }),
        ..Inserts::NONE
    },
};

const PG_TIME: &str = "timestamp(6) with time zone";
const MYSQL_STATUS: &str = "enum('pending','sent','failed')";

const COLUMNS: &[Column] = &[
    column("id", "bigint", "bigint").defaulted(),
    column("event_key", "character(36)", "char(36)"),
    column("entity_table", "character varying(64)", "varchar(64)"),
    column("entity_pk", "character varying(64)", "varchar(64)"),
    column("event_type", "character varying(100)", "varchar(100)"),
    column("payload", "jsonb", "json"),
    column("status", "text", MYSQL_STATUS).defaulted(),
    column("attempts", "integer", "int").defaulted(),
    column("next_attempt_at", PG_TIME, "datetime(6)").nullable(),
    column("processed_at", PG_TIME, "datetime(6)").nullable(),
    column("producer_node", "character varying(100)", "varchar(100)").nullable(),
    column("created_at", PG_TIME, "datetime(6)").defaulted(),
];

const fn column(name: &'static str, postgres: &'static str, mysql: &'static str) -> Column {
    Column::new(name, postgres, mysql, "")
}

const POSTGRES_INDEXES: &[Index] = &[
    Index::new("{name}_pkey", "btree (id)"),
    UNIQUE_KEY,
    CREATED_AT,
    ENTITY_TIME,
    STATUS_SCHED,
    Index::new("gin_{name}_payload", "gin (payload jsonb_path_ops)"),
];

/// Without an index over the payload.
const MYSQL_INDEXES: &[Index] =
    &[Index::new("PRIMARY", "btree (id)"), UNIQUE_KEY, CREATED_AT, ENTITY_TIME, STATUS_SCHED];

const UNIQUE_KEY: Index = Index::new("uq_{name}_key", "btree (event_key)");
const CREATED_AT: Index = Index::new("idx_{name}_created_at", "btree (created_at)");
const ENTITY_TIME: Index =
    Index::new("idx_{name}_entity_time", "btree (entity_table, entity_pk, created_at)");
const STATUS_SCHED: Index = Index::new("idx_{name}_status_sched", "btree (status, next_attempt_at)");
