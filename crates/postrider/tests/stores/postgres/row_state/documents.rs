//! Compares the tables with the documents that define them, if these are next to the checkout.

use std::path::{Path, PathBuf};

use postrider::Result;
use postrider::layout::RowLayout;
use postrider::store::RowExtras;
use postrider::store::postgres::PostgresRowStore;

use super::case::Case;

fn with_index() -> RowExtras {
    RowExtras::default().aggregate_index(true)
}

/// The text of a document. Prints why there is none.
fn document(test: &str, number: &str) -> Option<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/seeds");
    let text = text_in(&folder, number);
    if text.is_none() {
        println!("SKIPPED: {test}: the documents are not next to the checkout");
    }
    text
}

/// The file whose name begins with this number, if there is one.
fn text_in(folder: &Path, number: &str) -> Option<String> {
    let mut entries = std::fs::read_dir(folder).ok()?.flatten();
    let entry = entries.find(|entry| entry.file_name().to_string_lossy().starts_with(number))?;
    std::fs::read_to_string(entry.path()).ok()
}

/// Everything in the catalog about the tables of a schema: columns, defaults, constraints, indexes.
async fn catalog(case: &Case) -> Result<Vec<String>> {
    case.all(
        "SELECT replace(fact, '{schema}.', '') FROM (
             SELECT format('%s.%s %s null=%s default=%s', c.relname, a.attname,
                           format_type(a.atttypid, a.atttypmod), NOT a.attnotnull,
                           pg_get_expr(d.adbin, d.adrelid)) AS fact
             FROM pg_class AS c
             JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
             LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
             WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind = 'r'
             UNION ALL
             SELECT format('%s constraint %s %s', c.relname, n.conname, pg_get_constraintdef(n.oid))
             FROM pg_constraint AS n JOIN pg_class AS c ON c.oid = n.conrelid
             WHERE c.relnamespace = '{schema}'::regnamespace
             UNION ALL
             SELECT pg_get_indexdef(i.indexrelid)
             FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid
             WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind = 'r'
         ) AS facts ORDER BY 1",
    )
    .await
}

/// The document of `outbox`, whose lines were joined: a comment ends where the next SQL word begins.
fn separated(text: &str) -> String {
    let text = text.replace(" CREATE ", "\nCREATE ").replace(" -- ", "\n-- ");
    let mut sql = String::new();
    for line in text.lines() {
        match line.strip_prefix("--") {
            // A comment after a column is before the next column, or before the end of the list.
            Some(comment) => sql.push_str(&after_comment(comment)),
            None => sql.push_str(line),
        }
        sql.push('\n');
    }
    sql
}

/// The SQL after a one-line comment: from the first word that is a column of the tables.
fn after_comment(comment: &str) -> String {
    const COLUMNS: [&str; 8] = [
        " aggregate_id UUID",
        " event_type VARCHAR",
        " topic VARCHAR",
        " partition_key VARCHAR",
        " payload JSONB",
        " headers JSONB",
        " status VARCHAR",
        " aggregate_type VARCHAR",
    ];
    COLUMNS
        .iter()
        .filter_map(|column| comment.find(column))
        .min()
        .map_or(String::new(), |at| comment[at..].to_owned())
}

#[tokio::test]
async fn the_tables_of_outbox_equal_its_document() -> Result<()> {
    let Some(text) = document("the_tables_of_outbox_equal_its_document", "003") else {
        return Ok(());
    };
    if !Case::is_available() {
        return Ok(());
    }
    let (theirs, ours) =
        (Case::without_tables(RowLayout::Outbox).await?, Case::new(RowLayout::Outbox).await?);
    theirs.run(&separated(&text)).await?;
    let facts = catalog(&theirs).await?;
    assert_eq!(facts, catalog(&ours).await?);
    assert_eq!(facts.iter().filter(|fact| fact.contains("null=")).count(), 18, "{facts:#?}");
    let migrated = PostgresRowStore::migrate(&theirs.config, &theirs.table, RowExtras::default()).await?;
    assert_eq!((migrated.created.len(), migrated.differences), (0, vec![]), "it is used unchanged");
    Ok(())
}

#[tokio::test]
async fn the_table_of_outbox_events_equals_its_document() -> Result<()> {
    let Some(text) = document("the_table_of_outbox_events_equals_its_document", "004") else { return Ok(()) };
    if !Case::is_available() {
        return Ok(());
    }
    let block =
        text.split("```sql run=false\n").find(|block| block.starts_with("-- transactional-outbox.pg.sql"));
    let sql = block.and_then(|block| block.split("```").next()).expect("the schema for PostgreSQL");
    let theirs = Case::without_tables(RowLayout::OutboxEvents).await?;
    theirs.run(sql).await?;
    let ours = Case::new(RowLayout::OutboxEvents).await?;
    assert_eq!(catalog(&theirs).await?, catalog(&ours).await?);

    // The index that the document does not define.
    let optional =
        sql.lines().find_map(|line| line.strip_prefix("-- CREATE INDEX")).expect("an optional index");
    theirs.run(&format!("CREATE INDEX{optional}")).await?;
    PostgresRowStore::migrate(&ours.config, &ours.table, with_index()).await?;
    PostgresRowStore::migrate(&ours.config, &ours.table, with_index()).await?;
    assert_eq!(catalog(&theirs).await?, catalog(&ours).await?);
    let migrated = PostgresRowStore::migrate(&theirs.config, &theirs.table, RowExtras::default()).await?;
    assert_eq!((migrated.created.len(), migrated.differences), (0, vec![]), "it is used unchanged");
    Ok(())
}

