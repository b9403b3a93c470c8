//! No phantom: every message at a destination belongs to an event that was committed before.

use super::{Check, Observation, Promise, View};

#[derive(Debug)]
pub(super) struct NoPhantom;

impl Check for NoPhantom {
    fn promise(&self) -> Promise {
        Promise::NoPhantom
    }

    fn observe(&mut self, view: &View<'_>, observed: &Observation<'_>) -> Result<(), String> {
        match observed {
            Observation::Delivered { owner, written }
                if view.written_events.get(*written).committed.is_none() =>
            {
                Err(format!(
                    "{owner} delivered {}, which is not committed",
                    view.written_events.get(*written)
                ))
            }
            _ => Ok(()),
        }
    }
}
