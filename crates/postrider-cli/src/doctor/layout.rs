//! Checks of a table with a state per row, in any database.

use postrider::Result;
use postrider::layout::{Ability, RowTable};
use postrider::store::admin::Admin;

use super::{Check, Subject};

/// Checks the table. Returns whether a relay can work on it.
pub(super) async fn check(admin: &dyn Admin, rows: &RowTable, subject: &mut Subject<'_>) -> bool {
    let name = rows.layout().name();
    match admin.differences().await {
        Ok(differences) if differences.is_empty() => {
            subject.ok(Check::LayoutTable, format!("matches layout {name}"));
        }
        Ok(differences) => {
            let reported: Vec<&str> = differences.iter().map(|difference| difference.what.as_str()).collect();
            subject.warn(Check::LayoutTable, reported.join("; "));
        }
        Err(error) => subject.unchecked(Check::LayoutTable, &error.one_line()),
    }
    if let Err(error) = admin.overview(0).await {
        subject.refused(Check::SchemaCurrent, &error);
        return false;
    }
    if rows.layout().has(Ability::PublishingState) {
        foreign_claims(admin.foreign_claims().await, subject);
    }
    subject.ok(Check::SchemaCurrent, format!("the additional tables of {name} exist"));
    true
}

fn foreign_claims(found: Result<u64>, subject: &mut Subject<'_>) {
    match found {
        Ok(0) => subject.ok(Check::LayoutClaims, "no row is marked as PUBLISHING by another publisher"),
        Ok(1) => subject.warn(Check::LayoutClaims, "1 row is marked as PUBLISHING by another publisher"),
        Ok(many) => {
            subject.warn(
                Check::LayoutClaims,
                format!("{many} rows are marked as PUBLISHING by another publisher"),
            );
        }
        Err(error) => subject.unchecked(Check::LayoutClaims, &error.one_line()),
    }
}
