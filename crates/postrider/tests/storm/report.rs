//! The report of a storm.

use std::fmt;
use std::ops::AddAssign;

use postrider_testkit::audit::Verdict;

use super::designs::Design;
use super::reader::Findings;
use super::round::{Round, WRITERS};
use super::writers::{Deed, Tally};

/// A wrong design that was detected.
pub(crate) struct Caught {
    pub(crate) design: Design,
    /// The round; if `None`, the schedule.
    pub(crate) seed: Option<u64>,
    pub(crate) verdict: Verdict,
}

pub(crate) fn print_caught(caught: &[Caught]) {
    println!("{:44} {:>8} {:>8} {:>8} {:>12}", "wrong design", "seed", "events", "lost", "out of order");
    for Caught { design, seed, verdict } in caught {
        let seed = seed.map_or_else(|| "schedule".to_owned(), |seed| seed.to_string());
        let Verdict { written, lost, out_of_order, .. } = verdict;
        println!("{:44} {seed:>8} {written:>8} {lost:>8} {out_of_order:>12}", design.text());
    }
}

impl Round {
    /// Asserts what must hold for every round.
    pub(crate) fn check(&self, seed: u64) {
        for (name, verdict, findings) in &self.readers {
            assert!(verdict.is_clean(), "STORM_SEED={seed}: {name}: {verdict}");
            let bound = findings.duplicates_max as usize;
            assert!(verdict.duplicates <= bound, "STORM_SEED={seed}: {name}: {verdict}, bound {bound}");
        }
    }
}

/// All rounds together.
#[derive(Default)]
pub(crate) struct Sum {
    rounds: u64,
    events: u64,
    tally: Tally,
    readers: Vec<(String, Verdict, Findings)>,
}

impl AddAssign<Round> for Sum {
    fn add_assign(&mut self, round: Round) {
        self.rounds += 1;
        self.events += round.events;
        self.tally += round.tally;
        if self.readers.is_empty() {
            self.readers = round.readers;
            return;
        }
        for ((_, verdict, findings), (_, v, f)) in self.readers.iter_mut().zip(round.readers) {
            verdict.written += v.written;
            verdict.delivered += v.delivered;
            verdict.distinct += v.distinct;
            verdict.lost += v.lost;
            verdict.phantom += v.phantom;
            verdict.out_of_order += v.out_of_order;
            verdict.duplicates += v.duplicates;
            findings.crashes += f.crashes;
            findings.takeovers += f.takeovers;
            findings.duplicates_max += f.duplicates_max;
            findings.declared_empty += f.declared_empty;
            findings.holes_max = findings.holes_max.max(f.holes_max);
        }
    }
}

impl Sum {
    /// Whether some relay has taken over from another. Where relays live long, a short storm may see none.
    #[cfg(feature = "mysql")]
    pub(crate) fn has_takeovers(&self) -> bool {
        self.readers.iter().any(|(.., findings)| findings.takeovers > 0)
    }

    /// A storm in which nothing happened proves nothing.
    pub(crate) fn check(&self) {
        let all = |count: fn(&Findings) -> u64| {
            self.readers.iter().map(|(.., findings)| count(findings)).sum::<u64>()
        };
        assert!(all(|findings| findings.declared_empty) > 0, "no hole was declared empty while writers ran");
        assert!(all(|findings| findings.crashes) > 0, "no reader crashed");
        assert!(all(|findings| findings.takeovers) > 0, "no relay took over from another");
        let happened = Deed::SPECIAL.into_iter().all(|deed| self.tally.of(deed) > 0);
        assert!(happened, "not everything happened: {:?}", self.tally);
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rollbacks, savepoints, failed, prepared, bulk, lost] =
            Deed::SPECIAL.map(|deed| self.tally.of(deed));
        writeln!(
            f,
            "{} rounds, {WRITERS} writers: {} events, {} transactions, {rollbacks} rolled back, \
             {savepoints} savepoints, {failed} failed statements, {prepared} prepared, {bulk} bulk, \
             {lost} connections lost",
            self.rounds,
            self.events,
            self.tally.of(Deed::Transaction)
        )?;
        for (name, verdict, findings) in &self.readers {
            let Findings { crashes, takeovers, duplicates_max, declared_empty, holes_max } = findings;
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
