//! The work that the views of the default layout cause.

use postrider::store::sqlite::SqliteStore;
use postrider::store::{CountBy, Start, Store};
use postrider::{Event, Outbox, Result};
use rusqlite::{Connection, StatementStatus};

const EVENTS: usize = 3_000;

#[tokio::test]
async fn the_views_look_each_event_up_once_however_many_ranges_are_done() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outbox.db");
    SqliteStore::migrate(&path)?;
    SqliteStore::create_views(&path)?;
    SqliteStore::open(&path)?.subscribe("mail", Start::Beginning).await?;
    let connection = Connection::open(&path).unwrap();
    Outbox::new().write_all(&connection, (0..EVENTS).map(|_| Event::new("order.placed", "{}")))?;
    // Every other event is done: as many ranges as the ledger can have.
    let done: Vec<String> = (1..=EVENTS / 2).map(|n| (n * 2).to_string()).collect();
    let sql = format!("UPDATE postrider_subscriptions SET done = '0 {}'", done.join(" "));
    connection.execute(&sql, []).unwrap();
    let sql = "SELECT count(*) FROM postrider_vw_outbox WHERE state = 'pending'";
    let mut statement = connection.prepare(sql).unwrap();
    let pending: i64 = statement.query_row([], |row| row.get(0)).unwrap();
    assert_eq!(pending, EVENTS as i64 / 2);
    // A comparison with every range takes more than 20 steps: 90 million.
    let steps = statement.get_status(StatementStatus::VmStep);
    assert!(steps < 1_000 * EVENTS as i32, "{steps} steps for {EVENTS} events");

    let counts = SqliteStore::count_events(&path, CountBy::Type, 10)?;
    let [group] = counts.groups.as_slice() else { panic!("{counts:?}") };
    assert_eq!((group.total, group.pending, group.done), (3_000, 1_500, 1_500));
    Ok(())
}

#[test]
fn without_a_subscription_each_event_is_there_once() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outbox.db");
    SqliteStore::migrate(&path)?;
    SqliteStore::create_views(&path)?;
    let connection = Connection::open(&path).unwrap();
    Outbox::new().write_all(&connection, (0..3).map(|_| Event::new("order.placed", "{}")))?;
    let sql = "SELECT count(*) FROM postrider_vw_outbox WHERE subscription IS NULL AND state = 'pending' AND NOT is_due";
    assert_eq!(connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 3);
    Ok(())
}
