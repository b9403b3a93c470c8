//! Checks of a table with a state per row, in any database.

use postrider::Result;
use postrider::layout::{Ability, RowTable};
use postrider::store::HandlerCheck;
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
    if rows.layout().has(Ability::Notifications) && !handlers(admin, subject).await {
        return false;
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

/// Checks what handlers of layout `eventlog` need. Returns whether they can be served.
async fn handlers(admin: &dyn Admin, subject: &mut Subject<'_>) -> bool {
    let check = match admin.handler_check().await {
        Ok(check) => check,
        Err(error) => {
            subject.unchecked(Check::LayoutHandlers, &error.one_line());
            return true;
        }
    };
    match check {
        HandlerCheck { has_notifications: false, .. } => {
            let what = "there is no table event_notifications: events are written, but not fanned out";
            subject.warn(Check::LayoutHandlers, what);
            return false;
        }
        HandlerCheck { has_index: false, .. } => {
            let what = "there is no index over undelivered events: the fan-out reads the whole table";
            subject.warn(Check::LayoutHandlers, what);
        }
        _ => subject.ok(Check::LayoutHandlers, "the notifications and the index of the fan-out exist"),
    }
    let unserved = check.open.iter().filter(|of| of.is_registered && !of.is_served);
    let unserved: Vec<String> =
        unserved.map(|of| format!("{} ({} open)", of.handler, of.notifications)).collect();
    match unserved.is_empty() {
        true => subject.ok(Check::LayoutServed, "a relay serves every handler that has open notifications"),
        false => subject.warn(
            Check::LayoutServed,
            format!("registered, but no relay serves it: {}", unserved.join(", ")),
        ),
    }
    let others = check.open.iter().filter(|of| !of.is_registered && of.alias_of.is_none());
    let others: Vec<String> =
        others.map(|of| format!("{} ({} open)", of.handler, of.notifications)).collect();
    match others.is_empty() {
        true => subject.ok(Check::LayoutOtherHandlers, "every open notification is of a registered handler"),
        false => {
            subject.warn(Check::LayoutOtherHandlers, format!("not registered here: {}", others.join(", ")))
        }
    }
    let aliases = check.open.iter().filter_map(|of| {
        let now = of.alias_of.as_ref()?;
        Some(format!("{} of {now} ({} open)", of.handler, of.notifications))
    });
    let aliases: Vec<String> = aliases.collect();
    match aliases.is_empty() {
        true => subject.ok(Check::LayoutAliases, "no notification is open under an alias"),
        false => subject.warn(Check::LayoutAliases, aliases.join(", ")),
    }
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
