//! No phantom: what is visible at a destination was committed before.

use super::{Check, Promise, Seen, View};

#[derive(Debug)]
pub(super) struct NoPhantom;

impl Check for NoPhantom {
    fn promise(&self) -> Promise {
        Promise::NoPhantom
    }

    fn observe(&mut self, view: &View<'_>, seen: &Seen<'_>) -> Result<(), String> {
        match seen {
            Seen::Written { owner, fact } if view.facts.get(*fact).committed.is_none() => {
                Err(format!("{owner} delivered {}, which is not committed", view.facts.get(*fact)))
            }
            _ => Ok(()),
        }
    }
}
