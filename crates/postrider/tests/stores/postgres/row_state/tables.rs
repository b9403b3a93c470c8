//! Creating tables, and tables that already exist.

use postrider::layout::{RowLayout, RowTable};
use postrider::store::RowExtras;
use postrider::store::postgres::{PostgresRowStore, PostgresStore};
use postrider::{Code, Ident, Result};

use super::case::Case;
use crate::test_layouts::STATE_PER_ROW;

fn with_index() -> RowExtras {
    RowExtras::default().aggregate_index(true)
}

#[tokio::test]
async fn migrating_twice_changes_nothing_and_reports_what_was_created() -> Result<()> {
    for layout in STATE_PER_ROW {
        if !Case::is_available() {
            return Ok(());
        }
        let case = Case::without_tables(layout).await?;
        let first = PostgresRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
        assert_eq!(first.created[0], layout.name());
        assert_eq!((first.ledger.from, first.ledger.to), (0, 6));
        let again = PostgresRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
        assert_eq!((again.created.len(), again.differences.len(), again.ledger.from), (0, 0, 6));
        assert_eq!(PostgresRowStore::schema(&case.config).await?.found, 6);
    }
    Ok(())
}

#[tokio::test]
async fn tables_of_an_earlier_version_are_refused_until_they_are_migrated() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::new(RowLayout::EventOutbox).await?;
    case.run(
        "DROP TABLE {ledger}.row_refused; DROP TABLE {ledger}.inbox CASCADE; DROP TABLE {ledger}.actions;
         DROP TABLE {ledger}.audit; ALTER TABLE {ledger}.subscriptions DROP COLUMN changes;
         ALTER TABLE {ledger}.relays DROP COLUMN facts;
         DELETE FROM {ledger}.row_migrations WHERE version >= 2",
    )
    .await?;
    assert_eq!(case.store().await.map(|_| ()).unwrap_err().code(), Code::SchemaMissing);
    let migrated = PostgresRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
    assert_eq!((migrated.ledger.from, migrated.ledger.to), (1, 6));
    case.store().await.map(|_| ())
}

#[tokio::test]
async fn the_printed_sql_creates_the_same_tables() -> Result<()> {
    for layout in STATE_PER_ROW {
        if !Case::is_available() {
            return Ok(());
        }
        let case = Case::without_tables(layout).await?;
        case.run("CREATE SCHEMA {ledger}").await?;
        for step in
            PostgresRowStore::migrations(&Ident::new(&case.ledger)?, &case.table, RowExtras::default())
        {
            case.run(&step.sql).await?;
        }
        case.store().await?;
        assert_eq!(
            PostgresRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?.created.len(),
            0
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_table_under_another_name_has_its_own_indexes() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::new(RowLayout::OutboxEvents).await?;
    let table = case.table.clone().named(Ident::new("shop_events")?);
    let refused = PostgresRowStore::migrate(&case.config, &table, RowExtras::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::LayoutDiffers, "the ledger is about the first table");
    let config = case.config.clone().schema(Ident::new(&format!("{}_2", case.ledger))?);
    assert_eq!(
        PostgresRowStore::migrate(&config, &table, RowExtras::default()).await?.created,
        ["shop_events"]
    );
    let index = "SELECT count(*) FROM pg_indexes WHERE indexname = 'idx_shop_events_status_created_at' AND schemaname = '{schema}'";
    assert_eq!(case.one::<i64>(index).await?, 1);
    PostgresRowStore::connect(&config, &table).await?;
    Ok(())
}

#[tokio::test]
async fn an_incompatible_table_is_refused_and_never_altered() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::without_tables(RowLayout::OutboxEvents).await?;
    case.run(
        "CREATE TABLE outbox_events (id bigserial PRIMARY KEY, aggregate_type text NOT NULL, payload bytea)",
    )
    .await?;
    let refused =
        PostgresRowStore::migrate(&case.config, &case.table, RowExtras::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::LayoutDiffers);
    let text = refused.report();
    for part in ["has no column \"attempt_count\"", "outbox_events.payload is bytea, not jsonb"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let columns = "SELECT count(*) FROM information_schema.columns WHERE table_schema = '{schema}'";
    assert_eq!(case.one::<i64>(columns).await?, 3);
    assert!(
        !case.one::<bool>("SELECT to_regclass('{ledger}.row_table') IS NOT NULL").await?,
        "all or nothing"
    );
    Ok(())
}

#[tokio::test]
async fn a_slightly_different_table_is_used_and_the_differences_are_reported() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::new(RowLayout::OutboxEvents).await?;
    case.run("ALTER TABLE outbox_events ALTER payload TYPE text, ADD max_attempts int").await?;
    case.run("DROP INDEX idx_outbox_events_status_created_at").await?;
    let migrated = PostgresRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
    let reported: Vec<&str> =
        migrated.differences.iter().map(|difference| difference.what.as_str()).collect();
    let expected = [
        "column outbox_events.payload is text, not jsonb",
        "index \"idx_outbox_events_status_created_at\" is missing: btree (status, created_at)",
    ];
    assert_eq!(reported, expected);
    assert_eq!(PostgresRowStore::differences(&case.config, &case.table).await?, migrated.differences);
    case.store().await?;
    Ok(())
}

#[tokio::test]
async fn the_default_layout_and_a_table_of_rows_never_share_a_schema() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::without_tables(RowLayout::Outbox).await?;
    PostgresStore::migrate(&case.config).await?;
    let refused =
        PostgresRowStore::migrate(&case.config, &case.table, RowExtras::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::LayoutDiffers);
    assert!(refused.report().contains("another `schema`"), "{refused}");
    let missing = PostgresRowStore::connect(&case.config, &case.table).await.unwrap_err();
    assert_eq!(missing.code(), Code::SchemaMissing);
    assert!(missing.report().contains("--layout outbox"), "{missing}");
    Ok(())
}

