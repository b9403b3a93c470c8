//! A table with a state per row, whatever its database.

use postrider::Result;
use postrider::layout::{Difference, RowLayout, RowTable};

use super::{Check, Subject};

/// What was found out about the table.
pub(super) struct Findings {
    pub(super) differences: Result<Vec<Difference>>,
    /// Whether a store can be opened.
    pub(super) opened: Result<()>,
    /// Rows that another publisher has marked as being published. A publisher that crashed leaves them so permanently.
    pub(super) strangers: Result<u64>,
}

impl Findings {
    /// Tells of it, and whether the table can be worked on.
    pub(super) fn tell(self, rows: &RowTable, subject: &mut Subject<'_>) -> bool {
        let name = rows.layout().name();
        match self.differences {
            Ok(differences) if differences.is_empty() => {
                subject.ok(Check::LayoutTable, format!("matches layout {name}"));
            }
            Ok(differences) => {
                let told: Vec<&str> = differences.iter().map(|difference| difference.what.as_str()).collect();
                subject.warn(Check::LayoutTable, told.join("; "));
            }
            Err(error) => {
                subject.warn(Check::LayoutTable, format!("cannot be checked: {}", error.one_line()))
            }
        }
        if let Err(error) = self.opened {
            subject.refused(Check::SchemaCurrent, &error);
            return false;
        }
        if rows.layout() == RowLayout::OutboxEvents {
            strangers(self.strangers, subject);
        }
        subject.ok(Check::SchemaCurrent, format!("the additional tables of {name} exist"));
        true
    }
}

fn strangers(found: Result<u64>, subject: &mut Subject<'_>) {
    match found {
        Ok(0) => subject.ok(Check::LayoutClaims, "no row is marked as PUBLISHING by another publisher"),
        Ok(1) => subject.warn(Check::LayoutClaims, "1 row is marked as PUBLISHING by another publisher"),
        Ok(many) => {
            subject.warn(
                Check::LayoutClaims,
                format!("{many} rows are marked as PUBLISHING by another publisher"),
            );
        }
        Err(error) => subject.warn(Check::LayoutClaims, format!("cannot be checked: {}", error.one_line())),
    }
}
