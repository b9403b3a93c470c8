//! Tables of other outbox libraries, with a column map. Each definition was written after that of the library.

use std::time::Duration;

use postrider::layout::{ColumnMap, MappedField, RowLayout, RowTable};
use postrider::store::postgres::PostgresRowStore;
use postrider::store::{Purge, RowExtras};
use postrider::{Code, Ident, Result};
use postrider_testkit::eventually;

use crate::arrivals::{Arrivals, strings};
use crate::mapped::{cap, columns, states, watermill};
use crate::postgres::row_state::case::Case;
use crate::relay_cases::relay_to;

async fn case(ddl: &str, table: &str, map: ColumnMap) -> Result<Case> {
    let mut case = Case::without_tables(RowLayout::Custom).await?;
    case.run(ddl).await?;
    case.table =
        RowTable::custom(Ident::new(table)?, map)?.in_schema(Ident::new(&case.schema)?).max_attempts(2);
    Ok(case)
}

/// The events that arrive until no row is left to deliver.
async fn arrivals(case: &Case, left: &str) -> Result<Vec<[String; 4]>> {
    PostgresRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
    let arrivals = Arrivals::default();
    let relay = relay_to(case.store().await?, arrivals.clone()).await?;
    eventually("every row is settled", async || Ok(case.one::<i64>(left).await? == 0)).await?;
    relay.shutdown().await?;
    Ok(arrivals.sorted())
}

const WATERMILL: &str = "
    CREATE TABLE watermill_orders (\"offset\" bigserial PRIMARY KEY, \"uuid\" varchar(36) NOT NULL,
        created_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, payload json, metadata json,
        acked boolean NOT NULL DEFAULT false);
    INSERT INTO watermill_orders (\"uuid\", payload, metadata) VALUES
        ('0190a3c4-0000-7000-8000-000000000001', '{\"n\":1}', '{\"name\": \"order.placed\", \"partition\": \"7\"}'),
        ('0190a3c4-0000-7000-8000-000000000002', '{\"n\":2}', '{\"name\": \"order.paid\"}')";

const NOTED: &str =
    "SELECT (SELECT count(*) FROM watermill_orders) - (SELECT count(*) FROM {ledger}.row_done)";

#[tokio::test]
async fn a_watermill_table_takes_the_type_from_a_header_or_a_constant() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let by_header = case(WATERMILL, "watermill_orders", watermill()?.typed_by_header("name")?).await?;
    let arrived = arrivals(&by_header, NOTED).await?;
    assert_eq!(
        arrived,
        strings(&[["order.paid", "", "", "{\"n\":2}"], ["order.placed", "", "", "{\"n\":1}"]])
    );
    let constant = case(WATERMILL, "watermill_orders", watermill()?.typed("orders")?).await?;
    let arrived = arrivals(&constant, NOTED).await?;
    assert_eq!(arrived, strings(&[["orders", "", "", "{\"n\":1}"], ["orders", "", "", "{\"n\":2}"]]));
    Ok(())
}

#[tokio::test]
async fn a_row_without_its_type_header_is_parked_and_the_others_arrive() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = case(WATERMILL, "watermill_orders", watermill()?.typed_by_header("name")?).await?;
    case.run("INSERT INTO watermill_orders (\"uuid\", payload, metadata) VALUES ('x', '{}', '{}'), ('y', '{}', NULL)")
        .await?;
    let left = "SELECT count(*) - 2 FROM watermill_orders AS t
                WHERE NOT EXISTS (SELECT FROM {ledger}.row_done AS d WHERE d.row_id = t.\"offset\"::text)";
    assert_eq!(arrivals(&case, left).await?.len(), 2);
    let dead = "SELECT count(*) FROM {ledger}.row_notes WHERE state = 'dead'";
    eventually("both are parked", async || Ok(case.one::<i64>(dead).await? == 2)).await
}

#[tokio::test]
async fn a_type_header_is_read_only_from_json() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let ddl = WATERMILL.replace("metadata json", "metadata text");
    let case = case(&ddl, "watermill_orders", watermill()?.typed_by_header("name")?).await?;
    let refused =
        PostgresRowStore::migrate(&case.config, &case.table, RowExtras::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::LayoutDiffers);
    assert!(refused.message().contains("it must be json or jsonb"), "{refused}");
    Ok(())
}

