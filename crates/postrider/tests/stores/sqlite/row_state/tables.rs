//! Creating the table, an existing table, and the document that defines it.

use std::path::PathBuf;

use postrider::layout::{RowLayout, RowTable};
use postrider::store::sqlite::{SqliteRowStore, SqliteStore};
use postrider::store::{RowExtras, Start, Store};
use postrider::{Code, Ident, Result};

use super::case::{Case, failed};

#[test]
fn migrating_twice_changes_nothing_and_reports_what_was_created() -> Result<()> {
    let case = Case::without_tables()?;
    assert_eq!(SqliteRowStore::schema(&case.path)?.found, 0);
    let first = SqliteRowStore::migrate(&case.path, &case.table, RowExtras::default())?;
    assert_eq!((first.created, first.ledger.from), (vec!["outbox_events".to_owned()], 0));
    let again = SqliteRowStore::migrate(&case.path, &case.table, RowExtras::default())?;
    assert_eq!((again.created.len(), again.differences, again.ledger.from), (0, vec![], 6));
    assert_eq!(SqliteRowStore::schema(&case.path)?.found, 6);
    Ok(())
}

#[test]
fn tables_of_an_earlier_version_are_refused_until_they_are_migrated() -> Result<()> {
    let case = Case::new()?;
    case.run(
        "DROP TABLE postrider_row_refused; DROP TABLE postrider_inbox; DROP TABLE postrider_actions;
              DROP TABLE postrider_audit; ALTER TABLE postrider_row_subscriptions DROP COLUMN changes;
              ALTER TABLE postrider_row_relays DROP COLUMN facts;
              DELETE FROM postrider_row_migrations WHERE version >= 2",
    )?;
    let refused = SqliteRowStore::open(&case.path, &case.table).map(|_| ()).unwrap_err();
    assert_eq!(refused.code(), Code::SchemaMissing);
    let migrated = SqliteRowStore::migrate(&case.path, &case.table, RowExtras::default())?;
    assert_eq!((migrated.ledger.from, migrated.ledger.to), (1, 6));
    SqliteRowStore::open(&case.path, &case.table).map(|_| ())
}

#[test]
fn the_printed_sql_creates_the_same_tables() -> Result<()> {
    let case = Case::without_tables()?;
    for step in SqliteRowStore::migrations(&case.table, RowExtras::default())? {
        case.run(&step.sql)?;
    }
    case.store()?;
    let again = SqliteRowStore::migrate(&case.path, &case.table, RowExtras::default())?;
    assert_eq!((again.created.len(), again.differences), (0, vec![]));
    Ok(())
}

