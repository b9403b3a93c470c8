//! History: after a restore, a subscription halts or delivers every event of the restored database.

use super::loss::nothing_missing;
use super::{Check, Observation, Promise, View};

#[derive(Debug, Default)]
pub(super) struct HistoryCheck {
    restored: bool,
}

impl Check for HistoryCheck {
    fn promise(&self) -> Promise {
        Promise::History
    }

    fn observe(&mut self, _: &View<'_>, observed: &Observation<'_>) -> Result<(), String> {
        self.restored |= matches!(observed, Observation::Restored { .. });
        Ok(())
    }

    fn finish(&mut self, view: &View<'_>) -> Result<(), String> {
        if self.restored { nothing_missing(view) } else { Ok(()) }
    }
}
