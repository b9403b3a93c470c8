//! Creating tables, and tables that already exist.

use postrider::layout::{RowLayout, RowTable};
use postrider::store::RowExtras;
use postrider::store::mysql::{MySqlRowStore, MySqlStore};
use postrider::{Code, Ident, Result};

use super::case::{RowCase, layouts};
use crate::mysql::log::case::{MariaDb, MySql, ServerKind};

/// A test on each of the servers.
macro_rules! on_both {
    ($test:ident) => {
        mod $test {
            use super::*;

            #[tokio::test]
            async fn on_mysql() -> Result<()> {
                if RowCase::<MySql>::is_available() { super::$test::<MySql>().await } else { Ok(()) }
            }

            #[tokio::test]
            async fn on_mariadb() -> Result<()> {
                if RowCase::<MariaDb>::is_available() { super::$test::<MariaDb>().await } else { Ok(()) }
            }
        }
    };
}

on_both!(migrating_twice_changes_nothing_and_reports_what_was_created);
async fn migrating_twice_changes_nothing_and_reports_what_was_created<W: ServerKind>() -> Result<()> {
    for layout in layouts() {
        let case = RowCase::<W>::without_tables(layout).await?;
        let first = MySqlRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
        assert_eq!(
            (first.created, first.ledger.from, first.ledger.to),
            (vec![layout.name().to_owned()], 0, 6)
        );
        let again = MySqlRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
        assert_eq!((again.created.len(), again.differences, again.ledger.from), (0, vec![], 6));
        assert_eq!(MySqlRowStore::schema(&case.config).await?.found, 6);
    }
    Ok(())
}

on_both!(tables_of_an_earlier_version_are_refused_until_they_are_migrated);
async fn tables_of_an_earlier_version_are_refused_until_they_are_migrated<W: ServerKind>() -> Result<()> {
    let case = RowCase::<W>::new(RowLayout::EventOutbox).await?;
    case.run(
        "DROP TABLE {ledger}.row_refused; DROP TABLE {ledger}.inbox CASCADE; DROP TABLE {ledger}.actions;
         DROP TABLE {ledger}.audit; ALTER TABLE {ledger}.subscriptions DROP COLUMN changes;
         ALTER TABLE {ledger}.relays DROP COLUMN facts;
         DELETE FROM {ledger}.row_migrations WHERE version >= 2",
    )
    .await?;
    assert_eq!(case.store().await.map(|_| ()).unwrap_err().code(), Code::SchemaMissing);
    let migrated = MySqlRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
    assert_eq!((migrated.ledger.from, migrated.ledger.to), (1, 6));
    case.store().await.map(|_| ())
}

on_both!(the_printed_sql_creates_the_same_tables);
async fn the_printed_sql_creates_the_same_tables<W: ServerKind>() -> Result<()> {
    for layout in layouts() {
        let case = RowCase::<W>::without_tables(layout).await?;
        let ledger = Ident::new(&case.ledger)?;
        for step in MySqlRowStore::migrations(&ledger, &case.table, RowExtras::default())? {
            case.run(&step.sql).await?;
        }
        case.store().await?;
        let again = MySqlRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
        assert_eq!((again.created.len(), again.differences), (0, vec![]));
    }
    Ok(())
}

