//! `eventlog`: an append-only log of events with the action that caused them, and one notification per event and
//! handler. The state of a delivery is in the notifications, which are optional; see adr/0066-eventlog.md.

use super::shape::{Column, Index, Shape};
use super::spec::{Ability, EventField, Inserts, LayoutSpec, RowInsert, Tables};

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "eventlog",
    default_table: Some(("eventlog", "events")),
    tables: Tables {
        postgres: &[
            Shape {
                table: "{name}",
                columns: EVENTS,
                indexes: &[
                    Index::new("{name}_pkey", "btree (id)"),
                    Index::new("idx_{name}_action_id", "btree (action_id)"),
                    Index::new("{name}_undelivered", "btree (event_type, event_date) WHERE (delivered = false)")
                        .optional(),
                ],
            },
            Shape {
                table: "event_notifications",
                columns: NOTIFICATIONS,
                indexes: &[
                    Index::new("event_notifications_pkey", "btree (id)"),
                    Index::new("event_notifications_event_id_handler_name_key", "btree (event_id, handler_name)"),
                    Index::new(
                        "event_notifications_due",
                        "btree (next_retry_at) WHERE ((state)::text = ANY ((ARRAY['PENDING'::character varying, \
                         'FAILED'::character varying])::text[]))",
                    ),
                ],
            },
        ],
        mysql: &[
            Shape {
                table: "{name}",
                columns: EVENTS,
                indexes: &[
                    Index::new("PRIMARY", "btree (id)"),
                    Index::new("idx_{name}_action_id", "btree (action_id)"),
                    Index::new("{name}_undelivered", "btree (delivered, event_type, event_date)").optional(),
                ],
            },
            Shape {
                table: "event_notifications",
                columns: NOTIFICATIONS,
                indexes: &[
                    Index::new("PRIMARY", "btree (id)"),
                    Index::new("event_id", "btree (event_id, handler_name)"),
                    Index::new("event_notifications_due", "btree (state, next_retry_at)"),
                ],
            },
        ],
        sqlite: &[],
    },
    states: &["PENDING", "SUCCEEDED", "FAILED", "EXPIRED"],
    attempts: "attempts",
    columns: &[
        (EventField::Id, None),
        (EventField::Namespace, Some(255)),
        (EventField::Action, Some(255)),
        (EventField::AggregateType, Some(255)),
        (EventField::AggregateId, Some(255)),
        (EventField::EventType, Some(255)),
        (EventField::Payload, None),
    ],
    abilities: &[Ability::Notifications],
    inserts: Inserts {
        // The time of the event is that of the INSERT: applications that lock a row per key before they write keep the
        // order of the key.
        postgres: Some(
            "INSERT INTO {table} (id, namespace, action_id, action_name, action_params, started_date, completion_date,
                                  model_id, model_type, event_type, payload, event_date, delivered)
             SELECT e.id::uuid, e.namespace, e.action_id::uuid, e.action_name, e.action_params::jsonb, e.started::timestamp,
                    e.completed::timestamp, e.aggregate_id, e.aggregate_type, e.type, e.payload::jsonb,
                    pg_catalog.clock_timestamp() AT TIME ZONE 'UTC', FALSE
             FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                         $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[],
                         $16::text[])
                  WITH ORDINALITY AS e (id, type, aggregate_type, aggregate_id, key, payload, headers, topic,
                                        max_attempts, producer, namespace, action_id, action_name, action_params,
                                        started, completed, ordinal)
             ORDER BY ordinal
             RETURNING id::text, (extract(epoch FROM event_date) OPERATOR(pg_catalog.*) 1000000)::bigint",
        ),
        mysql: Some(RowInsert {
            before: "INSERT INTO {table} (id, namespace, action_id, action_name, action_params, started_date, \
                     completion_date, model_id, model_type, event_type, payload, event_date, delivered) VALUES ",
            row: "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6), FALSE)",
            fields: &[
                EventField::Id,
                EventField::Namespace,
                EventField::ActionId,
                EventField::Action,
                EventField::ActionParams,
                EventField::ActionStarted,
                EventField::ActionCompleted,
                EventField::AggregateId,
                EventField::AggregateType,
                EventField::EventType,
                EventField::Payload,
            ],
        }),
        sqlite: None,
    },
};

const PG_TIME: &str = "timestamp without time zone";
const PG_TEXT: &str = "character varying(255)";
const UUID: [&str; 2] = ["uuid", "char(36)"];

const fn uuid(name: &'static str) -> Column {
    Column::new(name, UUID[0], UUID[1], "").on_mariadb("uuid")
}

const fn text(name: &'static str) -> Column {
    Column::new(name, PG_TEXT, "varchar(255)", "")
}

const fn json(name: &'static str) -> Column {
    Column::new(name, "jsonb", "json", "")
}

const fn time(name: &'static str) -> Column {
    Column::new(name, PG_TIME, "datetime(6)", "")
}

const EVENTS: &[Column] = &[
    uuid("id"),
    text("namespace"),
    uuid("action_id"),
    text("action_name"),
    json("action_params"),
    time("started_date"),
    time("completion_date"),
    text("model_id").nullable(),
    text("model_type").nullable(),
    text("event_type").nullable(),
    json("payload").nullable(),
    time("event_date"),
    Column::new("delivered", "boolean", "tinyint", ""),
];

const NOTIFICATIONS: &[Column] = &[
    uuid("id"),
    uuid("event_id"),
    text("handler_name"),
    text("namespace"),
    uuid("action_id"),
    text("action_name"),
    json("action_params"),
    time("started_date"),
    time("completion_date"),
    text("model_id").nullable(),
    text("model_type").nullable(),
    text("event_type"),
    json("payload").nullable(),
    time("event_date"),
    Column::new("state", "character varying(24)", "varchar(24)", ""),
    Column::new("attempts", "integer", "int", "").defaulted(),
    time("next_retry_at"),
    time("created_date"),
    time("updated_date"),
];
