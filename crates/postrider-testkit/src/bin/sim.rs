//! Plays simulated histories: `sim --seed 42` with a trace, `sim --seeds 0..10000` with a summary.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]

use std::ops::Range;
use std::process::ExitCode;

use postrider_testkit::sim::{Tally, Trace, play};

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

/// One history, line by line.
fn replay(seed: u64) -> ExitCode {
    let history = play(seed, None, Trace::on());
    print!("{}", history.trace);
    match history.complaint() {
        Some(complaint) => {
            println!("{complaint}");
            ExitCode::FAILURE
        }
        None => {
            println!("seed {seed} kept every promise");
            ExitCode::SUCCESS
        }
    }
}

/// Many histories on two threads, each of them alone.
fn sweep(seeds: Range<u64>) -> ExitCode {
    let (from, to) = (seeds.start, seeds.end);
    let half = |offset: u64| {
        std::thread::spawn(move || {
            let (mut tally, mut complaints) = (Tally::default(), Vec::new());
            for seed in (from + offset..to).step_by(2) {
                let history = play(seed, None, Trace::off());
                tally.merge(&history.tally);
                complaints.extend(history.complaint().map(|complaint| (seed, complaint)));
                if (seed - from) % 1000 < 2 {
                    eprintln!("seed {seed} of {from}..{to}, {} failed", complaints.len());
                }
            }
            (tally, complaints)
        })
    };
    let (mut tally, mut complaints) = (Tally::default(), Vec::new());
    for thread in [half(0), half(1)] {
        let Ok((counted, failed)) = thread.join() else { return ExitCode::FAILURE };
        tally.merge(&counted);
        complaints.extend(failed);
    }
    print!("{tally}");
    complaints.sort_unstable();
    for (_, complaint) in complaints.iter().take(40) {
        println!("{complaint}");
    }
    println!("{} of {} seeds kept every promise", (to - from) - complaints.len() as u64, to - from);
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