#[test]
fn an_incompatible_table_is_refused_and_never_altered() -> Result<()> {
    let case = Case::without_tables()?;
    case.run("CREATE TABLE outbox_events (id INTEGER PRIMARY KEY, payload BLOB)")?;
    let refused = SqliteRowStore::migrate(&case.path, &case.table, RowExtras::default()).unwrap_err();
    assert_eq!(refused.code(), Code::LayoutDiffers);
    let text = refused.report();
    for part in ["has no column \"attempt_count\"", "outbox_events.payload is blob, not text"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(case.one::<i64>("SELECT count(*) FROM sqlite_schema")?, 1, "nothing was made");
    Ok(())
}

#[test]
fn a_slightly_different_table_is_used_and_the_differences_are_reported() -> Result<()> {
    let case = Case::new()?;
    case.run("DROP INDEX idx_outbox_events_status; ALTER TABLE outbox_events ADD tenant TEXT")?;
    let reported = SqliteRowStore::migrate(&case.path, &case.table, RowExtras::default())?.differences;
    let reported: Vec<&str> = reported.iter().map(|difference| difference.what.as_str()).collect();
    assert_eq!(reported, ["index \"idx_outbox_events_status\" is missing: btree (status, created_at)"]);
    case.store()?;
    Ok(())
}

#[tokio::test]
async fn a_file_can_contain_one_table_with_a_state_per_row_and_the_default_layout() -> Result<()> {
    let case = Case::without_tables()?;
    SqliteStore::migrate(&case.path)?;
    let missing = SqliteRowStore::open(&case.path, &case.table).unwrap_err();
    assert!(missing.code() == Code::SchemaMissing && missing.report().contains("--layout outbox_events"));
    SqliteRowStore::migrate(&case.path, &case.table, RowExtras::default())?;
    let (log, rows) = (SqliteStore::open(&case.path)?, case.store()?);
    assert!(
        log.subscribe("mail", Start::Beginning).await? && rows.subscribe("post", Start::Beginning).await?
    );
    rows.pause("post", Some("moving")).await?;
    for (overview, name, paused) in
        [(log.overview(1).await?, "mail", None), (rows.overview(1).await?, "post", Some("moving"))]
    {
        let reported: Vec<_> =
            overview.subscriptions.iter().map(|of| (of.name.as_str(), of.paused.as_deref())).collect();
        assert_eq!(reported, [(name, paused)], "each has its own ledger");
    }
    let case = Case::new()?;
    let other = case.table.clone().named(Ident::new("shop_events")?);
    let refused = SqliteRowStore::migrate(&case.path, &other, RowExtras::default()).unwrap_err();
    assert_eq!(refused.code(), Code::LayoutDiffers, "the ledger is about the first table");
    assert_eq!(SqliteStore::open(&case.path).unwrap_err().code(), Code::SchemaMissing);
    for layout in [RowLayout::EventOutbox, RowLayout::Outbox] {
        let refused = SqliteRowStore::open(&case.path, &RowTable::new(layout)).unwrap_err();
        assert_eq!(refused.code(), Code::LayoutDiffers);
    }
    Ok(())
}

/// The table of a file with its columns and indexes, in one format.
fn catalog(case: &Case) -> Result<Vec<String>> {
    let connection = case.connect()?;
    let mut facts = Vec::new();
    for sql in [
        "SELECT concat_ws(' ', name, type, \"notnull\", coalesce(dflt_value, '-'), pk) FROM pragma_table_info('outbox_events')",
        "SELECT concat_ws(' ', i.name, i.\"unique\", c.seqno, c.name) FROM pragma_index_list('outbox_events') AS i, pragma_index_info(i.name) AS c ORDER BY 1",
        "SELECT (sql LIKE '%AUTOINCREMENT%') || ' ' || (sql LIKE '%CHECK (status IN (''PENDING'', ''PUBLISHING'', ''PUBLISHED'', ''FAILED''))%') FROM sqlite_schema WHERE name = 'outbox_events'",
    ] {
        let mut statement = connection.prepare(sql).map_err(failed)?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
        facts.extend(rows.collect::<Result<Vec<_>, _>>().map_err(failed)?);
    }
    Ok(facts)
}

#[test]
fn the_table_of_outbox_events_equals_its_document() -> Result<()> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/seeds");
    let found = std::fs::read_dir(&folder)
        .ok()
        .and_then(|entries| entries.flatten().find(|e| e.file_name().to_string_lossy().starts_with("004")));
    let Some(text) = found.and_then(|entry| std::fs::read_to_string(entry.path()).ok()) else {
        println!(
            "SKIPPED: the_table_of_outbox_events_equals_its_document: the documents are not next to the checkout"
        );
        return Ok(());
    };
    let block =
        text.split("```sql run=false\n").find(|block| block.starts_with("-- transactional_outbox.sql"));
    let sql = block.and_then(|block| block.split("```").next()).expect("the schema for SQLite");
    let (theirs, ours) = (Case::without_tables()?, Case::new()?);
    theirs.run(sql)?;
    let facts = catalog(&theirs)?;
    assert_eq!(facts, catalog(&ours)?);
    assert_eq!((facts.len(), facts.last().map(String::as_str)), (12, Some("1 1")), "{facts:#?}");
    let migrated = SqliteRowStore::migrate(&theirs.path, &theirs.table, RowExtras::default())?;
    assert_eq!((migrated.created.len(), migrated.differences), (0, vec![]), "it is used unchanged");
    Ok(())
}