/// Seed 002 is a list of facts, which were copied here.
#[tokio::test]
async fn the_table_of_event_outbox_has_every_fact_of_its_document() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::new(RowLayout::EventOutbox).await?;
    let facts = catalog(&case).await?;
    let expected = [
        "event_outbox.created_at timestamp(6) with time zone null=f default=CURRENT_TIMESTAMP(6)",
        "event_outbox.id bigint null=f default=",
        "event_outbox.attempts integer null=f default=0",
        "event_outbox.status text null=f default='pending'::text",
        "event_outbox.entity_table character varying(64) null=f default=",
        "event_outbox.next_attempt_at timestamp(6) with time zone null=t default=",
        "event_outbox.event_key character(36) null=f default=",
        "event_outbox.processed_at timestamp(6) with time zone null=t default=",
        "event_outbox.payload jsonb null=f default=",
        "event_outbox.event_type character varying(100) null=f default=",
        "event_outbox.producer_node character varying(100) null=t default=",
        "event_outbox.entity_pk character varying(64) null=f default=",
        "event_outbox constraint uq_event_outbox_key UNIQUE (event_key)",
        "event_outbox constraint event_outbox_pkey PRIMARY KEY (id)",
        "event_outbox constraint event_outbox_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'sent'::text, 'failed'::text])))",
        "CREATE INDEX gin_event_outbox_payload ON event_outbox USING gin (payload jsonb_path_ops)",
        "CREATE INDEX idx_event_outbox_created_at ON event_outbox USING btree (created_at)",
        "CREATE INDEX idx_event_outbox_entity_time ON event_outbox USING btree (entity_table, entity_pk, created_at)",
        "CREATE INDEX idx_event_outbox_status_sched ON event_outbox USING btree (status, next_attempt_at)",
        "CREATE UNIQUE INDEX uq_event_outbox_key ON event_outbox USING btree (event_key)",
        "CREATE UNIQUE INDEX event_outbox_pkey ON event_outbox USING btree (id)",
    ];
    for fact in expected {
        assert!(facts.iter().any(|found| found == fact), "{fact}\nis not among {facts:#?}");
    }
    assert_eq!(facts.len(), expected.len(), "{facts:#?}");
    assert_eq!(case.one::<String>("SELECT is_identity FROM information_schema.columns WHERE table_schema = '{schema}' AND table_name = 'event_outbox' AND column_name = 'id'").await?, "YES");
    Ok(())
}

/// The statements of document 000, in a schema of this case. A statement begins and ends with a line; comments contain
/// semicolons.
fn statements_of_000(text: &str, schema: &str) -> String {
    let mut sql = String::new();
    let mut is_inside = false;
    for line in text.lines() {
        is_inside |= line.starts_with("CREATE ");
        if is_inside {
            sql.push_str(line);
            sql.push('\n');
            let code = line.split("--").next().unwrap_or_default();
            is_inside = !code.trim_end().ends_with(';');
        }
    }
    sql.replace("SCHEMA IF NOT EXISTS eventlog", &format!("SCHEMA IF NOT EXISTS {schema}"))
        .replace("eventlog.", &format!("{schema}."))
}

#[tokio::test]
async fn the_tables_of_eventlog_equal_its_document() -> Result<()> {
    let Some(text) = document("the_tables_of_eventlog_equal_its_document", "000") else { return Ok(()) };
    if !Case::is_available() {
        return Ok(());
    }
    let (theirs, ours) =
        (Case::without_tables(RowLayout::Eventlog).await?, Case::new(RowLayout::Eventlog).await?);
    theirs.run(&statements_of_000(&text, &theirs.schema)).await?;
    let facts = catalog(&theirs).await?;
    assert_eq!(facts, catalog(&ours).await?);
    let columns =
        |table: &str| facts.iter().filter(|fact| fact.starts_with(table) && fact.contains("null=")).count();
    assert_eq!((columns("events."), columns("event_notifications.")), (13, 19), "{facts:#?}");
    for extras in [RowExtras::default(), RowExtras::default().handlers(true)] {
        let migrated = PostgresRowStore::migrate(&theirs.config, &theirs.table, extras).await?;
        assert_eq!((migrated.created.len(), migrated.differences), (0, vec![]), "it is used unchanged");
    }
    assert_eq!(facts, catalog(&theirs).await?);

    // Without the add-on, only the base of the document.
    let base = Case::without_tables(RowLayout::Eventlog).await?;
    PostgresRowStore::migrate(&base.config, &base.table, RowExtras::default()).await?;
    let of_base =
        |fact: &&String| !fact.contains("event_notifications") && !fact.contains("events_undelivered");
    assert_eq!(catalog(&base).await?, facts.iter().filter(of_base).cloned().collect::<Vec<_>>());
    Ok(())
}
