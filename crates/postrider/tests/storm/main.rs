//! The storm: many writers at once, and readers of every kind, right and wrong, that deliver what they commit.
//!
//! First the wrong designs are run against it, and each must be caught. Only then do the zeros of the right one
//! count: nothing lost, nothing invented, every key in order, no more duplicates than crashes explain, and no
//! event waits for a transaction other than its own.
//!
//! `STORM_SECONDS=600` makes it long, `STORM_SEED=n` begins with that seed.
#![cfg(all(unix, feature = "postgres"))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "clippy sees only the tests themselves as tests, not their helpers"
)]

mod claimer;
mod crew;
mod database;
mod designs;
mod dice;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "mysql")]
mod mysql_storm;
mod postgres;
mod reader;
mod report;
mod round;
mod schedule;
mod weather;
mod writers;
mod wrong;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use postrider::Result;
use postrider_testkit::audit::Verdict;
use postrider_testkit::servers;

use claimer::Alone;
use crew::Crew;
use database::{Database, Proof};
use designs::{Design, WRONG};
use postgres::Postgres;
use reader::Reader;
use report::Sum;
use round::Plan;
use writers::KEYS;
use wrong::Hunt;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_that_catches_every_wrong_design_finds_no_error_in_the_store() -> Result<()> {
    let Some(url) = servers::postgres::url() else { return Ok(()) };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("STORM_SEED").unwrap_or_else(|| RandomState::new().hash_one("storm") % 1_000_000);
    let seconds = number("STORM_SECONDS").unwrap_or(12);
    println!("storm on PostgreSQL, STORM_SEED={seed} STORM_SECONDS={seconds}");
    let started = tokio::time::Instant::now();
    catch_the_wrong_designs(url, seed).await?;

    // Long enough for crashes and lists, short enough that a seed that fails is soon run again.
    let phase = Duration::from_millis((seconds * 1_000 / 4).clamp(1_000, 7_000));
    let mut sum = Sum::default();
    for seed in seed.. {
        let database = Arc::new(Postgres::new(url, KEYS).await?);
        let readers: Vec<Box<dyn Reader>> = vec![
            Box::new(Crew::new(&database, seed)),
            Box::new(Alone::new(&database, Proof::WritersAtOnce, seed)),
            Box::new(Alone::new(&database, Proof::HorizonAlone, seed)),
        ];
        let plan = Plan { seed, phase, delivers_all: true, quiet_alone: false };
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
async fn catch_the_wrong_designs(url: &'static str, first: u64) -> Result<()> {
    let mut hunt = Hunt::of(WRONG.as_slice());
    hunt.storm(first, async || Postgres::new(url, KEYS).await).await?;
    let need_a_moment = [Design::StampedWithXmax, Design::TwoStatements, Design::WritersAfterRows];
    hunt.end(&need_a_moment, async |design| in_the_schedule(url, design).await).await
}

async fn in_the_schedule(url: &'static str, design: Design) -> Result<Verdict> {
    let database = Arc::new(Postgres::new(url, KEYS).await?);
    let verdict = schedule::run(&database, design).await?;
    database.remove().await?;
    Ok(verdict)
}
