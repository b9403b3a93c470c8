//! Reports what a schema loses, once per field.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Reports beyond this number are not logged: the names come from payloads.
const REPORTS_MAX: usize = 100;

/// The fields that were reported, of one binding.
#[derive(Debug, Default)]
pub(super) struct DroppedFields(Mutex<BTreeSet<String>>);

impl DroppedFields {
    /// A field of a payload that the schema does not have.
    pub(super) fn report(&self, of: &str, field: &str) {
        let field: String = field.chars().take(60).collect();
        if self.is_new(format!("{of}.{field}")) {
            tracing::warn!(
                schema = of,
                field,
                "the schema has no such field: it is not sent; this is logged once per field"
            );
        }
    }

    /// A union of which several branches fit equally well.
    pub(super) fn report_tie(&self, union: &str) {
        if self.is_new(union.to_owned()) {
            tracing::warn!(
                union,
                "several branches of a union fit equally well, the first one is used; `unions = \"strict\"` refuses such events"
            );
        }
    }

    fn is_new(&self, what: String) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.len() < REPORTS_MAX && known.insert(what)
    }
}
