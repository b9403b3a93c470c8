//! `outbox` and `processed_events`: pending, published, failed, with a topic and a limit of retries per row.

use super::shape::{Column, Index, Shape};
use super::spec::{Ability, EventField, Inserts, LayoutSpec, Tables, insert_postgres};

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "outbox",
    default_table: None,
    tables: Tables { postgres: POSTGRES, ..Tables::NONE },
    states: &["pending", "published", "failed"],
    attempts: "retry_count",
    columns: &[
        (EventField::Id, None),
        (EventField::AggregateType, Some(100)),
        (EventField::AggregateId, None),
        (EventField::EventType, Some(100)),
        (EventField::Topic, Some(100)),
        (EventField::Key, Some(100)),
        (EventField::Payload, None),
        (EventField::Headers, None),
        (EventField::MaxAttempts, None),
    ],
    abilities: &[Ability::Inbox, Ability::Expiry, Ability::DeliveryTime, Ability::RowLimit, Ability::Uuids],
    inserts: Inserts {
        postgres: Some(insert_postgres!(
            "id, aggregate_type, aggregate_id, event_type, topic, partition_key, payload, headers, max_retries",
            "e.id::uuid, e.aggregate_type, e.aggregate_id::uuid, e.type, e.topic, e.key, e.payload::jsonb,
             coalesce(e.headers, '{}')::jsonb, coalesce(e.max_attempts, '5')::smallint"
        )),
        ..Inserts::NONE
    },
};

const TIME: &str = "timestamp with time zone";
const NAME: &str = "character varying(100)";

const fn column(name: &'static str, sql_type: &'static str) -> Column {
    Column::new(name, sql_type, "", "")
}

const POSTGRES: &[Shape] = &[
    Shape {
        table: "{name}",
        columns: &[
            column("id", "uuid").defaulted(),
            column("aggregate_type", NAME),
            column("aggregate_id", "uuid"),
            column("event_type", NAME),
            column("topic", NAME),
            column("partition_key", NAME).nullable(),
            column("payload", "jsonb"),
            column("headers", "jsonb").nullable().defaulted(),
            column("status", "character varying(20)").defaulted(),
            column("retry_count", "smallint").defaulted(),
            column("max_retries", "smallint").defaulted(),
            column("published_at", TIME).nullable(),
            column("expires_at", TIME).defaulted(),
            column("created_at", TIME).defaulted(),
        ],
        indexes: &[
            Index::new("{name}_pkey", "btree (id)"),
            Index::new(
                "idx_{name}_status_created",
                "btree (status, created_at) WHERE ((status)::text = 'pending'::text)",
            ),
            Index::new("idx_{name}_aggregate", "btree (aggregate_type, aggregate_id)"),
            Index::new("idx_{name}_expires", "btree (expires_at) WHERE ((status)::text = 'published'::text)"),
        ],
    },
    Shape {
        table: "processed_events",
        columns: &[
            column("event_id", "uuid"),
            column("consumer_group", NAME),
            column("processed_at", TIME).defaulted(),
            column("expires_at", TIME).defaulted(),
        ],
        indexes: &[
            Index::new("processed_events_pkey", "btree (event_id)"),
            Index::new("idx_processed_events_consumer", "btree (consumer_group)"),
            Index::new("idx_processed_events_expires", "btree (expires_at)"),
        ],
    },
];
