//! `event_outbox`: pending, sent, failed, with the time of the next try.

use super::shape::{Column, Index, Shape};
use super::spec::{Ability, EventField, Inserts, LayoutSpec, RowInsert, Tables, insert_postgres};

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "event_outbox",
    tables: Tables { postgres: POSTGRES, mysql: MYSQL, mariadb: MARIADB, sqlite: &[] },
    states: &["pending", "sent", "failed"],
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
        // The creation is UTC, whatever the zone of the session.
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
        sqlite: None,
    },
};

const TIME: &str = "timestamp(6) with time zone";

const POSTGRES: &[Shape] = &[Shape {
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

const MYSQL: &[Shape] = on_mysql!("json");
const MARIADB: &[Shape] = on_mysql!("longtext");
