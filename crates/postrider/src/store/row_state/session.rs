//! The one session of a store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex as StdMutex, PoisonError};

use tokio::sync::Mutex;

use super::plan::SettlePlan;
use super::session_rows::SessionRows;
use crate::layout::{ColumnMap, RowTable};
use crate::store::Epoch;

/// What is known about the rows while a lease is held. In memory only.
pub(crate) struct RowSession {
    now: StdMutex<Now>,
    /// Held while parked rows are handed out or settled: a row must not lose its mark while it is handed out.
    pub(crate) handout: Mutex<()>,
    /// Whether deliveries are noted, so that retention knows which rows Postrider delivered.
    notes_deliveries: AtomicBool,
}

struct Now {
    subscription: String,
    known: SessionRows,
}

impl Default for RowSession {
    fn default() -> Self {
        let now = Now { subscription: String::new(), known: SessionRows::new(Epoch::default()) };
        Self { now: StdMutex::new(now), handout: Mutex::default(), notes_deliveries: AtomicBool::new(false) }
    }
}

impl RowSession {
    pub(crate) fn with_rows<T>(&self, act: impl FnOnce(&mut SessionRows) -> T) -> T {
        act(&mut self.now.lock().unwrap_or_else(PoisonError::into_inner).known)
    }

    /// From now on deliveries are noted. Where rows cannot say that they were delivered they are noted anyway, and
    /// where they are deleted there is nothing to note.
    pub(crate) fn trace(&self, table: &RowTable) {
        let says_so = |map: &ColumnMap| !map.only_notes_deliveries() && !map.deletes_deliveries();
        self.notes_deliveries.store(table.columns().is_none_or(says_so), Ordering::Relaxed);
    }

    /// Whether deliveries are noted.
    pub(crate) fn notes_deliveries(&self) -> bool {
        self.notes_deliveries.load(Ordering::Relaxed)
    }

    /// The delivered rows to note, after a plan was recorded and `changed` rows were changed. None if that is fewer
    /// than planned: then another publisher changed some of them, and it is not known which.
    pub(crate) fn noted(&self, plan: &SettlePlan, changed: Option<usize>) -> Vec<String> {
        let is_ours = changed == Some(plan.rows()) && self.notes_deliveries();
        if is_ours { plan.done.ids.clone() } else { Vec::new() }
    }

    pub(crate) fn subscription(&self) -> String {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).subscription.clone()
    }

    /// Starts a session with the rows that were loaded with its lease.
    pub(crate) fn begin(&self, subscription: String, known: SessionRows) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Now { subscription, known };
    }
}
