//! Other pollers with `FOR UPDATE SKIP LOCKED`, on the layouts without a state for rows that are being published.

use std::collections::HashSet;

use postrider::layout::RowLayout;
use postrider::sink::{Message, Outcome, Sink};
use postrider::{BoxFuture, Result};
use postrider_testkit::eventually;
use tokio::sync::watch;
use tokio_postgres::{Client, Transaction};

use super::case::{Case, failed};
use crate::recording_sink::RecordingSink;
use crate::relay_cases::{Table as _, relay, relay_to, write};
use crate::test_layouts::{LAYOUTS, Poller};

/// The layouts with such pollers.
fn polled() -> impl Iterator<Item = (RowLayout, &'static Poller)> {
    LAYOUTS.iter().filter_map(|test| Some((test.layout, test.poller.as_ref()?)))
}

async fn poll(tx: &Transaction<'_>, poller: &Poller, rows: i64) -> Result<Vec<String>> {
    let rows = tx.query(poller.due, &[&rows]).await.map_err(failed)?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Publishes until all rows are delivered; every third row fails once. Returns the rows that it published.
async fn publish(mut client: Client, layout: RowLayout, poller: &Poller) -> Result<Vec<String>> {
    let (mut published, mut failed_once) = (Vec::new(), HashSet::new());
    loop {
        let open =
            format!("SELECT count(*) FROM {} WHERE status::text NOT IN ('sent', 'published')", layout.name());
        if client.query_one(&open, &[]).await.map_err(failed)?.get::<_, i64>(0) == 0 {
            return Ok(published);
        }
        let tx = client.transaction().await.map_err(failed)?;
        for (index, id) in poll(&tx, poller, 7).await?.into_iter().enumerate() {
            tokio::task::yield_now().await;
            if index % 3 == 0 && failed_once.insert(id.clone()) {
                tx.execute(poller.fail, &[&id]).await.map_err(failed)?;
            } else {
                tx.execute(poller.deliver, &[&id]).await.map_err(failed)?;
                published.push(id);
            }
        }
        tx.commit().await.map_err(failed)?;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skip_locked_poller_runs_next_to_a_relay_and_neither_publishes_rows_of_the_other() -> Result<()> {
    for (layout, poller) in polled() {
        if !Case::is_available() {
            return Ok(());
        }
        let mut case = Case::new(layout).await?;
        case.table = case.table.clone().shared(true);
        write(&case, 100).await?;
        let theirs = tokio::spawn(publish(case.another().await?, layout, poller));
        let sink = RecordingSink::new(|_, _| None);
        let ours = relay(case.store().await?, &sink).await?;
        let published = theirs.await.unwrap()?;
        eventually("all rows are delivered", async || Ok(case.delivered().await? == 500)).await?;
        ours.shutdown().await?;
        let (taken, foreign) = (sink.accepted().len(), published.len());
        println!("{layout:?}: of 500 rows we published {taken}, the other publisher {foreign}");
        assert_eq!(taken + foreign, 500, "each by one of the two, none by both, none lost");
    }
    Ok(())
}

/// A destination that answers when the test allows it.
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

#[tokio::test]
async fn both_publishers_skip_rows_in_flight() -> Result<()> {
    for (layout, poller) in polled() {
        if !Case::is_available() {
            return Ok(());
        }
        let mut case = Case::new(layout).await?;
        case.table = case.table.clone().shared(true);
        write(&case, 1).await?;
        let (mut other, mut another) = (case.another().await?, case.another().await?);
        let tx = other.transaction().await.map_err(failed)?;
        let theirs = poll(&tx, poller, 2).await?;
        assert_eq!(theirs.len(), 2);

        let behind = RecordingSink::new(|_, _| None);
        let gate = Gate {
            waiting: watch::Sender::new(0),
            is_open: watch::Sender::new(false),
            behind: behind.clone(),
        };
        let ours = relay_to(case.store().await?, gate.clone()).await?;
        gate.waiting.subscribe().wait_for(|waiting| *waiting == 3).await.unwrap();
        let second = another.transaction().await.map_err(failed)?;
        assert_eq!(poll(&second, poller, 100).await?, [""; 0], "all are at work, theirs and ours");
        second.rollback().await.map_err(failed)?;

        tx.execute(poller.deliver, &[&theirs[0]]).await.map_err(failed)?;
        tx.commit().await.map_err(failed)?;
        gate.is_open.send_replace(true);
        behind.wait_for(4).await;
        eventually("all rows are delivered", async || Ok(case.delivered().await? == 5)).await?;
        let held = format!(
            "SELECT count(*) FROM pg_stat_activity
             WHERE application_name = '{}' AND state LIKE 'idle in transaction%'",
            case.schema
        );
        eventually("no lock is held", async || Ok(case.one::<i64>(&held).await? == 0)).await?;
        ours.shutdown().await?;
        assert_eq!(
            behind.accepted().len(),
            4,
            "three at once, the one they let go afterwards, and none of theirs"
        );
    }
    Ok(())
}
