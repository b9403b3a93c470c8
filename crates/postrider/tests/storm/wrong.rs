//! The wrong designs in the storm: each must be caught, and the control must not.

use std::sync::Arc;
use std::time::Duration;

use postrider::Result;
use postrider_testkit::audit::Verdict;

use super::database::Database;
use super::designs::{Design, Designed};
use super::reader::Reader;
use super::report::{self, Caught};
use super::round::{self, Plan};

/// Rounds that a wrong design may survive, before it is shown the moment it must not survive.
const SEEDS_MAX: u64 = 2;

/// How long a phase of a round against wrong designs is.
pub(crate) const WRONG_PHASE: Duration = Duration::from_millis(1_500);

/// The wrong designs that are still at large, and those that were caught.
pub(crate) struct Hunt {
    at_large: Vec<Design>,
    pub(crate) caught: Vec<Caught>,
}

impl Hunt {
    pub(crate) fn of(wrong: &[Design]) -> Self {
        Self { at_large: wrong.to_vec(), caught: Vec::new() }
    }

    /// All of them in a storm on a new database, until each is caught or has survived [`SEEDS_MAX`] rounds.
    pub(crate) async fn storm<D: Database>(
        &mut self,
        first: u64,
        database: impl AsyncFn() -> Result<D>,
    ) -> Result<()> {
        for seed in first..first + SEEDS_MAX {
            self.round(&Arc::new(database().await?), seed).await?;
            if self.at_large.is_empty() {
                break;
            }
        }
        Ok(())
    }

    async fn round<D: Database>(&mut self, database: &Arc<D>, seed: u64) -> Result<()> {
        let designs = self.at_large.iter().chain([&Design::Right]);
        let readers: Vec<Box<dyn Reader>> = designs
            .map(|design| -> Box<dyn Reader> { Box::new(Designed::new(database, *design, seed)) })
            .collect();
        let plan = Plan { seed, phase: WRONG_PHASE, delivers_all: false, quiet_alone: false };
        let round = round::run(database, plan, readers).await?;
        round::unless_stuck(&**database, seed, "the end", database.remove()).await?;
        for (design, (_, verdict, findings)) in self.at_large.clone().into_iter().zip(&round.readers) {
            if !verdict.is_clean() {
                self.caught.push(Caught { design, seed: Some(seed), verdict: *verdict });
                self.at_large.retain(|free| *free != design);
            } else {
                println!(
                    "seed {seed}: {} survived: {verdict}, declared_empty {}",
                    design.text(),
                    findings.declared_empty
                );
            }
        }
        let (_, control, findings) = round.readers.last().unwrap();
        assert!(
            control.is_clean() && control.duplicates == 0,
            "seed {seed}: the control is caught: {control}"
        );
        assert!(findings.declared_empty > 0, "seed {seed}: no hole was declared empty");
        println!("seed {seed}: control {control}, declared_empty {}", findings.declared_empty);
        Ok(())
    }

    /// Shows those that survived the moment that they must not survive. Mistakes that need a moment are caught in
    /// theirs, whatever the storm did.
    pub(crate) async fn end(
        mut self,
        need_a_moment: &[Design],
        in_the_schedule: impl AsyncFn(Design) -> Result<Verdict>,
    ) -> Result<()> {
        for design in std::mem::take(&mut self.at_large) {
            let verdict = in_the_schedule(design).await?;
            match verdict.is_clean() {
                true => self.at_large.push(design),
                false => self.caught.push(Caught { design, seed: None, verdict }),
            }
        }
        report::print_caught(&self.caught);
        assert!(self.at_large.is_empty(), "these wrong designs were not caught: {:?}", self.at_large);
        let control = in_the_schedule(Design::Right).await?;
        assert!(control.is_clean() && control.duplicates == 0, "the schedule catches the control: {control}");
        for design in need_a_moment {
            let verdict = in_the_schedule(*design).await?;
            assert!(!verdict.is_clean(), "the schedule does not catch {design:?}: {verdict}");
        }
        Ok(())
    }
}