/// The states are numbers: 1 failed, 2 scheduled, 3 succeeded. The destination is the topic and the type.
#[tokio::test]
async fn a_django_outbox_pattern_table_takes_the_type_from_the_topic() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let ddl = "
        CREATE TABLE django_outbox_pattern_published (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
            version varchar(100), destination varchar(255) NOT NULL, body jsonb NOT NULL, headers jsonb,
            added timestamptz NOT NULL DEFAULT now(), expires_at timestamptz NOT NULL DEFAULT now() + interval '1 day',
            retry smallint NOT NULL DEFAULT 0 CHECK (retry >= 0), status smallint NOT NULL DEFAULT 2);
        INSERT INTO django_outbox_pattern_published (destination, body)
        VALUES ('/queue/orders', '{\"n\": 1}'), ('bad', '{}')";
    let map = columns(&[
        (MappedField::Id, "id"),
        (MappedField::Type, "destination"),
        (MappedField::Topic, "destination"),
        (MappedField::Payload, "body"),
        (MappedField::Headers, "headers"),
        (MappedField::CreatedAt, "added"),
        (MappedField::Attempts, "retry"),
        (MappedField::Status, "status"),
    ])?;
    let case =
        case(ddl, "django_outbox_pattern_published", map.states(states(["2"], "3", Some("1"))?)).await?;
    let left = "SELECT count(*) FROM django_outbox_pattern_published WHERE status = 2";
    let arrived = arrivals(&case, left).await?;
    assert_eq!(arrived, strings(&[["/queue/orders", "", "/queue/orders", "{\"n\": 1}"]]));
    assert_eq!(
        case.one::<i16>("SELECT retry FROM django_outbox_pattern_published WHERE status = 1").await?,
        2
    );
    Ok(())
}

/// `abandoned_at` is set if a row was given up.
#[tokio::test]
async fn a_pg_transactional_outbox_table_records_when_a_row_was_given_up() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let ddl = "
        CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text NOT NULL,
            aggregate_id text NOT NULL, message_type text NOT NULL, segment text, concurrency text NOT NULL
            DEFAULT 'sequential', payload jsonb NOT NULL, metadata jsonb, locked_until timestamptz NOT NULL
            DEFAULT to_timestamp(0), created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            processed_at timestamptz, abandoned_at timestamptz, started_attempts smallint NOT NULL DEFAULT 0,
            finished_attempts smallint NOT NULL DEFAULT 0);
        INSERT INTO outbox (aggregate_type, aggregate_id, message_type, payload)
        VALUES ('order', '1', 'placed', '{\"n\": 1}'), ('order', '2', 'bad', '{}')";
    let map = columns(&[
        (MappedField::Id, "id"),
        (MappedField::Type, "message_type"),
        (MappedField::AggregateType, "aggregate_type"),
        (MappedField::AggregateId, "aggregate_id"),
        (MappedField::Payload, "payload"),
        (MappedField::Headers, "metadata"),
        (MappedField::CreatedAt, "created_at"),
        (MappedField::DeliveredAt, "processed_at"),
        (MappedField::GivenUpAt, "abandoned_at"),
        (MappedField::Attempts, "finished_attempts"),
    ])?;
    let case = case(ddl, "outbox", map).await?;
    let left = "SELECT count(*) FROM outbox WHERE processed_at IS NULL AND abandoned_at IS NULL";
    let arrived = arrivals(&case, left).await?;
    assert_eq!(arrived.len(), 1);
    assert_eq!((arrived[0][0].as_str(), arrived[0][3].as_str()), ("placed", "{\"n\": 1}"));
    let given_up = "SELECT count(*) FROM outbox
                    WHERE abandoned_at IS NOT NULL AND processed_at IS NULL AND finished_attempts = 2";
    assert_eq!(case.one::<i64>(given_up).await?, 1);
    // An operator resets the row: it is due again, and not before.
    case.run("UPDATE outbox SET abandoned_at = NULL, message_type = 'placed' WHERE abandoned_at IS NOT NULL")
        .await?;
    assert_eq!(arrivals(&case, left).await?.len(), 1);
    Ok(())
}

/// A row waits as `Scheduled` or as `Delayed`, and keeps this state until it is settled.
#[tokio::test]
async fn a_cap_table_has_several_pending_states() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let ddl = "
        CREATE TABLE \"published\" (\"Id\" bigint PRIMARY KEY, \"Version\" varchar(20) NOT NULL DEFAULT 'v1',
            \"Name\" varchar(200) NOT NULL, \"Content\" text, \"Retries\" int NOT NULL DEFAULT 0,
            \"Added\" timestamp NOT NULL DEFAULT (clock_timestamp() AT TIME ZONE 'UTC'), \"ExpiresAt\" timestamp,
            \"StatusName\" varchar(50) NOT NULL);
        INSERT INTO \"published\" (\"Id\", \"Name\", \"Content\", \"StatusName\") VALUES
            (1, 'placed', '{\"Value\":1}', 'Scheduled'), (2, 'paid', '{\"Value\":2}', 'Delayed'),
            (3, 'queued', '{}', 'Queued'), (4, 'bad', '{}', 'Delayed')";
    let case = case(ddl, "published", cap(Some("Failed"), &[])?).await?;
    let left = "SELECT count(*) FROM \"published\" WHERE \"StatusName\" IN ('Scheduled', 'Delayed')";
    let arrived = arrivals(&case, left).await?;
    assert_eq!(arrived, strings(&[["paid", "", "", "{\"Value\":2}"], ["placed", "", "", "{\"Value\":1}"]]));
    let words: Vec<String> =
        case.all("SELECT \"StatusName\"::text FROM \"published\" ORDER BY \"Id\"").await?;
    assert_eq!(words, ["Succeeded", "Succeeded", "Queued", "Failed"]);
    Ok(())
}

