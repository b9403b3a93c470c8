//! Which schema a database has and which this program knows.

use crate::{Code, Error, Result};

/// What a migration did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// The schema's version before; 0 if there was none.
    pub from: i64,
    /// The version now.
    pub to: i64,
}

/// Refuses a schema that a newer program made. `place` names the database.
pub(super) fn refuse_newer(place: &str, version: i64, latest: i64) -> Result<()> {
    if version > latest {
        let what = format!("{place} has schema {version}, this program knows {latest}");
        return Err(Error::new(Code::SchemaNewer, what));
    }
    Ok(())
}

/// Refuses every schema but the one this program knows.
pub(super) fn check(place: &str, version: i64, latest: i64) -> Result<()> {
    refuse_newer(place, version, latest)?;
    if version < latest {
        let what = format!("{place} has schema {version}, this program needs {latest}");
        return Err(Error::new(Code::SchemaMissing, what));
    }
    Ok(())
}
