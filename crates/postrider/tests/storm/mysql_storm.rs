//! The storm on MySQL and on MariaDB, on servers in another time zone than their readers.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use postrider::{BoxFuture, Result};
use postrider_testkit::audit::Verdict;
use postrider_testkit::servers::mysql::{Kind, Options, own};

use super::claimer::Alone;
use super::crew::Crew;
use super::database::{Database, Probe, Proof, Session};
use super::designs::{Book, Design, Designed, WRONG_WITHOUT_NUMBERS};
use super::mysql::MySql;
use super::reader::{Log, Reader};
use super::report::{self, Caught, Sum};
use super::round::{self, Plan};
use super::schedule;
use super::writers::KEYS;
use super::{SEEDS_MAX, WRONG_PHASE};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_on_mysql_finds_nothing_wrong() -> Result<()> {
    let Some(url) = Kind::MySql.url() else { return Ok(()) };
    storm(Kind::MySql, url, "MySQL").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_on_mariadb_finds_nothing_wrong() -> Result<()> {
    let Some(url) = Kind::MariaDb.url() else { return Ok(()) };
    storm(Kind::MariaDb, url, "MariaDB").await
}

/// The plugin tells connections and no transactions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_on_mariadb_with_nothing_but_its_plugin_finds_nothing_wrong() -> Result<()> {
    let options = Options::of(Kind::MariaDb).setting("max_connections=300");
    let options = options.setting("performance_schema=OFF").setting("plugin_load_add=metadata_lock_info");
    let Some(server) = own(options) else { return Ok(()) };
    ours(Kind::MariaDb, server.url(), "MariaDB, metadata_lock_info").await
}

async fn storm(kind: Kind, url: &str, name: &str) -> Result<()> {
    catch_the_wrong_designs(kind, url, seed()).await?;
    ours(kind, url, name).await
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn seed() -> u64 {
    number("STORM_SEED").unwrap_or_else(|| RandomState::new().hash_one("storm") % 1_000_000)
}

async fn ours(kind: Kind, url: &str, name: &str) -> Result<()> {
    let (seed, seconds) = (seed(), number("STORM_SECONDS").unwrap_or(12));
    println!("storm on {name}, STORM_SEED={seed} STORM_SECONDS={seconds}");
    let started = tokio::time::Instant::now();
    let phase = Duration::from_millis((seconds * 1_000 / 4).clamp(1_000, 7_000));
    let mut sum = Sum::default();
    for seed in seed.. {
        let database = Arc::new(MySql::new(kind, url, KEYS).await?);
        let readers: Vec<Box<dyn Reader>> = vec![
            Box::new(Crew::new(&database, seed)),
            Box::new(Alone::new(&database, Proof::WritersAtOnce, seed)),
            Box::new(Alone::new(&database, Proof::Default, seed)),
        ];
        let plan = Plan { seed, phase, delivers_all: true };
        let round = round::run(&database, plan, readers).await?;
        round::unless_stuck(&*database, seed, "the end", database.remove()).await?;
        round.check(seed);
        sum += round;
        if started.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
    }
    println!("{sum}");
    sum.check();
    Ok(())
}

/// Each must be caught, and the control must not.
async fn catch_the_wrong_designs(kind: Kind, url: &str, first: u64) -> Result<()> {
    let (mut at_large, mut caught) = (WRONG_WITHOUT_NUMBERS.to_vec(), Vec::new());
    for seed in first..first + SEEDS_MAX {
        let database = Arc::new(MySql::new(kind, url, KEYS).await?);
        let designs = at_large.iter().chain([&Design::Right]);
        let readers: Vec<Box<dyn Reader>> = designs
            .map(|design| -> Box<dyn Reader> { Box::new(Designed::new(&database, *design, seed)) })
            .collect();
        let plan = Plan { seed, phase: WRONG_PHASE, delivers_all: false };
        let round = round::run(&database, plan, readers).await?;
        round::unless_stuck(&*database, seed, "the end", database.remove()).await?;
        for (design, (_, verdict, _)) in at_large.clone().into_iter().zip(&round.readers) {
            if !verdict.is_clean() {
                caught.push(Caught { design, seed: Some(seed), verdict: *verdict });
                at_large.retain(|free| *free != design);
            }
        }
        let (_, control, findings) = round.readers.last().unwrap();
        assert!(
            control.is_clean() && control.duplicates == 0,
            "seed {seed}: the control is caught: {control}"
        );
        assert!(findings.buried > 0, "seed {seed}: no hole died");
        println!("seed {seed}: control {control}, buried {}", findings.buried);
        if at_large.is_empty() {
            break;
        }
    }
    for design in std::mem::take(&mut at_large) {
        let verdict = in_the_schedule(kind, url, design).await?;
        match verdict.is_clean() {
            true => at_large.push(design),
            false => caught.push(Caught { design, seed: None, verdict }),
        }
    }
    report::print_caught(&caught);
    assert!(at_large.is_empty(), "these wrong designs were not caught: {at_large:?}");
    let control = in_the_schedule(kind, url, Design::Right).await?;
    assert!(control.is_clean() && control.duplicates == 0, "the schedule catches the control: {control}");
    let verdict = in_the_schedule(kind, url, Design::EngineTransactions).await?;
    assert!(verdict.lost > 0, "fast polls do not catch who believes INNODB_TRX: {verdict}");
    Ok(())
}

async fn in_the_schedule(kind: Kind, url: &str, design: Design) -> Result<Verdict> {
    let database = Arc::new(MySql::new(kind, url, KEYS).await?);
    let verdict = match design {
        Design::EngineTransactions => among_fast_polls(&database).await?,
        _ => schedule::run(&database, design).await?,
    };
    database.remove().await?;
    Ok(verdict)
}

/// Tries until the polls were fast enough, on a machine that has other things to do.
const TRIES_MAX: usize = 20;

/// The engine's list is a copy that is not made anew while somebody reads it more often than every 0.1 s. So it does not
/// tell of the slow writer that took the first position, and who believes it takes the hole for dead.
async fn among_fast_polls(database: &Arc<MySql>) -> Result<Verdict> {
    let (mut probe, mut polls) = (database.probe().await?, database.probe().await?);
    let (mut slow, mut quick) = (database.connect().await?, database.connect().await?);
    let (mut book, log) = (Book::default(), Log::default());
    // Nobody has read the list for a while, so the first poll gets a new copy; and nobody writes.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let polling = tokio::spawn(async move { while polls.transactions().await.is_ok() {} });
    let mut verdict = Verdict::default();
    for _ in 0..TRIES_MAX {
        // The copy is one of a time when the slow writer was not there.
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
            let found = book.look(&mut probe, Design::EngineTransactions, &mut at_once).await?;
            found.into_iter().for_each(|event| log.deliver(event.sighting));
        }
        let committed: Vec<_> = database.committed().await?.into_iter().map(|event| event.sighting).collect();
        verdict = log.audit(&committed);
        if !verdict.is_clean() {
            break;
        }
    }
    polling.abort();
    Ok(verdict)
}
