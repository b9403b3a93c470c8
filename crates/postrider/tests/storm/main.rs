//! The storm: many concurrent writers, and readers that deliver the committed events. Some readers have a design error.
//!
//! First, the readers with a design error run, and the storm must detect each of them. Only after that is its result
//! for the store meaningful: no event lost, none invented, every key in order, no more duplicates than the crashes
//! explain, and no event delayed by a transaction other than its own.
//!
//! `STORM_SECONDS=600` makes it longer, `STORM_SEED=n` sets the first seed.
#![cfg(all(unix, feature = "postgres"))]
#![cfg(test)]

mod claimer;
mod database;
mod designs;
mod detection;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "mysql")]
mod mysql_storm;
mod postgres;
mod reader;
mod relays;
mod report;
mod rng;
mod round;
mod schedule;
mod storm_state;
mod writers;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use postrider::Result;
use postrider_testkit::servers;
use postrider_testkit::verify::Verdict;

use claimer::ClaimerReader;
use database::{Database, Proof};
use designs::{Design, WRONG};
use detection::Detection;
use postgres::Postgres;
use reader::Reader;
use relays::RelayGroup;
use report::Totals;
use round::Plan;
use writers::KEYS;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_that_catches_every_wrong_design_finds_no_error_in_the_store() -> Result<()> {
    let Some(url) = servers::postgres::url() else { return Ok(()) };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("STORM_SEED").unwrap_or_else(|| RandomState::new().hash_one("storm") % 1_000_000);
    let seconds = number("STORM_SECONDS").unwrap_or(12);
    println!("storm on PostgreSQL, STORM_SEED={seed} STORM_SECONDS={seconds}");
    let started = tokio::time::Instant::now();
    detect_wrong_designs(url, seed).await?;

    // Long enough for crashes and lists of writers, short enough to repeat a failing seed quickly.
    let phase = Duration::from_millis((seconds * 1_000 / 4).clamp(1_000, 7_000));
    let mut totals = Totals::default();
    for seed in seed.. {
        let database = Arc::new(Postgres::new(url, KEYS).await?);
        let readers: Vec<Box<dyn Reader>> = vec![
            Box::new(RelayGroup::new(&database, seed)),
            Box::new(ClaimerReader::new(&database, Proof::WritersAtOnce, seed)),
            Box::new(ClaimerReader::new(&database, Proof::HorizonOnly, seed)),
        ];
        let plan = Plan { seed, phase, delivers_all: true, quiet_only: false };
        let round = round::run(&database, plan, readers).await?;
        round::unless_stuck(&*database, seed, "the end", database.remove()).await?;
        round.check(seed);
        totals += round;
        if started.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
    }
    println!("{totals}");
    totals.check();
    Ok(())
}

/// The storm must detect each design error, and must not report the control.
async fn detect_wrong_designs(url: &'static str, first: u64) -> Result<()> {
    let mut detection = Detection::of(WRONG.as_slice());
    detection.storm(first, async || Postgres::new(url, KEYS).await).await?;
    let need_the_schedule = [Design::StampedWithXmax, Design::TwoStatements, Design::WritersAfterRows];
    detection.end(&need_the_schedule, async |design| in_the_schedule(url, design).await).await
}

async fn in_the_schedule(url: &'static str, design: Design) -> Result<Verdict> {
    let database = Arc::new(Postgres::new(url, KEYS).await?);
    let verdict = schedule::run(&database, design).await?;
    database.remove().await?;
    Ok(verdict)
}
