//! Interned names of destinations.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of names kept. Beyond it, new names only cost more allocations.
const NAMES_MAX: usize = 1_000;

/// Returns one shared text per name, so that events with the same destination need no separate copies.
#[derive(Debug, Default)]
pub(super) struct NameCache(Mutex<Interned>);

#[derive(Debug, Default)]
struct Interned {
    names: HashSet<Arc<str>>,
    /// Reused for building a name before the lookup.
    buffer: String,
}

impl NameCache {
    /// The name that consists of these parts.
    pub(super) fn join(&self, parts: &[&str]) -> Arc<str> {
        let write = |name: &mut String| {
            name.extend(parts.iter().copied());
            true
        };
        self.intern(write).unwrap_or_default()
    }

    /// The name that `write` writes; `None` if it returns `false`.
    pub(super) fn intern(&self, write: impl FnOnce(&mut String) -> bool) -> Option<Arc<str>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Interned { names, buffer } = &mut *known;
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
        let names = NameCache::default();
        let (first, second) = (names.join(&["a", "b"]), names.join(&["ab"]));
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(names.intern(|_| false), None);
    }

    #[test]
    fn the_number_of_names_kept_is_limited() {
        let names = NameCache::default();
        for number in 0..3 * NAMES_MAX {
            assert_eq!(*names.join(&[&number.to_string()]), number.to_string());
            assert!(names.0.lock().unwrap().names.len() <= NAMES_MAX);
        }
    }
}