#[tokio::test]
async fn an_optional_index_belongs_to_its_own_layout() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::without_tables(RowLayout::EventOutbox).await?;
    assert!(PostgresRowStore::migrate(&case.config, &case.table, with_index()).await.is_err());
    let long = RowTable::new(RowLayout::EventOutbox).named(Ident::new(&"x".repeat(60))?);
    let refused = PostgresRowStore::migrate(&case.config, &long, RowExtras::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::NameInvalid, "no room for the names of its indexes");
    Ok(())
}

#[tokio::test]
async fn the_six_views_of_event_outbox_return_the_documented_figures() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::new(RowLayout::EventOutbox).await?;
    case.run(
        "INSERT INTO event_outbox (event_key, entity_table, entity_pk, event_type, payload, status, attempts,
                                   next_attempt_at, processed_at, producer_node, created_at)
         VALUES ('a', 'o', '1', 'placed', '{}', 'pending', 0, NULL, NULL, 'n1', now() - interval '100 s'),
                ('b', 'o', '2', 'placed', '{}', 'failed', 2, now() - interval '10 s', NULL, NULL, now() - interval '300 s'),
                ('c', 'o', '3', 'placed', '{}', 'failed', 3, '9999-12-31', NULL, 'n1', now() - interval '200 s'),
                ('d', 'o', '4', 'placed', '{}', 'sent', 0, NULL, now() - interval '990 s', 'n1', now() - interval '1000 s'),
                ('e', 'o', '5', 'paid', '{}', 'sent', 1, NULL, now() - interval '970 s', 'n1', now() - interval '1000 s')",
    )
    .await?;
    let answers = [
        (
            "SELECT string_agg(trim(event_key) || is_pending || is_due, ' ' ORDER BY id) FROM vw_event_outbox",
            "atruetrue bfalsefalse cfalsefalse dfalsefalse efalsefalse",
        ),
        (
            "SELECT string_agg(concat_ws(' ', trim(event_key), age_sec, since_next_sec), ', ' ORDER BY id) FROM vw_event_outbox_due",
            "a 100 100, b 300 10",
        ),
        (
            "SELECT string_agg(concat_ws(' ', event_type, processed, avg_latency_sec, p50_latency_sec, p95_latency_sec, max_latency_sec), ', ' ORDER BY event_type) FROM vw_event_outbox_latency",
            "paid 1 30 30 30 30, placed 1 10 10 10 10",
        ),
        (
            "SELECT concat_ws(' ', total, pending, sent, failed, round(avg_created_lag_sec), round(p50_created_lag_sec), round(p95_created_lag_sec), avg_attempts::float, max_attempts, due_now) FROM vw_event_outbox_metrics WHERE event_type = 'placed'",
            "4 1 1 2 200 200 290 1.25 3 2",
        ),
        ("SELECT concat_ws(' ', sum(outbox_cnt), sum(inbox_cnt)) FROM vw_event_throughput_hourly", "5 0"),
        (
            "SELECT string_agg(concat_ws(' ', producer_node, event_type, pending, failed, total), ', ') FROM vw_sync_backlog_by_node",
            "n1 placed 1 1 3, (unknown) placed 0 1 1, n1 paid 0 0 1",
        ),
    ];
    for (question, answer) in answers {
        assert_eq!(case.one::<String>(question).await?, answer, "{question}");
    }
    // An existing table gets them on request.
    case.run("DROP VIEW vw_event_outbox, vw_event_outbox_due, vw_event_outbox_latency, vw_event_outbox_metrics, vw_event_throughput_hourly, vw_sync_backlog_by_node").await?;
    let views = "SELECT count(*) FROM pg_views WHERE schemaname = '{schema}'";
    PostgresRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
    assert_eq!(case.one::<i64>(views).await?, 0);
    let asked = RowExtras::default().views(true);
    PostgresRowStore::migrate(&case.config, &case.table, asked).await?;
    PostgresRowStore::migrate(&case.config, &case.table, asked).await?;
    assert_eq!(case.one::<i64>(views).await?, 6);
    Ok(())
}

