//! Runs simulations: `sim --seed 42` with a trace, `sim --seeds 0..10000` with a summary.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]

use std::ops::Range;
use std::process::ExitCode;

use postrider_testkit::sim::{Tally, Trace, run};

const USAGE: &str = "usage: sim --seed N | --seeds FROM..TO";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--seed", seed] => match seed.parse() {
            Ok(seed) => replay(seed),
            Err(_) => usage(),
        },
        ["--seeds", range] => match parse(range) {
            Some(seeds) => sweep(seeds),
            None => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn parse(range: &str) -> Option<Range<u64>> {
    let (from, to) = range.split_once("..")?;
    Some(from.parse().ok()?..to.parse().ok()?)
}

/// Runs one seed and prints its trace.
fn replay(seed: u64) -> ExitCode {
    let history = run(seed, None, Trace::on());
    print!("{}", history.trace);
    match history.failure() {
        Some(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
        None => {
            println!("seed {seed} kept every promise");
            ExitCode::SUCCESS
        }
    }
}

/// Runs many seeds on two threads.
fn sweep(seeds: Range<u64>) -> ExitCode {
    let (from, to) = (seeds.start, seeds.end);
    let half = |offset: u64| {
        std::thread::spawn(move || {
            let (mut tally, mut failures) = (Tally::default(), Vec::new());
            for seed in (from + offset..to).step_by(2) {
                let history = run(seed, None, Trace::off());
                tally.merge(&history.tally);
                failures.extend(history.failure().map(|failure| (seed, failure)));
                if (seed - from) % 1000 < 2 {
                    eprintln!("seed {seed} of {from}..{to}, {} failed", failures.len());
                }
            }
            (tally, failures)
        })
    };
    let (mut tally, mut failures) = (Tally::default(), Vec::new());
    for thread in [half(0), half(1)] {
        let Ok((counted, failed)) = thread.join() else { return ExitCode::FAILURE };
        tally.merge(&counted);
        failures.extend(failed);
    }
    print!("{tally}");
    failures.sort_unstable();
    for (_, failure) in failures.iter().take(40) {
        println!("{failure}");
    }
    println!("{} of {} seeds kept every promise", (to - from) - failures.len() as u64, to - from);
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
