//! Compares the tables with the documents that define them, if these are next to the checkout.

use std::path::PathBuf;

use postrider::Result;
use postrider::layout::RowLayout;
use postrider::store::RowExtras;
use postrider::store::mysql::MySqlRowStore;

use super::case::RowCase;
use crate::mysql::log::case::{MariaDb, MySql, ServerKind};

fn with_index() -> RowExtras {
    RowExtras::default().aggregate_index(true)
}

/// Everything in the data dictionary about the tables of a database: columns, defaults, constraints, indexes.
async fn catalog<W: ServerKind>(case: &RowCase<W>) -> Result<Vec<String>> {
    case.all(
        "SELECT fact FROM (
             SELECT CONCAT_WS(' ', table_name, column_name, column_type, is_nullable, COALESCE(column_default, '-'), extra) AS fact
             FROM information_schema.columns WHERE table_schema = '{schema}'
               AND table_name IN ('outbox_events', 'event_outbox', 'events', 'event_notifications')
             UNION ALL
             SELECT CONCAT_WS(' ', index_name, non_unique, seq_in_index, column_name)
             FROM information_schema.statistics WHERE table_schema = '{schema}'
             UNION ALL
             SELECT CONCAT_WS(' ', constraint_name, check_clause)
             FROM information_schema.check_constraints WHERE constraint_schema = '{schema}'
         ) AS facts ORDER BY fact",
    )
    .await
}

async fn as_in_the_document<W: ServerKind>(test: &str) -> Result<()> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/seeds");
    let found = std::fs::read_dir(&folder)
        .ok()
        .and_then(|entries| entries.flatten().find(|e| e.file_name().to_string_lossy().starts_with("004")));
    let Some(text) = found.and_then(|entry| std::fs::read_to_string(entry.path()).ok()) else {
        println!("SKIPPED: {test}: the documents are not next to the checkout");
        return Ok(());
    };
    if !RowCase::<W>::is_available() {
        return Ok(());
    }
    let block =
        text.split("```sql run=false\n").find(|block| block.starts_with("-- transactional-outbox.mysql.sql"));
    let sql = block.and_then(|block| block.split("```").next()).expect("the schema for MySQL");
    let theirs = RowCase::<W>::without_tables(RowLayout::OutboxEvents).await?;
    theirs.run(sql).await?;
    let ours = RowCase::<W>::new(RowLayout::OutboxEvents).await?;
    assert_eq!(catalog(&theirs).await?, catalog(&ours).await?);

    // The index that the document does not define.
    let optional =
        sql.lines().find_map(|line| line.strip_prefix("-- CREATE INDEX")).expect("an optional index");
    theirs.run(&format!("CREATE INDEX{optional}")).await?;
    MySqlRowStore::migrate(&ours.config, &ours.table, with_index()).await?;
    MySqlRowStore::migrate(&ours.config, &ours.table, with_index()).await?;
    assert_eq!(catalog(&theirs).await?, catalog(&ours).await?);
    let migrated = MySqlRowStore::migrate(&theirs.config, &theirs.table, RowExtras::default()).await?;
    assert_eq!((migrated.created.len(), migrated.differences), (0, vec![]), "it is used unchanged");
    Ok(())
}

#[tokio::test]
async fn the_table_of_outbox_events_equals_its_document_on_mysql() -> Result<()> {
    as_in_the_document::<MySql>("the_table_of_outbox_events_equals_its_document_on_mysql").await
}

#[tokio::test]
async fn the_table_of_outbox_events_equals_its_document_on_mariadb() -> Result<()> {
    as_in_the_document::<MariaDb>("the_table_of_outbox_events_equals_its_document_on_mariadb").await
}

/// The same facts on both servers.
fn normalised(facts: Vec<String>) -> Vec<String> {
    let facts = facts.into_iter();
    facts
        .map(|fact| fact.to_lowercase().replace(" default_generated", "").replace('\'', ""))
        .map(|fact| {
            fact.replace("bigint(20)", "bigint").replace(" int(11)", " int").replace("yes null", "yes -")
        })
        .map(|fact| fact.replace("payload longtext", "payload json").trim_end().to_owned())
        .map(|fact| fact.replace("action_params longtext", "action_params json"))
        .filter(|fact| !fact.contains("json_valid"))
        .collect()
}

