//! `outbox` and `processed_events`: pending, published, failed, with topic and a limit of retries per row.

use super::shape::{Column, Index, Shape};
use super::spec::{Ability, EventField, Inserts, LayoutSpec, Tables, insert_postgres};

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "outbox",
    tables: Tables { postgres: POSTGRES, ..Tables::NONE },
    states: &["pending", "published", "failed"],
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

const POSTGRES: &[Shape] = &[
    Shape {
        table: "{name}",
        columns: &[
            Column::new("id", "uuid").defaulted(),
            Column::new("aggregate_type", NAME),
            Column::new("aggregate_id", "uuid"),
            Column::new("event_type", NAME),
            Column::new("topic", NAME),
            Column::new("partition_key", NAME).nullable(),
            Column::new("payload", "jsonb"),
            Column::new("headers", "jsonb").nullable().defaulted(),
            Column::new("status", "character varying(20)").defaulted(),
            Column::new("retry_count", "smallint").defaulted(),
            Column::new("max_retries", "smallint").defaulted(),
            Column::new("published_at", TIME).nullable(),
            Column::new("expires_at", TIME).defaulted(),
            Column::new("created_at", TIME).defaulted(),
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
            Column::new("event_id", "uuid"),
            Column::new("consumer_group", NAME),
            Column::new("processed_at", TIME).defaulted(),
            Column::new("expires_at", TIME).defaulted(),
        ],
        indexes: &[
            Index::new("processed_events_pkey", "btree (event_id)"),
            Index::new("idx_processed_events_consumer", "btree (consumer_group)"),
            Index::new("idx_processed_events_expires", "btree (expires_at)"),
        ],
    },
];
