//! Somebody else's publisher beside ours, with the queries of seed 004.

use std::collections::{HashMap, HashSet};

use postrider::Result;
use rusqlite::Connection;

use super::case::{Case, failed};
use crate::relay_cases::{eventually, relay};
use crate::taker::Taker;

const GET_EVENTS_TO_PROCESS: &str = "
    SELECT id, aggregate_id || ' ' || payload
    FROM outbox_events
    WHERE status = 'PENDING' OR (status = 'FAILED' AND attempt_count < 3)
    ORDER BY created_at
    LIMIT 5";
const MARK_EVENT_FOR_PROCESSING: &str = "
    UPDATE outbox_events
    SET status = 'PUBLISHING',
        attempt_count = attempt_count + 1,
        last_attempt_at = CURRENT_TIMESTAMP
    WHERE id = ? AND status IN ('PENDING', 'FAILED')";
const MARK_EVENT_AS_PUBLISHED: &str = "UPDATE outbox_events SET status = 'PUBLISHED' WHERE id = ?";
const MARK_EVENT_AS_FAILED: &str = "UPDATE outbox_events SET status = 'FAILED' WHERE id = ?";
const DELETE_PUBLISHED_EVENTS_OLDER_THAN: &str =
    "DELETE FROM outbox_events WHERE status = 'PUBLISHED' AND created_at < ?";

/// A publisher that knows nothing of Postrider: every second row fails once. Answers what it published.
fn stranger(connection: &Connection) -> Result<HashMap<String, usize>, rusqlite::Error> {
    let (mut published, mut failures) = (HashMap::new(), HashSet::new());
    loop {
        let mut due = connection.prepare_cached(GET_EVENTS_TO_PROCESS)?;
        let rows: Vec<(i64, String)> =
            due.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
        if rows.is_empty() {
            return Ok(published);
        }
        for (id, row) in rows {
            if connection.execute(MARK_EVENT_FOR_PROCESSING, [id])? == 0 {
                continue;
            }
            if id % 2 == 0 && failures.insert(id) {
                connection.execute(MARK_EVENT_AS_FAILED, [id])?;
                continue;
            }
            *published.entry(row).or_default() += 1;
            connection.execute(MARK_EVENT_AS_PUBLISHED, [id])?;
        }
    }
}

#[tokio::test]
async fn the_queries_of_seed_004_run_beside_a_relay_and_neither_publishes_rows_of_the_other() -> Result<()> {
    let mut case = Case::new()?;
    case.table = case.table.shared(true);
    for number in 0..60 {
        for key in 0..5 {
            case.run(&Case::insert(&format!("key{key}"), number))?;
        }
    }
    let connection = case.connect()?;
    let theirs = tokio::task::spawn_blocking(move || stranger(&connection));
    let sink = Taker::new(|_, _| None);
    let relay = relay(case.store()?, &sink).await?;
    let done = "SELECT count(*) FROM outbox_events WHERE status = 'PUBLISHED'";
    eventually("all rows are published", async || Ok(case.one::<i64>(done)? == 300)).await?;
    relay.shutdown().await?;
    let mut all = theirs.await.expect("the stranger lives").map_err(failed)?;
    for (key, number) in sink.taken() {
        let key = key.rsplit('/').next().unwrap_or_default();
        *all.entry(format!("{key} {{\"n\": {number}}}")).or_default() += 1;
    }
    assert_eq!(all.len(), 300, "nothing is lost");
    assert!(all.values().all(|times| *times == 1), "every row is published by one of the two");
    let deleted =
        case.connect()?.execute(DELETE_PUBLISHED_EVENTS_OLDER_THAN, ["2001-01-01"]).map_err(failed)?;
    assert_eq!(deleted, 0);
    Ok(())
}
