//! Another poller with `FOR UPDATE SKIP LOCKED` on `event_outbox`, which has no state for rows that are being published.

use std::collections::HashSet;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Transaction, TxOpts};
use postrider::layout::RowLayout;
use postrider::sink::{Message, Outcome, Sink};
use postrider::{BoxFuture, Result};
use postrider_testkit::eventually;
use tokio::sync::watch;

use super::case::RowCase;
use crate::mysql::log::case::{MariaDb, MySql, ServerKind, failed};
use crate::recording_sink::RecordingSink;
use crate::relay_cases::{Table as _, relay, relay_to, write};
use crate::row_database::RowDatabase as _;

/// In the order of the primary key: a query that sorts locks every row that it reads, also those beyond its limit.
const DUE: &str = "SELECT id FROM event_outbox FORCE INDEX (PRIMARY)
    WHERE status IN ('pending', 'failed') AND (next_attempt_at IS NULL OR next_attempt_at <= UTC_TIMESTAMP(6))
    ORDER BY id LIMIT {rows} FOR UPDATE SKIP LOCKED";
const DELIVER: &str = "UPDATE event_outbox SET status = 'sent', processed_at = UTC_TIMESTAMP(6) WHERE id = ?";
const FAIL: &str = "UPDATE event_outbox
    SET status = 'failed', attempts = attempts + 1, next_attempt_at = UTC_TIMESTAMP(6) WHERE id = ?";

async fn case<W: ServerKind>() -> Result<Option<RowCase<W>>> {
    if !RowCase::<W>::is_available() {
        return Ok(None);
    }
    Ok(Some(RowCase::new(RowLayout::EventOutbox).await?.with_sharing(true)))
}

/// A connection of the other publisher.
async fn other<W: ServerKind>(case: &RowCase<W>) -> Result<Conn> {
    let mut conn = case.config.client().await?;
    let session = "USE {schema}; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
    conn.query_drop(case.sql(session)).await.map_err(failed)?;
    Ok(conn)
}

async fn begin(conn: &mut Conn) -> Result<Transaction<'_>> {
    conn.start_transaction(TxOpts::default()).await.map_err(failed)
}

async fn poll(tx: &mut Transaction<'_>, rows: usize) -> Result<Vec<i64>> {
    tx.query(DUE.replace("{rows}", &rows.to_string())).await.map_err(failed)
}

/// Publishes until all rows are delivered; every third row fails once. Returns the rows that it published.
async fn publish(mut conn: Conn) -> Result<Vec<i64>> {
    let (mut published, mut failed_once) = (Vec::new(), HashSet::new());
    loop {
        let open: Option<i64> = conn
            .query_first("SELECT COUNT(*) FROM event_outbox WHERE status <> 'sent'")
            .await
            .map_err(failed)?;
        if open == Some(0) {
            return Ok(published);
        }
        let mut tx = begin(&mut conn).await?;
        for (index, id) in poll(&mut tx, 7).await?.into_iter().enumerate() {
            tokio::task::yield_now().await;
            if index % 3 == 0 && failed_once.insert(id) {
                tx.exec_drop(FAIL, (id,)).await.map_err(failed)?;
            } else {
                tx.exec_drop(DELIVER, (id,)).await.map_err(failed)?;
                published.push(id);
            }
        }
        tx.commit().await.map_err(failed)?;
    }
}

async fn runs_next_to_a_poller<W: ServerKind>() -> Result<()> {
    let Some(case) = case::<W>().await? else { return Ok(()) };
    write(&case, 100).await?;
    let theirs = tokio::spawn(publish(other(&case).await?));
    let sink = RecordingSink::new(|_, _| None);
    let ours = relay(case.store().await?, &sink).await?;
    let published = theirs.await.unwrap()?;
    eventually("all rows are delivered", async || Ok(case.delivered().await? == 500)).await?;
    ours.shutdown().await?;
    let (taken, foreign) = (sink.accepted().len(), published.len());
    println!("of 500 rows we published {taken}, the other publisher {foreign}");
    assert_eq!(taken + foreign, 500, "each by one of the two, none by both, none lost");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skip_locked_poller_runs_next_to_a_relay_on_mysql_and_neither_publishes_rows_of_the_other()
-> Result<()> {
    runs_next_to_a_poller::<MySql>().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skip_locked_poller_runs_next_to_a_relay_on_mariadb_and_neither_publishes_rows_of_the_other()
-> Result<()> {
    runs_next_to_a_poller::<MariaDb>().await
}

/// A destination that answers for the first rows at once, and for the others when the test allows it.
#[derive(Clone)]
struct Gate {
    waiting: watch::Sender<usize>,
    is_open: watch::Sender<bool>,
    behind: RecordingSink,
}

impl Sink for Gate {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            self.waiting.send_modify(|waiting| *waiting += batch.len());
            self.is_open.subscribe().wait_for(|is_open| *is_open).await.unwrap();
            self.behind.publish(batch).await
        })
    }
}

