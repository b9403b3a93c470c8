//! History: after a restore a subscription halts, or delivers everything the restored database holds.

use super::loss::nothing_missing;
use super::{Check, Promise, Seen, View};

#[derive(Debug, Default)]
pub(super) struct History {
    restored: bool,
}

impl Check for History {
    fn promise(&self) -> Promise {
        Promise::History
    }

    fn observe(&mut self, _: &View<'_>, seen: &Seen<'_>) -> Result<(), String> {
        self.restored |= matches!(seen, Seen::Restored { .. });
        Ok(())
    }

    fn finish(&mut self, view: &View<'_>) -> Result<(), String> {
        if self.restored { nothing_missing(view) } else { Ok(()) }
    }
}
