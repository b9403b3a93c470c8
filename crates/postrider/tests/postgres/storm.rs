//! Many writers at once, each taking its time between its position and its commit.
//!
//! Every key has a row with a version; a writer locks the row, raises the version and writes it as an event.
//! So each key's events must arrive as 1, 2, 3 and so on, whatever was rolled back in between.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use postrider::ledger::{Mark, Progress};
use postrider::store::{Budget, Claimed, Claimer, Store};
use postrider::{Event, Result, StoredEvent};
use tokio::task::JoinSet;
use tokio_postgres::Client;

use super::case::{Case, case, failed};

const WRITERS: u64 = 8;
const TRANSACTIONS: u64 = 100;
const KEYS: u64 = 10;

/// What is not proven by then is not proven at all.
const LONG: Duration = Duration::from_secs(60);

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// What a writer needs, owned, so that it can run by itself.
struct Writer {
    client: Client,
    case: std::sync::Arc<Case>,
    dice: Dice,
    name: u64,
}

impl Writer {
    async fn run(mut self) -> Result<()> {
        for turn in 0..TRANSACTIONS {
            self.transaction(turn).await?;
        }
        Ok(())
    }

    async fn transaction(&mut self, turn: u64) -> Result<()> {
        self.sql("BEGIN").await?;
        if self.dice.below(3) == 0 {
            // A transaction id long before the key's lock.
            self.sql("SELECT pg_current_xact_id()").await?;
            self.pause().await?;
        }
        match self.dice.below(8) {
            0 => {
                self.event().await?;
                self.pause().await?;
                self.sql("ROLLBACK").await
            }
            1 => {
                self.sql("SAVEPOINT s").await?;
                self.event().await?;
                self.pause().await?;
                self.sql("ROLLBACK TO s").await?;
                self.event().await?;
                self.sql("COMMIT").await
            }
            2 => {
                let bad = "INSERT INTO {schema}.events (type, payload) VALUES ('', '')";
                self.sql(bad).await.unwrap_err();
                self.sql("ROLLBACK").await
            }
            3 => {
                self.event().await?;
                let name = format!("{{schema}} {} {turn}", self.name);
                self.sql(&format!("PREPARE TRANSACTION '{name}'")).await?;
                self.pause().await?;
                let end = if self.dice.below(2) == 0 { "COMMIT" } else { "ROLLBACK" };
                self.sql(&format!("{end} PREPARED '{name}'")).await
            }
            _ => {
                self.event().await?;
                self.pause().await?;
                self.sql("COMMIT").await
            }
        }
    }

    /// Locks the key's row, then writes.
    async fn event(&mut self) -> Result<()> {
        let key = format!("k{}", self.dice.below(KEYS));
        let raise = "UPDATE {schema}.keys SET version = version + 1 WHERE key = $1 RETURNING version";
        let row = self.client.query_one(&self.case.sql(raise), &[&key]).await.map_err(failed)?;
        let version: i64 = row.get(0);
        let event = Event::new("raised", version.to_string()).with_key(key);
        self.case.outbox().write(&self.client, event).await?;
        Ok(())
    }

    /// Some round trips to the server.
    async fn pause(&mut self) -> Result<()> {
        for _ in 0..self.dice.below(12) {
            self.sql("SELECT 1").await?;
        }
        Ok(())
    }

    async fn sql(&self, sql: &str) -> Result<()> {
        self.client.batch_execute(&self.case.sql(sql)).await.map_err(failed)
    }
}

/// A relay that delivers what it claims and loses its memory now and then.
#[derive(Default)]
struct Relay {
    progress: Progress,
    delivered: Vec<StoredEvent>,
    /// Ranges of positions told to be dead.
    buried: usize,
}

impl Relay {
    /// Claims for a while with one claimer, in small pages.
    async fn session(&mut self, store: &dyn Store, dice: &mut Dice) -> Result<()> {
        let mut claimer = store.claimer(&self.progress);
        for _ in 0..dice.below(10) + 2 {
            let events_max = usize::try_from(dice.below(40)).unwrap_or(0) + 1;
            self.claim(&mut *claimer, events_max).await?;
        }
        Ok(())
    }

    /// Claims until everything up to a position is delivered or dead.
    async fn finish(&mut self, store: &dyn Store, last: i64) -> Result<()> {
        let mut claimer = store.claimer(&self.progress);
        while self.progress.done.floor().get() < last {
            self.claim(&mut *claimer, 1_000).await?;
        }
        Ok(())
    }