on_both!(an_incompatible_table_is_refused_and_never_altered);
async fn an_incompatible_table_is_refused_and_never_altered<W: ServerKind>() -> Result<()> {
    let case = RowCase::<W>::without_tables(RowLayout::OutboxEvents).await?;
    case.run("CREATE TABLE outbox_events (id BIGINT PRIMARY KEY, payload BLOB) ENGINE = MyISAM").await?;
    let refused = MySqlRowStore::migrate(&case.config, &case.table, RowExtras::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::LayoutDiffers);
    let text = refused.report();
    for part in ["has no column \"attempt_count\"", "outbox_events.payload is blob", "engine MyISAM"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let made = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '{ledger}'";
    assert_eq!(case.one::<i64>(made).await?, 0, "nothing was made");
    Ok(())
}

on_both!(a_slightly_different_table_is_used_and_the_differences_are_reported);
async fn a_slightly_different_table_is_used_and_the_differences_are_reported<W: ServerKind>() -> Result<()> {
    let case = RowCase::<W>::new(RowLayout::OutboxEvents).await?;
    case.run("ALTER TABLE outbox_events MODIFY payload MEDIUMTEXT NOT NULL, ADD max_attempts INT").await?;
    case.run("DROP INDEX idx_outbox_events_status_created_at ON outbox_events").await?;
    let migrated = MySqlRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
    let reported: Vec<&str> =
        migrated.differences.iter().map(|difference| difference.what.as_str()).collect();
    assert!(reported[0].starts_with("column outbox_events.payload is mediumtext, not "), "{reported:?}");
    assert_eq!(
        reported[1..],
        ["index \"idx_outbox_events_status_created_at\" is missing: btree (status, created_at)"]
    );
    assert_eq!(MySqlRowStore::differences(&case.config, &case.table).await?, migrated.differences);
    case.store().await?;
    Ok(())
}

on_both!(outboxes_do_not_interfere_with_each_other);
async fn outboxes_do_not_interfere_with_each_other<W: ServerKind>() -> Result<()> {
    let case = RowCase::<W>::new(RowLayout::OutboxEvents).await?;
    let other = case.table.clone().named(Ident::new("shop_events")?);
    let extras = RowExtras::default();
    let refused = MySqlRowStore::migrate(&case.config, &other, extras).await.unwrap_err();
    assert_eq!(refused.code(), Code::LayoutDiffers, "the ledger is about the first table");
    let config = case.config.clone().schema(Ident::new(&format!("{}_2", case.ledger))?);
    assert_eq!(MySqlRowStore::migrate(&config, &other, extras).await?.created, ["shop_events"]);
    MySqlRowStore::connect(&config, &other).await?;
    let postrider = case.config.clone().schema(Ident::new(&format!("{}_3", case.ledger))?);
    MySqlStore::migrate(&postrider).await?;
    let refused = MySqlRowStore::migrate(&postrider, &case.table, extras).await.unwrap_err();
    assert!(refused.report().contains("another `schema`"), "{refused}");
    let missing = MySqlRowStore::connect(&postrider, &case.table).await.unwrap_err();
    assert!(missing.code() == Code::SchemaMissing && missing.report().contains("--layout outbox_events"));
    let not_here = RowTable::new(RowLayout::Outbox);
    assert_eq!(
        MySqlRowStore::migrate(&config, &not_here, extras).await.unwrap_err().code(),
        Code::LayoutDiffers
    );
    Ok(())
}

on_both!(the_six_views_of_event_outbox_return_the_documented_figures);
async fn the_six_views_of_event_outbox_return_the_documented_figures<W: ServerKind>() -> Result<()> {
    let case = RowCase::<W>::new(RowLayout::EventOutbox).await?;
    case.run(
        "INSERT INTO event_outbox (event_key, entity_table, entity_pk, event_type, payload, status, attempts,
                                   next_attempt_at, processed_at, producer_node, created_at)
         VALUES ('a', 'o', '1', 'placed', '{}', 'pending', 0, NULL, NULL, 'n1', UTC_TIMESTAMP(6) - INTERVAL 100 SECOND),
                ('b', 'o', '2', 'placed', '{}', 'failed', 2, UTC_TIMESTAMP(6) - INTERVAL 10 SECOND, NULL, NULL, UTC_TIMESTAMP(6) - INTERVAL 300 SECOND),
                ('c', 'o', '3', 'placed', '{}', 'failed', 3, '9999-12-31', NULL, 'n1', UTC_TIMESTAMP(6) - INTERVAL 200 SECOND),
                ('d', 'o', '4', 'placed', '{}', 'sent', 0, NULL, '2026-01-01 00:00:10', 'n1', '2026-01-01 00:00:00'),
                ('e', 'o', '5', 'paid', '{}', 'sent', 1, NULL, '2026-01-01 00:00:30', 'n1', '2026-01-01 00:00:00')",
    )
    .await?;
    let answers = [
        (
            "SELECT GROUP_CONCAT(CONCAT(event_key, is_pending, is_due) ORDER BY id SEPARATOR ' ') FROM vw_event_outbox",
            "a11 b00 c00 d00 e00",
        ),
        (
            "SELECT GROUP_CONCAT(CONCAT_WS(' ', event_key, age_sec, since_next_sec) ORDER BY id SEPARATOR ', ') FROM vw_event_outbox_due",
            "a 100 100, b 300 10",
        ),
        (
            "SELECT GROUP_CONCAT(CONCAT_WS(' ', event_type, processed, ROUND(avg_latency_sec), ROUND(p50_latency_sec), ROUND(p95_latency_sec), ROUND(max_latency_sec)) ORDER BY event_type SEPARATOR ', ') FROM vw_event_outbox_latency",
            "paid 1 30 30 30 30, placed 1 10 10 10 10",
        ),
        (
            "SELECT CONCAT_WS(' ', total, pending, sent, failed, ROUND(avg_created_lag_sec), ROUND(p50_created_lag_sec), ROUND(p95_created_lag_sec), ROUND(avg_attempts, 2), max_attempts, due_now) FROM vw_event_outbox_metrics WHERE event_type = 'placed'",
            "4 1 1 2 200 200 290 1.25 3 2",
        ),
        (
            "SELECT CONCAT_WS(' ', hour_ts, outbox_cnt, inbox_cnt) FROM vw_event_throughput_hourly ORDER BY hour_ts LIMIT 1",
            "2026-01-01 00:00:00 2 0",
        ),
        (
            "SELECT GROUP_CONCAT(CONCAT_WS(' ', producer_node, event_type, pending, failed, total) ORDER BY pending DESC, failed DESC SEPARATOR ', ') FROM vw_sync_backlog_by_node",
            "n1 placed 1 1 3, (unknown) placed 0 1 1, n1 paid 0 0 1",
        ),
    ];
    for (question, answer) in answers {
        assert_eq!(case.one::<String>(question).await?, answer, "{question}");
    }
    let flags = "SELECT COUNT(*) FROM information_schema.views WHERE table_schema = '{schema}' AND security_type = 'INVOKER'";
    assert_eq!(case.one::<i64>(flags).await?, 6);
    for view in ["vw_event_outbox", "vw_event_outbox_due"] {
        let merged = case.row_of(&format!("SHOW CREATE VIEW {view}")).await?;
        assert!(merged.contains("ALGORITHM=MERGE"), "{merged}");
    }
    // An existing table gets them on request.
    case.run("DROP VIEW vw_event_outbox, vw_event_outbox_due, vw_event_outbox_latency, vw_event_outbox_metrics, vw_event_throughput_hourly, vw_sync_backlog_by_node").await?;
    MySqlRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
    assert_eq!(case.one::<i64>(flags).await?, 0);
    let asked = RowExtras::default().views(true);
    MySqlRowStore::migrate(&case.config, &case.table, asked).await?;
    MySqlRowStore::migrate(&case.config, &case.table, asked).await?;
    assert_eq!(case.one::<i64>(flags).await?, 6);
    Ok(())
}

