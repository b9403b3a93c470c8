//! The storm on MySQL and on MariaDB, on servers with another time zone than their readers.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use postrider::{BoxFuture, Result};
use postrider_testkit::servers::mysql::{Kind, Options, own};
use postrider_testkit::verify::Verdict;

use super::claimer::ClaimerReader;
use super::database::{Database, Probe, Proof, Session};
use super::designs::{Design, DesignReader, ReaderState, WRONG_WITHOUT_NUMBERS};
use super::detection::{Detection, WRONG_PHASE};
use super::mysql::MySql;
use super::reader::{Log, Reader};
use super::relays::RelayGroup;
use super::report::{Detected, Totals};
use super::round::{self, Plan};
use super::schedule;
use super::writers::KEYS;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_on_mysql_finds_no_error() -> Result<()> {
    let Some(url) = Kind::MySql.url() else { return Ok(()) };
    storm(Kind::MySql, url, "MySQL").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_on_mariadb_finds_no_error() -> Result<()> {
    let Some(url) = Kind::MariaDb.url() else { return Ok(()) };
    storm(Kind::MariaDb, url, "MariaDB").await
}

/// The plugin lists connections, but no transactions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_on_mariadb_with_only_its_plugin_finds_no_error() -> Result<()> {
    let options = Options::of(Kind::MariaDb).setting("max_connections=300");
    let options = options.setting("performance_schema=OFF").setting("plugin_load_add=metadata_lock_info");
    let Some(server) = own(options) else { return Ok(()) };
    ours(Kind::MariaDb, server.url(), "MariaDB, metadata_lock_info", |outbox| outbox).await
}

/// Only the transactions of the engine are listed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_on_mysql_that_reports_no_locks_finds_no_error() -> Result<()> {
    let options = Options::of(Kind::MySql).setting("max_connections=300");
    let off = "performance_schema_instrument=wait/lock/metadata/sql/mdl=OFF";
    let Some(server) = own(options.setting(off)) else { return Ok(()) };
    ours(Kind::MySql, server.url(), "MySQL, INNODB_TRX", MySql::without_locks).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_on_mariadb_that_reports_no_locks_finds_no_error() -> Result<()> {
    let options = Options::of(Kind::MariaDb).setting("max_connections=300");
    let Some(server) = own(options.setting("performance_schema=OFF")) else { return Ok(()) };
    ours(Kind::MariaDb, server.url(), "MariaDB, INNODB_TRX", MySql::without_locks).await
}