#[tokio::test]
async fn the_hours_of_event_outbox_count_its_inbox_if_there_is_one() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::without_tables(RowLayout::EventOutbox).await?;
    case.run(
        "CREATE TABLE event_inbox (id bigint PRIMARY KEY, received_at timestamptz(6) NOT NULL);
         INSERT INTO event_inbox VALUES (1, '2026-01-01 10:59:59Z'), (2, '2026-01-01 12:00:00Z'), (3, '2026-01-01 12:30:00Z')",
    )
    .await?;
    PostgresRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
    case.run(
        "INSERT INTO event_outbox (event_key, entity_table, entity_pk, event_type, payload, created_at)
         VALUES ('a', 'o', '1', 'placed', '{}', '2026-01-01 10:00:00Z'), ('b', 'o', '1', 'placed', '{}', '2026-01-01 10:10:00Z'),
                ('c', 'o', '1', 'placed', '{}', '2026-01-01 11:00:00Z')",
    )
    .await?;
    let hours = "SELECT string_agg(concat_ws(' ', extract(hour FROM hour_ts AT TIME ZONE 'UTC')::int, outbox_cnt, inbox_cnt), ', '
                                   ORDER BY hour_ts)
                 FROM vw_event_throughput_hourly";
    // Hours begin at full hours of UTC, in every time zone of the session.
    for zone in ["UTC", "Asia/Kolkata"] {
        case.run(&format!("SET TimeZone = '{zone}'")).await?;
        assert_eq!(case.one::<String>(hours).await?, "10 2 1, 11 1 0, 12 0 2", "{zone}");
    }
    // So are the rows of Postrider's own inbox.
    case.run(
        "INSERT INTO {ledger}.inbox (consumer_group, event_id, processed_at)
         VALUES ('a', gen_random_uuid(), '2026-01-01 11:59:59Z'), ('b', gen_random_uuid(), '2026-01-01 11:00:00Z')",
    )
    .await?;
    assert_eq!(case.one::<String>(hours).await?, "10 2 1, 11 1 2, 12 0 2");
    // A table of that name without a time of receipt is not an inbox.
    case.run(
        "DROP VIEW vw_event_throughput_hourly; DROP TABLE event_inbox; CREATE TABLE event_inbox (id bigint)",
    )
    .await?;
    let asked = RowExtras::default().views(true);
    PostgresRowStore::migrate(&case.config, &case.table, asked).await?;
    assert_eq!(case.one::<String>(hours).await?, "10 2 0, 11 1 2");
    Ok(())
}

#[tokio::test]
async fn views_of_other_owners_are_kept_and_reported_and_missing_views_are_created() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::without_tables(RowLayout::EventOutbox).await?;
    case.run("CREATE VIEW vw_event_outbox AS SELECT 'theirs'::text AS whose").await?;
    let reported = |differences: &[postrider::layout::Difference]| {
        let reported: Vec<String> = differences.iter().map(|difference| difference.what.clone()).collect();
        reported.join("; ")
    };
    let made = PostgresRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
    assert!(reported(&made.differences).contains("\"vw_event_outbox\" already exists"), "{made:?}");
    assert_eq!(case.one::<String>("SELECT whose FROM vw_event_outbox").await?, "theirs");
    let views = "SELECT count(*) FROM pg_views WHERE schemaname = '{schema}'";
    assert_eq!(case.one::<i64>(views).await?, 6, "the five others were made");
    let asked = RowExtras::default().views(true);
    let again = PostgresRowStore::migrate(&case.config, &case.table, asked).await?;
    assert_eq!(again.differences.len(), 1, "Postrider's own views are not reported: {again:?}");

    // A second table in the schema cannot have views of the same names, which is reported.
    let second = case.table.clone().named(Ident::new("other_outbox")?);
    let config = case.config.clone().schema(Ident::new(&format!("{}_2", case.ledger))?);
    let made = PostgresRowStore::migrate(&config, &second, RowExtras::default()).await?;
    assert_eq!(made.differences.len(), 6, "{made:?}");
    case.run("DROP SCHEMA {ledger}_2 CASCADE").await
}