on_both!(the_hours_of_event_outbox_count_its_inbox_if_there_is_one);
async fn the_hours_of_event_outbox_count_its_inbox_if_there_is_one<W: ServerKind>() -> Result<()> {
    let case = RowCase::<W>::without_tables(RowLayout::EventOutbox).await?;
    case.run("CREATE TABLE event_inbox (id BIGINT PRIMARY KEY, received_at DATETIME(6) NOT NULL)").await?;
    case.run(
        "INSERT INTO event_inbox VALUES (1, '2026-01-01 10:59:59'), (2, '2026-01-01 12:00:00'), (3, '2026-01-01 12:30:00')",
    )
    .await?;
    MySqlRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
    case.run(
        "INSERT INTO event_outbox (event_key, entity_table, entity_pk, event_type, payload, created_at)
         VALUES ('a', 'o', '1', 'placed', '{}', '2026-01-01 10:00:00'), ('b', 'o', '1', 'placed', '{}', '2026-01-01 10:10:00'),
                ('c', 'o', '1', 'placed', '{}', '2026-01-01 11:00:00')",
    )
    .await?;
    let hours = "SELECT GROUP_CONCAT(CONCAT_WS(' ', HOUR(hour_ts), outbox_cnt, inbox_cnt) ORDER BY hour_ts SEPARATOR ', ')
                 FROM vw_event_throughput_hourly";
    assert_eq!(case.one::<String>(hours).await?, "10 2 1, 11 1 0, 12 0 2");
    // So are the rows of Postrider's own inbox.
    case.run(
        "INSERT INTO {ledger}.inbox (consumer_group, event_id, processed_at)
         VALUES ('a', RANDOM_BYTES(16), '2026-01-01 11:59:59'), ('b', RANDOM_BYTES(16), '2026-01-01 11:00:00')",
    )
    .await?;
    assert_eq!(case.one::<String>(hours).await?, "10 2 1, 11 1 2, 12 0 2");
    // A table of that name without a time of receipt is not an inbox.
    case.run("DROP VIEW vw_event_throughput_hourly").await?;
    case.run("DROP TABLE event_inbox").await?;
    case.run("CREATE TABLE event_inbox (id BIGINT)").await?;
    let asked = RowExtras::default().views(true);
    MySqlRowStore::migrate(&case.config, &case.table, asked).await?;
    assert_eq!(case.one::<String>(hours).await?, "10 2 0, 11 1 2");
    Ok(())
}

on_both!(views_of_other_owners_are_kept_and_reported_and_missing_views_are_created);
async fn views_of_other_owners_are_kept_and_reported_and_missing_views_are_created<W: ServerKind>()
-> Result<()> {
    let case = RowCase::<W>::without_tables(RowLayout::EventOutbox).await?;
    case.run("CREATE VIEW vw_sync_backlog_by_node AS SELECT 'theirs' AS whose").await?;
    let made = MySqlRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
    let reported: Vec<&str> = made.differences.iter().map(|difference| difference.what.as_str()).collect();
    assert!(
        reported.len() == 1 && reported[0].contains("\"vw_sync_backlog_by_node\" already exists"),
        "{reported:?}"
    );
    assert_eq!(case.one::<String>("SELECT whose FROM vw_sync_backlog_by_node").await?, "theirs");
    let views = "SELECT COUNT(*) FROM information_schema.views WHERE table_schema = '{schema}'";
    assert_eq!(case.one::<i64>(views).await?, 6, "the five others were made");
    let asked = RowExtras::default().views(true);
    let again = MySqlRowStore::migrate(&case.config, &case.table, asked).await?;
    assert_eq!(again.differences.len(), 1, "Postrider's own views are not reported: {again:?}");
    Ok(())
}