/// Seed 002 is a list of facts, which were copied here. MariaDB prints JSON as text, numbers with a width, and a
/// default in lower case.
async fn every_fact<W: ServerKind>() -> Result<()> {
    if !RowCase::<W>::is_available() {
        return Ok(());
    }
    let case = RowCase::<W>::new(RowLayout::EventOutbox).await?;
    let facts = normalised(catalog(&case).await?);
    let expected = [
        "event_outbox created_at datetime(6) no current_timestamp(6)",
        "event_outbox id bigint no - auto_increment",
        "event_outbox attempts int no 0",
        "event_outbox status enum(pending,sent,failed) no pending",
        "event_outbox entity_table varchar(64) no -",
        "event_outbox next_attempt_at datetime(6) yes -",
        "event_outbox event_key char(36) no -",
        "event_outbox processed_at datetime(6) yes -",
        "event_outbox payload json no -",
        "event_outbox event_type varchar(100) no -",
        "event_outbox producer_node varchar(100) yes -",
        "event_outbox entity_pk varchar(64) no -",
        "primary 0 1 id",
        "uq_event_outbox_key 0 1 event_key",
        "idx_event_outbox_created_at 1 1 created_at",
        "idx_event_outbox_entity_time 1 1 entity_table",
        "idx_event_outbox_entity_time 1 2 entity_pk",
        "idx_event_outbox_entity_time 1 3 created_at",
        "idx_event_outbox_status_sched 1 1 status",
        "idx_event_outbox_status_sched 1 2 next_attempt_at",
    ];
    for fact in expected {
        assert!(facts.iter().any(|found| found == fact), "{fact}\nis not among {facts:#?}");
    }
    assert_eq!(facts.len(), expected.len(), "{facts:#?}");
    Ok(())
}

#[tokio::test]
async fn the_table_of_event_outbox_has_every_fact_of_its_document_on_mysql() -> Result<()> {
    every_fact::<MySql>().await
}

#[tokio::test]
async fn the_table_of_event_outbox_has_every_fact_of_its_document_on_mariadb() -> Result<()> {
    every_fact::<MariaDb>().await
}

/// The table of types in seed 000, which was copied here: an id is `CHAR(36)` on MySQL and `UUID` on MariaDB. No column of
/// the events has a default.
async fn every_fact_of_eventlog<W: ServerKind>(id: &str) -> Result<()> {
    if !RowCase::<W>::is_available() {
        return Ok(());
    }
    let case = RowCase::<W>::new(RowLayout::Eventlog).await?;
    let mut found = normalised(catalog(&case).await?);
    let action = [
        ("namespace", "varchar(255) no -"),
        ("action_id", "id no -"),
        ("action_name", "varchar(255) no -"),
        ("action_params", "json no -"),
        ("started_date", "datetime(6) no -"),
        ("completion_date", "datetime(6) no -"),
        ("model_id", "varchar(255) yes -"),
        ("model_type", "varchar(255) yes -"),
        ("payload", "json yes -"),
        ("event_date", "datetime(6) no -"),
        ("id", "id no -"),
    ];
    let of_events = [("event_type", "varchar(255) yes -"), ("delivered", "tinyint(1) no -")];
    let of_notifications = [
        ("event_id", "id no -"),
        ("handler_name", "varchar(255) no -"),
        ("event_type", "varchar(255) no -"),
        ("state", "varchar(24) no -"),
        ("attempts", "int no 0"),
        ("next_retry_at", "datetime(6) no -"),
        ("created_date", "datetime(6) no -"),
        ("updated_date", "datetime(6) no -"),
    ];
    let line = |table: &str, (column, fact): &(&str, &str)| {
        format!("{table} {column} {}", fact.replace("id no", &format!("{id} no")))
    };
    let mut expected: Vec<String> =
        action.iter().chain(&of_events).map(|fact| line("events", fact)).collect();
    expected.extend(action.iter().chain(&of_notifications).map(|fact| line("event_notifications", fact)));
    assert_eq!(expected.len(), 13 + 19);
    let indexes = [
        "primary 0 1 id",
        "primary 0 1 id",
        "idx_events_action_id 1 1 action_id",
        "events_undelivered 1 1 delivered",
        "events_undelivered 1 2 event_type",
        "events_undelivered 1 3 event_date",
        "event_id 0 1 event_id",
        "event_id 0 2 handler_name",
        "event_notifications_due 1 1 state",
        "event_notifications_due 1 2 next_retry_at",
    ];
    expected.extend(indexes.map(str::to_owned));
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    let ascii = "SELECT CONCAT(character_set_name) FROM information_schema.columns
                 WHERE table_schema = '{schema}' AND column_type = 'char(36)'";
    let ids: Vec<String> = case.all(ascii).await?;
    assert!(ids.iter().all(|set| set == "ascii"), "{ids:?}");
    Ok(())
}

#[tokio::test]
async fn the_tables_of_eventlog_have_every_fact_of_its_document_on_mysql() -> Result<()> {
    every_fact_of_eventlog::<MySql>("char(36)").await
}

#[tokio::test]
async fn the_tables_of_eventlog_have_every_fact_of_its_document_on_mariadb() -> Result<()> {
    every_fact_of_eventlog::<MariaDb>("uuid").await
}