    async fn claim(&mut self, claimer: &mut dyn Claimer, events_max: usize) -> Result<()> {
        let claimed = claimer.claim(Budget { events_max, bytes_max: 1 << 20 }).await?;
        let Claimed::Page(page) = claimed else { panic!("the history did not change: {claimed:?}") };
        for event in &page.events {
            self.progress.done.insert(event.position);
            let mark = Mark { position: event.position, id: event.event.id };
            let highest = self.progress.highest.filter(|known| known.position > mark.position);
            self.progress.highest = highest.or(Some(mark));
        }
        for (first, last) in page.dead {
            self.progress.done.insert_range(first, last);
            self.buried += 1;
        }
        self.delivered.extend(page.events);
        Ok(())
    }
}

/// What everybody would write first: everything after the last position seen.
struct Naive {
    last: i64,
    delivered: HashSet<i64>,
}

impl Naive {
    async fn read(&mut self, case: &Case) -> Result<()> {
        let sql = case.sql("SELECT position FROM {schema}.events WHERE position > $1 ORDER BY position");
        for row in case.client.query(&sql, &[&self.last]).await.map_err(failed)? {
            self.last = row.get(0);
            self.delivered.insert(self.last);
        }
        Ok(())
    }
}

fn out_of_order(delivered: &[StoredEvent]) -> usize {
    let mut versions: HashMap<&str, i64> = HashMap::new();
    let mut wrong = 0;
    for StoredEvent { event, .. } in delivered {
        let version: i64 = std::str::from_utf8(&event.payload).unwrap().parse().unwrap();
        let before = versions.insert(event.ordering_key().unwrap(), version).unwrap_or(0);
        wrong += usize::from(version != before + 1);
    }
    wrong
}

async fn storm(case: Case, shares_its_server: bool) -> Result<()> {
    case.run(
        "CREATE TABLE {schema}.keys (key text PRIMARY KEY, version bigint NOT NULL);
         INSERT INTO {schema}.keys SELECT 'k' || n, 0 FROM generate_series(0, 9) AS n",
    )
    .await?;
    let case = std::sync::Arc::new(case);
    let store = case.store().await?;
    let mut writers = JoinSet::new();
    for name in 0..WRITERS {
        let client = case.another().await?;
        writers.spawn(Writer { client, case: case.clone(), dice: Dice(name * 7 + 1), name }.run());
    }
    let (mut relay, mut naive) = (Relay::default(), Naive { last: 0, delivered: HashSet::new() });
    let mut dice = Dice(99);
    while !writers.is_empty() {
        relay.session(&store, &mut dice).await?;
        naive.read(&case).await?;
        while let Some(ended) = writers.try_join_next() {
            ended.map_err(failed)??;
        }
    }
    let dead_while_they_ran = relay.buried;
    let committed: Vec<i64> =
        case.one("SELECT array_agg(position ORDER BY position) FROM {schema}.events").await?;
    let last = committed.last().copied().unwrap_or_default();
    tokio::time::timeout(LONG, relay.finish(&store, last)).await.map_err(failed)??;
    naive.read(&case).await?;

    let mut delivered: Vec<i64> = relay.delivered.iter().map(|event| event.position.get()).collect();
    println!(
        "storm: {} events, {dead_while_they_ran} ranges buried while writers ran, \
         `position > last` would have lost {}",
        committed.len(),
        committed.len() - naive.delivered.len(),
    );
    assert_eq!(out_of_order(&relay.delivered), 0);
    delivered.sort_unstable();
    assert_eq!(delivered, committed, "each committed event once, and no other");
    assert!(dead_while_they_ran > 0 || shares_its_server, "a storm in which no hole died proves nothing");
    assert!(naive.delivered.len() < committed.len(), "a storm that the naive reader survives proves nothing");
    Ok(())
}

case! {
    async fn a_storm_of_writers_loses_nothing_and_keeps_every_key_in_order(case) {
        storm(case, false).await?;
    }
}

case! {
    async fn nor_does_it_with_the_cheap_rule_alone(mut case) {
        case.config = case.config.list_writers_after(Duration::MAX);
        // A transaction of a test that runs beside this one keeps every hole alive.
        storm(case, true).await?;
    }
}

case! {
    async fn nor_while_a_transaction_stays_open_all_the_time(case) {
        let open = case.another().await?;
        open.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.map_err(failed)?;
        storm(case, false).await?;
        open.batch_execute("ROLLBACK").await.map_err(failed)?;
    }
}
