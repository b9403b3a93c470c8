//! Runs the readers with a design error: the storm must detect each of them, and must not report the control.

use std::sync::Arc;
use std::time::Duration;

use postrider::Result;
use postrider_testkit::verify::Verdict;

use super::database::Database;
use super::designs::{Design, DesignReader};
use super::reader::Reader;
use super::report::{self, Detected};
use super::round::{self, Plan};

/// The number of rounds after which an undetected design is run in the schedule.
const SEEDS_MAX: u64 = 2;

/// The length of a phase of these rounds.
pub(crate) const WRONG_PHASE: Duration = Duration::from_millis(1_500);

/// The designs that were not detected yet, and those that were.
pub(crate) struct Detection {
    undetected: Vec<Design>,
    pub(crate) detected: Vec<Detected>,
}

impl Detection {
    pub(crate) fn of(wrong: &[Design]) -> Self {
        Self { undetected: wrong.to_vec(), detected: Vec::new() }
    }

    /// Runs all of them in a storm on a new database, until each is detected or [`SEEDS_MAX`] rounds are over.
    pub(crate) async fn storm<D: Database>(
        &mut self,
        first: u64,
        database: impl AsyncFn() -> Result<D>,
    ) -> Result<()> {
        for seed in first..first + SEEDS_MAX {
            self.round(&Arc::new(database().await?), seed).await?;
            if self.undetected.is_empty() {
                break;
            }
        }
        Ok(())
    }

    async fn round<D: Database>(&mut self, database: &Arc<D>, seed: u64) -> Result<()> {
        let designs = self.undetected.iter().chain([&Design::Right]);
        let readers: Vec<Box<dyn Reader>> = designs
            .map(|design| -> Box<dyn Reader> { Box::new(DesignReader::new(database, *design, seed)) })
            .collect();
        let plan = Plan { seed, phase: WRONG_PHASE, delivers_all: false, quiet_only: false };
        let round = round::run(database, plan, readers).await?;
        round::unless_stuck(&**database, seed, "the end", database.remove()).await?;
        for (design, (_, verdict, stats)) in self.undetected.clone().into_iter().zip(&round.readers) {
            if !verdict.is_clean() {
                self.detected.push(Detected { design, seed: Some(seed), verdict: *verdict });
                self.undetected.retain(|free| *free != design);
            } else {
                println!(
                    "seed {seed}: {} survived: {verdict}, declared_empty {}",
                    design.text(),
                    stats.declared_empty
                );
            }
        }
        let (_, control, stats) = round.readers.last().unwrap();
        assert!(
            control.is_clean() && control.duplicates == 0,
            "seed {seed}: the control is reported: {control}"
        );
        assert!(stats.declared_empty > 0, "seed {seed}: no hole was declared empty");
        println!("seed {seed}: control {control}, declared_empty {}", stats.declared_empty);
        Ok(())
    }

    /// Runs the undetected designs in the schedule, which must detect them. Errors that need a certain moment are also
    /// run in the schedule, whether the storm detected them or not.
    pub(crate) async fn end(
        mut self,
        need_the_schedule: &[Design],
        in_the_schedule: impl AsyncFn(Design) -> Result<Verdict>,
    ) -> Result<()> {
        for design in std::mem::take(&mut self.undetected) {
            let verdict = in_the_schedule(design).await?;
            match verdict.is_clean() {
                true => self.undetected.push(design),
                false => self.detected.push(Detected { design, seed: None, verdict }),
            }
        }
        report::print_detected(&self.detected);
        assert!(self.undetected.is_empty(), "these wrong designs were not detected: {:?}", self.undetected);
        let control = in_the_schedule(Design::Right).await?;
        assert!(control.is_clean() && control.duplicates == 0, "the schedule reports the control: {control}");
        for design in need_the_schedule {
            let verdict = in_the_schedule(*design).await?;
            assert!(!verdict.is_clean(), "the schedule does not detect {design:?}: {verdict}");
        }
        Ok(())
    }
}