async fn both_skip_rows_in_flight<W: ServerKind>() -> Result<()> {
    let Some(case) = case::<W>().await? else { return Ok(()) };
    write(&case, 1).await?;
    let (mut theirs, mut another) = (other(&case).await?, other(&case).await?);
    let mut tx = begin(&mut theirs).await?;
    let taken = poll(&mut tx, 2).await?;
    assert_eq!(taken.len(), 2);

    let behind = RecordingSink::new(|_, _| None);
    let gate =
        Gate { waiting: watch::Sender::new(0), is_open: watch::Sender::new(false), behind: behind.clone() };
    let ours = relay_to(case.store().await?, gate.clone()).await?;
    gate.waiting.subscribe().wait_for(|waiting| *waiting == 3).await.unwrap();
    let mut second = begin(&mut another).await?;
    assert_eq!(poll(&mut second, 100).await?, [0_i64; 0], "all are at work, theirs and ours");
    second.rollback().await.map_err(failed)?;

    tx.exec_drop(DELIVER, (taken[0],)).await.map_err(failed)?;
    tx.commit().await.map_err(failed)?;
    gate.is_open.send_replace(true);
    behind.wait_for(4).await;
    eventually("all rows are delivered", async || Ok(case.delivered().await? == 5)).await?;
    // Nothing is locked any more.
    let mut last = begin(&mut another).await?;
    eventually("no lock is held", async || {
        let free = "SELECT id FROM event_outbox FOR UPDATE SKIP LOCKED";
        let free: Vec<i64> = last.query(free).await.map_err(failed)?;
        Ok(free.len() == 5)
    })
    .await?;
    last.rollback().await.map_err(failed)?;
    ours.shutdown().await?;
    let sent = "three at once, the one they let go afterwards, and none of theirs";
    assert_eq!(behind.accepted().len(), 4, "{sent}");
    Ok(())
}

#[tokio::test]
async fn both_publishers_skip_rows_in_flight_on_mysql() -> Result<()> {
    both_skip_rows_in_flight::<MySql>().await
}

#[tokio::test]
async fn both_publishers_skip_rows_in_flight_on_mariadb() -> Result<()> {
    both_skip_rows_in_flight::<MariaDb>().await
}

/// Rows of one page are settled one after the other; the last one stays in flight.
async fn keeps_the_locks_of_rows_in_flight<W: ServerKind>() -> Result<()> {
    use postrider::Position;
    use postrider::ledger::Intervals;
    use postrider::store::{Acquired, Budget, Claimed, LeaseRequest, Settled, Settlement, Start};
    use std::time::Duration;

    let Some(case) = case::<W>().await? else { return Ok(()) };
    write(&case, 1).await?;
    let store = case.store().await?;
    store.subscribe("mail", Start::Beginning).await?;
    let lease = LeaseRequest {
        subscription: "mail".into(),
        holder: "relay".into(),
        duration: Duration::from_secs(30),
    };
    let Acquired::Granted(loaded) = store.acquire(lease).await? else { panic!("the lease is held") };
    let mut claimer = store.claimer_of("mail", &loaded);
    let Claimed::Page(page) = claimer.claim(Budget::new(100, 1 << 20)).await? else { panic!("no page") };
    let positions: Vec<Position> = page.events.iter().map(|event| event.position).collect();
    assert_eq!(positions.len(), 5);
    let mut conn = other(&case).await?;
    let mut done = Intervals::default();
    for (settled, position) in positions.iter().enumerate() {
        let mut tx = begin(&mut conn).await?;
        let free = "SELECT id FROM event_outbox WHERE status <> 'sent' FOR UPDATE SKIP LOCKED";
        let free: Vec<i64> = tx.query(free).await.map_err(failed)?;
        assert_eq!(free, [0_i64; 0], "after {settled} were settled");
        tx.rollback().await.map_err(failed)?;
        done.insert(*position);
        let settlement = Settlement {
            subscription: "mail".into(),
            epoch: loaded.epoch,
            done: done.clone(),
            highest: None,
            trial: None,
            park: Vec::new(),
            unpark: Vec::new(),
        };
        assert_eq!(store.settle(settlement).await?, Settled::Done);
    }
    assert_eq!(case.delivered().await?, 5);
    store.close().await;
    Ok(())
}

#[tokio::test]
async fn rows_in_flight_stay_locked_while_others_are_settled_on_mysql() -> Result<()> {
    keeps_the_locks_of_rows_in_flight::<MySql>().await
}

#[tokio::test]
async fn rows_in_flight_stay_locked_while_others_are_settled_on_mariadb() -> Result<()> {
    keeps_the_locks_of_rows_in_flight::<MariaDb>().await
}