async fn storm(kind: Kind, url: &str, name: &str) -> Result<()> {
    detect_wrong_designs(kind, url, seed()).await?;
    ours(kind, url, name, |outbox| outbox).await
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn seed() -> u64 {
    number("STORM_SEED").unwrap_or_else(|| RandomState::new().hash_one("storm") % 1_000_000)
}

async fn ours(kind: Kind, url: &str, name: &str, server: fn(MySql) -> MySql) -> Result<()> {
    let (seed, seconds) = (seed(), number("STORM_SECONDS").unwrap_or(12));
    println!("storm on {name}, STORM_SEED={seed} STORM_SECONDS={seconds}");
    let started = tokio::time::Instant::now();
    let phase = Duration::from_millis((seconds * 1_000 / 4).clamp(1_000, 7_000));
    let mut totals = Totals::default();
    for seed in seed.. {
        let database = Arc::new(server(MySql::new(kind, url, KEYS).await?));
        let readers: Vec<Box<dyn Reader>> = vec![
            Box::new(RelayGroup::new(&database, seed)),
            Box::new(ClaimerReader::new(&database, Proof::WritersAtOnce, seed)),
            Box::new(ClaimerReader::new(&database, Proof::Default, seed)),
        ];
        let plan = Plan { seed, phase, delivers_all: true, quiet_only: false };
        let round = round::run(&database, plan, readers).await?;
        round::unless_stuck(&*database, seed, "the end", database.remove()).await?;
        round.check(seed);
        totals += round;
        let (elapsed, enough) = (started.elapsed(), Duration::from_secs(seconds));
        if elapsed >= enough && totals.has_takeovers() || elapsed >= 8 * enough {
            break;
        }
    }
    println!("{totals}");
    totals.check();
    Ok(())
}

/// The storm must detect each design error, and must not report the control.
async fn detect_wrong_designs(kind: Kind, url: &str, first: u64) -> Result<()> {
    let mut detection = Detection::of(WRONG_WITHOUT_NUMBERS.as_slice());
    detection.storm(first, async || MySql::new(kind, url, KEYS).await).await?;
    detection.detected.push(detect_the_design_that_relies_on_the_engine(kind, url, first).await?);
    let need_the_schedule = [
        Design::TwoStatements,
        Design::WritersAfterRows,
        Design::SilentWritersIgnored,
        Design::EngineTransactions,
        Design::EngineTimes,
        Design::NamesOfLocks,
    ];
    detection.end(&need_the_schedule, async |design| in_the_schedule(kind, url, design).await).await
}

/// The naive rule in a quiet phase: one slow writer, one quick writer, and sessions that read the engine's list
/// continuously. The list was first read when there was no writer and is never refreshed, so it never contains a
/// writer.
async fn detect_the_design_that_relies_on_the_engine(kind: Kind, url: &str, first: u64) -> Result<Detected> {
    let mut verdict = Verdict::default();
    for seed in first..first + TRIES_MAX as u64 {
        let database = Arc::new(MySql::new(kind, url, KEYS).await?);
        tokio::time::sleep(COPY_IS_OLD).await;
        let mut polls = Vec::new();
        for _ in 0..2 {
            let mut probe = database.probe().await?;
            probe.transactions().await?;
            polls.push(tokio::spawn(async move { while probe.transactions().await.is_ok() {} }));
        }
        let design = Design::EngineTransactions;
        let plan = Plan { seed, phase: WRONG_PHASE, delivers_all: false, quiet_only: true };
        let round =
            round::run(&database, plan, vec![Box::new(DesignReader::new(&database, design, seed))]).await?;
        polls.iter().for_each(tokio::task::JoinHandle::abort);
        round::unless_stuck(&*database, seed, "the end", database.remove()).await?;
        verdict = round.readers[0].1;
        if verdict.lost > 0 {
            return Ok(Detected { design, seed: Some(seed), verdict });
        }
    }
    panic!("a quiet storm with fast polls does not catch the design that trusts INNODB_TRX: {verdict}");
}

async fn in_the_schedule(kind: Kind, url: &str, design: Design) -> Result<Verdict> {
    let database = Arc::new(MySql::new(kind, url, KEYS).await?);
    let verdict = match design {
        Design::EngineTransactions => among_fast_polls(&database).await?,
        Design::NamesOfLocks => while_it_is_prepared(&database).await?,
        _ => schedule::run(&database, design).await?,
    };
    database.remove().await?;
    Ok(verdict)
}

/// After this time without a reader, the engine creates a new copy of its list.
const COPY_IS_OLD: Duration = Duration::from_millis(200);

/// A transaction is listed while it runs, is prepared, loses its connection (in the second run), and is committed. Its
/// lock then has another name, or none.
async fn while_it_is_prepared(database: &Arc<MySql>) -> Result<Verdict> {
    let mut probe = database.probe().await?;
    let (mut slow, mut quick) = (database.connect().await?, database.connect().await?);
    let (mut state, log) = (ReaderState::default(), Log::default());
    for name in ["first", "second"] {
        slow.begin(Some(name)).await?;
        slow.write("k0").await?;
        quick.begin(None).await?;
        quick.write("k1").await?;
        quick.commit().await?;
        for step in 0..8 {
            match step {
                3 => slow.prepare(name).await?,
                6 => slow.decide(name, true).await?,
                _ => {}
            }
            let mut at_once = || -> BoxFuture<'static, ()> { Box::pin(std::future::ready(())) };
            let found = state.poll(&mut probe, Design::NamesOfLocks, &mut at_once).await?;
            found.into_iter().for_each(|event| log.deliver(event.sighting));
        }
    }
    let committed: Vec<_> = database.committed().await?.into_iter().map(|event| event.sighting).collect();
    Ok(log.verify(&committed))
}

/// Retries until the polls were fast enough, because the machine may be busy.
const TRIES_MAX: usize = 20;

/// The engine's list is a copy that is not refreshed while it is read more often than every 0.1 s. It therefore does
/// not contain the slow writer that took the first position, and a reader that relies on it declares the hole empty.
async fn among_fast_polls(database: &Arc<MySql>) -> Result<Verdict> {
    let (mut probe, mut polls) = (database.probe().await?, database.probe().await?);
    let (mut slow, mut quick) = (database.connect().await?, database.connect().await?);
    let (mut state, log) = (ReaderState::default(), Log::default());
    // The list was not read for a while, so the first poll gets a new copy, in which there is no writer.
    tokio::time::sleep(COPY_IS_OLD).await;
    let polling = tokio::spawn(async move { while polls.transactions().await.is_ok() {} });
    let mut verdict = Verdict::default();
    for _ in 0..TRIES_MAX {
        // The copy is from a time before the slow writer.
        for _ in 0..20 {
            probe.transactions().await?;
        }
        slow.begin(None).await?;
        slow.write("k0").await?;
        quick.begin(None).await?;
        quick.write("k1").await?;
        quick.commit().await?;
        for step in 0..8 {
            if step == 4 {
                slow.commit().await?;
            }
            let mut at_once = || -> BoxFuture<'static, ()> { Box::pin(std::future::ready(())) };
            let found = state.poll(&mut probe, Design::EngineTransactions, &mut at_once).await?;
            found.into_iter().for_each(|event| log.deliver(event.sighting));
        }
        let committed: Vec<_> = database.committed().await?.into_iter().map(|event| event.sighting).collect();
        verdict = log.verify(&committed);
        if !verdict.is_clean() {
            break;
        }
    }
    polling.abort();
    Ok(verdict)
}
