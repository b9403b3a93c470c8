//! The final check: compares the committed events with those that each subscription received.

use std::cmp::Reverse;
use std::time::Duration;

use postrider_verify::{Sighting, Verdict, verify};
use serde::Serialize;

use super::folder::Folder;
use crate::exit::Exit;
use crate::failure::Failure;

/// The result of a demo. The figures at the top are those of the worst subscription, so that a reader needs only
/// these.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// Whether all guarantees held.
    pub(crate) ok: bool,
    #[serde(flatten)]
    pub(crate) worst: Figures,
    /// Transactions that were rolled back, each with an event that must not be delivered.
    pub(crate) rolled_back: u64,
    /// From opening to the last delivery.
    pub(crate) seconds: f64,
    /// Whether the user closed the shop early.
    pub(crate) interrupted: bool,
    /// Where the files are, if they were kept.
    pub(crate) folder: Option<String>,
    pub(crate) subscriptions: Vec<Tested>,
}

/// What one subscription received.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Tested {
    pub(crate) name: &'static str,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    pub(crate) retries: u64,
    /// The longest observed wait of an event.
    pub(crate) oldest_max_ms: u64,
}

/// The audit's numbers; see [`Verdict`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Figures {
    pub(crate) written: usize,
    pub(crate) delivered: usize,
    pub(crate) distinct: usize,
    pub(crate) lost: usize,
    pub(crate) phantom: usize,
    pub(crate) out_of_order: usize,
    pub(crate) duplicates: usize,
}

impl Figures {
    /// Sort order of the results: lost, invented or misordered events weigh more than duplicates.
    fn badness(&self) -> (usize, usize) {
        (self.lost + self.phantom + self.out_of_order, self.duplicates)
    }
}

impl From<Verdict> for Figures {
    fn from(verdict: Verdict) -> Self {
        let Verdict { written, delivered, distinct, lost, phantom, out_of_order, duplicates } = verdict;
        Self { written, delivered, distinct, lost, phantom, out_of_order, duplicates }
    }
}

impl Tested {
    /// Compares.
    pub(super) fn new(name: &'static str, committed: &[Sighting], received: &[Sighting]) -> Self {
        Self { name, figures: verify(committed, received).into(), retries: 0, oldest_max_ms: 0 }
    }

    pub(super) fn retries(self, retries: u64) -> Self {
        Self { retries, ..self }
    }

    pub(super) fn oldest_max(self, oldest: Duration) -> Self {
        Self { oldest_max_ms: u64::try_from(oldest.as_millis()).unwrap_or(u64::MAX), ..self }
    }
}

impl Report {
    pub(super) fn new(subscriptions: Vec<Tested>, rolled_back: u64, seconds: f64, interrupted: bool) -> Self {
        // Of equal ones, the first.
        let worst = subscriptions.iter().map(|tested| tested.figures).min_by_key(|f| Reverse(f.badness()));
        let worst = worst.unwrap_or_default();
        let seconds = (seconds * 1_000.0).round() / 1_000.0;
        let ok = worst.badness().0 == 0;
        Self { ok, worst, rolled_back, seconds, interrupted, folder: None, subscriptions }
    }

    /// Adds where the files are, if they are kept.
    pub(crate) fn in_folder(mut self, folder: &Folder) -> Self {
        self.folder = folder.stays().then(|| folder.path().display().to_string());
        self
    }

    /// The result of the command: a failed check takes precedence over an interruption.
    ///
    /// # Errors
    /// [`Exit::Failed`] or [`Exit::Interrupted`].
    pub(crate) fn ended(&self) -> Result<(), Failure> {
        match (self.ok, self.interrupted) {
            (false, _) => Err(Failure::Reported(Exit::Failed)),
            (true, true) => Err(Failure::Reported(Exit::Interrupted)),
            (true, false) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn events(versions: &[u64]) -> Vec<Sighting> {
        let event =
            |v: &u64| Sighting { id: Uuid::from_u128(u128::from(*v)), key: "ada".into(), version: *v };
        versions.iter().map(event).collect()
    }

    fn report(received: [&[u64]; 2]) -> Report {
        let committed = events(&[1, 2, 3]);
        let tested = ["audit", "analytics"].into_iter().zip(received);
        let tested = tested.map(|(name, got)| Tested::new(name, &committed, &events(got)));
        Report::new(tested.collect(), 0, 1.0, false)
    }

    #[test]
    fn the_top_shows_the_subscription_that_fared_worst() {
        assert_eq!(report([&[1, 2, 3], &[1, 2]]).worst.lost, 1);
        assert_eq!(report([&[1, 1, 2, 3], &[1, 2, 3]]).worst.duplicates, 1);
    }

    #[test]
    fn a_loss_a_phantom_and_a_wrong_order_each_fail_the_check() {
        assert!(report([&[1, 2, 3], &[1, 2, 3]]).ok);
        for wrong in [&[1, 2][..], &[1, 2, 3, 4], &[1, 3, 2]] {
            assert!(!report([&[1, 2, 3], wrong]).ok, "{wrong:?}");
        }
    }
}
