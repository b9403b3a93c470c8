//! The report of a storm.

use std::fmt;
use std::ops::AddAssign;

use postrider_testkit::verify::Verdict;

use super::designs::Design;
use super::reader::ReaderStats;
use super::round::{Round, WRITERS};
use super::writers::{Operation, OperationCounts};

/// A design error that was detected.
pub(crate) struct Detected {
    pub(crate) design: Design,
    /// The round; if `None`, the schedule.
    pub(crate) seed: Option<u64>,
    pub(crate) verdict: Verdict,
}

pub(crate) fn print_detected(detected: &[Detected]) {
    println!("{:44} {:>8} {:>8} {:>8} {:>12}", "wrong design", "seed", "events", "lost", "out of order");
    for Detected { design, seed, verdict } in detected {
        let seed = seed.map_or_else(|| "schedule".to_owned(), |seed| seed.to_string());
        let Verdict { written, lost, out_of_order, .. } = verdict;
        println!("{:44} {seed:>8} {written:>8} {lost:>8} {out_of_order:>12}", design.text());
    }
}

impl Round {
    /// Asserts what must hold for every round.
    pub(crate) fn check(&self, seed: u64) {
        for (name, verdict, stats) in &self.readers {
            assert!(verdict.is_clean(), "STORM_SEED={seed}: {name}: {verdict}");
            let bound = stats.duplicates_max as usize;
            assert!(verdict.duplicates <= bound, "STORM_SEED={seed}: {name}: {verdict}, bound {bound}");
        }
    }
}

/// The sum of all rounds.
#[derive(Default)]
pub(crate) struct Totals {
    rounds: u64,
    events: u64,
    counts: OperationCounts,
    readers: Vec<(String, Verdict, ReaderStats)>,
}

impl AddAssign<Round> for Totals {
    fn add_assign(&mut self, round: Round) {
        self.rounds += 1;
        self.events += round.events;
        self.counts += round.counts;
        if self.readers.is_empty() {
            self.readers = round.readers;
            return;
        }
        for ((_, verdict, stats), (_, v, f)) in self.readers.iter_mut().zip(round.readers) {
            verdict.written += v.written;
            verdict.delivered += v.delivered;
            verdict.distinct += v.distinct;
            verdict.lost += v.lost;
            verdict.phantom += v.phantom;
            verdict.out_of_order += v.out_of_order;
            verdict.duplicates += v.duplicates;
            stats.crashes += f.crashes;
            stats.takeovers += f.takeovers;
            stats.duplicates_max += f.duplicates_max;
            stats.declared_empty += f.declared_empty;
            stats.holes_max = stats.holes_max.max(f.holes_max);
        }
    }
}

impl Totals {
    /// Whether a relay has taken over from another. If relays run long, a short storm may have no takeover.
    #[cfg(feature = "mysql")]
    pub(crate) fn has_takeovers(&self) -> bool {
        self.readers.iter().any(|(.., stats)| stats.takeovers > 0)
    }

    /// Asserts that every kind of operation occurred: otherwise the storm proves nothing.
    pub(crate) fn check(&self) {
        let all =
            |count: fn(&ReaderStats) -> u64| self.readers.iter().map(|(.., stats)| count(stats)).sum::<u64>();
        assert!(all(|stats| stats.declared_empty) > 0, "no hole was declared empty while writers ran");
        assert!(all(|stats| stats.crashes) > 0, "no reader crashed");
        assert!(all(|stats| stats.takeovers) > 0, "no relay took over from another");
        let happened = Operation::SPECIAL.into_iter().all(|operation| self.counts.of(operation) > 0);
        assert!(happened, "not everything happened: {:?}", self.counts);
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rollbacks, savepoints, failed, prepared, bulk, lost] =
            Operation::SPECIAL.map(|operation| self.counts.of(operation));
        writeln!(
            f,
            "{} rounds, {WRITERS} writers: {} events, {} transactions, {rollbacks} rolled back, \
             {savepoints} savepoints, {failed} failed statements, {prepared} prepared, {bulk} bulk, \
             {lost} connections lost",
            self.rounds,
            self.events,
            self.counts.of(Operation::Transaction)
        )?;
        for (name, verdict, stats) in &self.readers {
            let ReaderStats { crashes, takeovers, duplicates_max, declared_empty, holes_max } = stats;
            writeln!(f, "{name}")?;
            writeln!(f, "    {verdict} (at most {duplicates_max})")?;
            write!(f, "    {crashes} crashes")?;
            if *takeovers > 0 {
                writeln!(f, ", {takeovers} takeovers")?;
            } else {
                writeln!(
                    f,
                    ", {declared_empty} holes declared empty while writers ran, at most {holes_max} holes at once"
                )?;
            }
        }
        Ok(())
    }
}
