//! The tables of the simulation, what each handler must get, and what went wrong.

use std::collections::{BTreeMap, BTreeSet};

use super::Bug;
use crate::Timestamp;
use crate::store::row_state::notifications::RegisteredType;

pub(super) const HOUR: i64 = 3_600_000_000;

/// How long a notification may be handled.
pub(super) const HANDLE_WITHIN: i64 = 7 * 24 * HOUR;

/// A search begins this long before the one before it.
const OVERLAP: i64 = 24 * HOUR;

#[derive(Debug, Clone)]
pub(super) struct EventRow {
    pub(super) date: i64,
    pub(super) model: u64,
    /// Rows without an event have none.
    pub(super) kind: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Rows {
    pub(super) events: BTreeMap<u64, EventRow>,
    pub(super) fanned_out: BTreeSet<u64>,
    /// With the time of their creation.
    pub(super) notifications: BTreeMap<(u64, String), i64>,
    pub(super) registered: Vec<RegisteredType>,
    /// The handler by its earlier name.
    pub(super) aliases: BTreeMap<String, String>,
    pub(super) subscriptions: BTreeSet<String>,
}

#[derive(Debug, Default)]
pub(super) struct Database {
    pub(super) committed: Rows,
    pub(super) clock: i64,
    pub(super) is_locked: bool,
    /// Events whose notification the table refuses.
    pub(super) refused: BTreeSet<u64>,
    /// Events that another program marked, and when.
    pub(super) marked: BTreeMap<u64, i64>,
    /// What each handler must get: events that were waiting when it was registered, and every later one.
    pub(super) owed: BTreeSet<(u64, String)>,
    /// Notifications that expired without a call.
    pub(super) expired: BTreeSet<(u64, String)>,
    /// Events that were fanned out before an older one of their model.
    pub(super) overtaken: Vec<(u64, u64)>,
}

impl Database {
    /// Whether a handler is registered for a type.
    pub(super) fn takes(rows: &Rows, handler: &str, kind: &str) -> bool {
        let mut of_handler = rows.registered.iter().filter(|entry| entry.handler == handler);
        of_handler.any(|entry| match entry.pattern.strip_suffix('*') {
            Some(start) => kind.starts_with(start),
            None => kind == entry.pattern,
        })
    }

    /// An application writes an event. Every handler that is registered for it must get it.
    pub(super) fn write(&mut self, model: u64, kind: Option<String>) {
        let id = self.committed.events.len() as u64;
        if let Some(kind) = &kind {
            let names: BTreeSet<String> =
                self.committed.registered.iter().map(|entry| entry.handler.clone()).collect();
            let taking = names.into_iter().filter(|name| Self::takes(&self.committed, name, kind));
            self.owed.extend(taking.map(|name| (id, name)));
        }
        self.committed.events.insert(id, EventRow { date: self.clock, model, kind });
    }

    /// Another program fans the events of one type out to its own handler.
    pub(super) fn fan_out_elsewhere(&mut self, of: &str) {
        let rows = &mut self.committed;
        let of_type = |(id, event): &(&u64, &EventRow)| {
            event.kind.as_deref() == Some(of) && !rows.fanned_out.contains(id)
        };
        let waiting: Vec<(u64, i64)> =
            rows.events.iter().filter(of_type).map(|(id, event)| (*id, event.date)).collect();
        for (id, date) in waiting {
            rows.fanned_out.insert(id);
            rows.notifications.insert((id, "theirs".to_owned()), self.clock);
            self.marked.insert(id, self.clock);
            // What is older than the registration, or than a day before the last search, is documented as not found.
            let registered = &rows.registered;
            let is_found = |handler: &String| {
                let mut entries = registered.iter().filter(|entry| entry.handler == *handler);
                entries.any(|entry| {
                    let searched = entry.searched_at.map_or(i64::MIN, |at| at.as_micros() - OVERLAP);
                    date >= entry.registered_at.as_micros().max(searched)
                })
            };
            self.owed.retain(|(owed, handler)| *owed != id || is_found(handler));
        }
    }

    /// What a handler should have got and did not. A notification under an earlier name counts.
    pub(super) fn missing(&self) -> Vec<(u64, String)> {
        let Rows { notifications, aliases, .. } = &self.committed;
        let earlier = |handler: &str| {
            aliases
                .iter()
                .filter(|(_, of)| *of == handler)
                .map(|(alias, _)| alias.clone())
                .collect::<Vec<_>>()
        };
        let has = |id: u64, name: &str| {
            let key = (id, name.to_owned());
            notifications.contains_key(&key) && !self.expired.contains(&key)
        };
        let is_missing = |(id, handler): &&(u64, String)| {
            !has(*id, handler) && !earlier(handler).iter().any(|alias| has(*id, alias))
        };
        self.owed.iter().filter(is_missing).cloned().collect()
    }
}

/// The types of the earlier name end. What it has not got is owed to the handler.
pub(super) fn rename(database: &mut Database, handler: &str, alias: &str, bug: Option<Bug>) {
    let rows = &mut database.committed;
    rows.aliases.insert(alias.to_owned(), handler.to_owned());
    let (earlier, mut registered): (Vec<RegisteredType>, Vec<RegisteredType>) =
        rows.registered.drain(..).partition(|entry| entry.handler == alias);
    if bug != Some(Bug::ForgetTheEarlierRegistration) {
        for entry in registered.iter_mut().filter(|entry| entry.handler == handler) {
            for of in earlier.iter().filter(|of| of.pattern == entry.pattern) {
                entry.registered_at = entry.registered_at.min(of.registered_at);
                entry.searched_at = of.searched_at;
            }
        }
    }
    rows.registered = registered;
    let (rows, owed) = (&database.committed, std::mem::take(&mut database.owed));
    let same = |kind: &str| {
        earlier.iter().any(|of| {
            rows.registered.iter().any(|entry| entry.handler == handler && entry.pattern == of.pattern)
        }) && Database::takes(rows, handler, kind)
    };
    for (id, name) in owed {
        let has = rows.notifications.contains_key(&(id, name.clone()));
        match name == alias && !has {
            false => database.owed.insert((id, name)),
            true => {
                let kind = rows.events[&id].kind.clone().unwrap_or_default();
                same(&kind) && database.owed.insert((id, handler.to_owned()))
            }
        };
    }
}

/// What another program marked after the search had begun, dated more than a day before it, is documented as not found.
pub(super) fn record_search(database: &mut Database, begun: Timestamp) {
    let Database { committed, marked, owed, .. } = database;
    for entry in committed.registered.iter_mut().filter(|entry| entry.registered_at <= begun) {
        entry.searched_at = Some(begun);
    }
    owed.retain(|(id, handler)| {
        let is_late = marked.get(id).is_some_and(|at| *at > begun.as_micros());
        let is_old = committed.events[id].date < begun.as_micros() - OVERLAP;
        !is_late || !is_old || committed.notifications.contains_key(&(*id, handler.clone()))
    });
}