#[tokio::test]
async fn a_payload_of_bytes_arrives_byte_for_byte() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let ddl = "
        CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, type text NOT NULL, payload bytea,
            sent_at timestamptz);
        INSERT INTO outbox (type, payload) VALUES ('text', '{\"n\": 1}'), ('bytes', '\\x00ff80'), ('none', NULL),
            ('large', decode(repeat('61', 300000), 'hex'))";
    let map = columns(&[
        (MappedField::Id, "id"),
        (MappedField::Type, "type"),
        (MappedField::Payload, "payload"),
        (MappedField::Order, "id"),
        (MappedField::DeliveredAt, "sent_at"),
    ])?;
    let case = case(ddl, "outbox", map).await?;
    let arrived = arrivals(&case, "SELECT count(*) FROM outbox WHERE sent_at IS NULL").await?;
    let bytes = String::from_utf8_lossy(&[0, 0xff, 0x80]).into_owned();
    let large = "a".repeat(300_000);
    assert_eq!(
        arrived,
        strings(&[
            ["bytes", "", "", &bytes],
            ["large", "", "", &large],
            ["none", "", "", ""],
            ["text", "", "", "{\"n\": 1}"],
        ])
    );
    let filter = postrider::store::EventFilter::default().events_max(10);
    assert_eq!(PostgresRowStore::list(&case.config, &case.table, &filter).await?.len(), 4);
    Ok(())
}

/// watermill's table on PostgreSQL: the transaction, and a number within it.
#[tokio::test]
async fn a_key_of_two_columns_identifies_rows() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let ddl = "
        CREATE TABLE watermill_orders (\"offset\" bigserial, \"uuid\" varchar(36) NOT NULL,
            created_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, payload json, metadata json,
            transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id(), PRIMARY KEY (transaction_id, \"offset\"));
        INSERT INTO watermill_orders (\"offset\", \"uuid\", payload, metadata, transaction_id)
        SELECT n % 3, gen_random_uuid()::text, to_json(n), CASE WHEN n = 4 THEN '{\"name\": \"bad\"}' ELSE '{\"name\": \"order\"}' END::json,
               (n / 3)::text::xid8
        FROM generate_series(0, 8) AS n;
        INSERT INTO watermill_orders (\"uuid\", payload, metadata)
        VALUES ('x', to_json(repeat('a', 300000)), '{\"name\": \"order\"}')";
    let columns = watermill()?
        .with(MappedField::Id, "transaction_id")?
        .with(MappedField::SecondId, "offset")?
        .typed_by_header("name")?;
    let case = case(ddl, "watermill_orders", columns).await?;
    let left =
        "SELECT (SELECT count(*) FROM watermill_orders) - 1 - (SELECT count(*) FROM {ledger}.row_done)";
    let arrived = arrivals(&case, left).await?;
    let numbers: Vec<&str> = arrived.iter().map(|[.., payload]| payload.as_str()).collect();
    let large = format!("\"{}\"", "a".repeat(300_000));
    assert_eq!(numbers, [large.as_str(), "0", "1", "2", "3", "5", "6", "7", "8"], "each once");
    let dead = "SELECT row_id FROM {ledger}.row_notes WHERE state = 'dead'";
    eventually("one is given up", async || Ok(case.all::<String>(dead).await? == ["[\"1\", \"1\"]"])).await?;
    // Nothing is sent again, and old delivered rows are deleted.
    assert_eq!(arrivals(&case, left).await?.len(), 0);
    let store = case.store().await?;
    case.run("UPDATE {ledger}.row_done SET done_at = done_at - interval '2 days'").await?;
    let trim = Purge::new(Duration::from_secs(3_600), 100);
    store.purge(trim).await?;
    assert_eq!(case.one::<i64>("SELECT count(*) FROM watermill_orders").await?, 1);
    Ok(())
}

#[tokio::test]
async fn two_columns_that_are_not_a_unique_key_are_refused() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let columns = watermill()?.with(MappedField::SecondId, "created_at_number")?.typed("orders")?;
    let ddl = WATERMILL.replace("payload json,", "created_at_number bigint, payload json,");
    let case = case(&ddl, "watermill_orders", columns).await?;
    let refused =
        PostgresRowStore::migrate(&case.config, &case.table, RowExtras::default()).await.unwrap_err();
    assert!(refused.message().contains("are not a unique key together"), "{refused}");
    Ok(())
}
