//! The session of a store: one ownership of the lease.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex as StdMutex, PoisonError};

use tokio::sync::Mutex;

use super::session_rows::SessionRows;
use crate::layout::{Ability, ColumnMap, RowTable};
use crate::store::Epoch;

/// What is known about the rows while a lease is held. In memory only.
pub(crate) struct RowSession {
    current: StdMutex<Current>,
    /// Held while parked rows are handed out or settled: a row must not lose its mark while it is handed out.
    pub(crate) handout: Mutex<()>,
    /// Whether deliveries are noted, so that retention knows which rows Postrider delivered.
    notes_deliveries: AtomicBool,
}

struct Current {
    subscription: String,
    known: SessionRows,
}

impl Default for RowSession {
    fn default() -> Self {
        let current = Current { subscription: String::new(), known: SessionRows::new(Epoch::default()) };
        Self {
            current: StdMutex::new(current),
            handout: Mutex::default(),
            notes_deliveries: AtomicBool::new(false),
        }
    }
}

impl RowSession {
    pub(crate) fn with_rows<T>(&self, act: impl FnOnce(&mut SessionRows) -> T) -> T {
        act(&mut self.current.lock().unwrap_or_else(PoisonError::into_inner).known)
    }

    /// Notes deliveries from now on, if the table needs it. Tables whose rows cannot show a delivery are noted anyway,
    /// and rows that are deleted on delivery need no note.
    pub(crate) fn note_deliveries(&self, table: &RowTable) {
        let shows_delivery = |map: &ColumnMap| !map.only_notes_deliveries() && !map.deletes_deliveries();
        let has_rows_of_others = !table.layout().has(Ability::Notifications);
        let notes = has_rows_of_others && table.columns().is_none_or(shows_delivery);
        self.notes_deliveries.store(notes, Ordering::Relaxed);
    }

    /// Whether deliveries are noted.
    pub(crate) fn notes_deliveries(&self) -> bool {
        self.notes_deliveries.load(Ordering::Relaxed)
    }

    pub(crate) fn subscription(&self) -> String {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).subscription.clone()
    }

    /// Starts a session with the rows that were loaded with its lease.
    pub(crate) fn begin(&self, subscription: String, known: SessionRows) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Current { subscription, known };
    }
}
