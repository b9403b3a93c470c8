//! Names of destinations, each kept once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Names kept. With more than these a new name costs an allocation, nothing else.
const NAMES_MAX: usize = 1_000;

/// Hands out one shared text per name, so that the many events of a destination need no copy of it.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    names: HashSet<Arc<str>>,
    /// Where a name is put together before it is looked up.
    buffer: String,
}

impl Names {
    /// The name made of these parts.
    pub(super) fn join(&self, parts: &[&str]) -> Arc<str> {
        let write = |name: &mut String| {
            name.extend(parts.iter().copied());
            true
        };
        self.share(write).unwrap_or_default()
    }

    /// The name that `write` writes; `None` if it says that there is none.
    pub(super) fn share(&self, write: impl FnOnce(&mut String) -> bool) -> Option<Arc<str>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { names, buffer } = &mut *known;
        buffer.clear();
        if !write(buffer) {
            return None;
        }
        if let Some(name) = names.get(buffer.as_str()) {
            return Some(name.clone());
        }
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        let name: Arc<str> = Arc::from(buffer.as_str());
        names.insert(name.clone());
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once() {
        let names = Names::default();
        let (first, second) = (names.join(&["a", "b"]), names.join(&["ab"]));
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(names.share(|_| false), None);
    }

    #[test]
    fn no_more_names_are_kept_than_may_be() {
        let names = Names::default();
        for number in 0..3 * NAMES_MAX {
            assert_eq!(*names.join(&[&number.to_string()]), number.to_string());
            assert!(names.0.lock().unwrap().names.len() <= NAMES_MAX);
        }
    }
}
