//! Hands rows that were read out to the relay.

use std::collections::HashMap;
use std::sync::Arc;

use super::dialect::SeenRow;
use super::read::{Read, ReadRow};
use super::term_rows::{Claims, HandoutState, RowId, TermRow, TermRows};
use crate::store::{Fetched, Page};
use crate::{Position, StoredEvent};

/// Whether rows are only read for inspection, or handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Peek,
    HandOut,
}

/// Hands out the due rows among `listed`, in their order. `marked` are the rows that were marked or locked; `None` if
/// this table needs neither. `refused` are rows that the table refuses to mark: they are returned as damaged.
pub(crate) fn hand_out(
    known: &mut TermRows,
    listed: Vec<RowId>,
    read: Read,
    marked: Option<&Claims>,
    refused: &HashMap<RowId, String>,
) -> Page {
    let due = read.rows.into_iter().filter(|row| row.state.is_due);
    let mut found: HashMap<RowId, ReadRow> = due.map(|row| (row.state.id.clone(), row)).collect();
    let mut page = Page::default();
    for id in listed {
        let claim = marked.map(|claims| claims.get(&id).copied());
        let refusal = refused.get(&id);
        let row = found.remove(&id).filter(|_| !matches!(claim, Some(None)) || refusal.is_some());
        let Some(ReadRow { state, event }) = row else {
            // Another process was first. If the row has a position already, the relay waits for it and must learn that
            // the position is empty.
            match known.position_of(&id).filter(|_| !known.is_excluded(&id)) {
                Some(position) => {
                    page.empty_positions.push((position, position));
                    known.remove(position);
                }
                None => page.taken += 1,
            }
            continue;
        };
        let row = TermRow::new(state.id.clone(), HandoutState::HandedOut, state.limit);
        let position =
            known.insert(TermRow { attempts_before: state.attempts_before(), claim: claim.flatten(), ..row });
        match event {
            _ if refusal.is_some() => page.damaged.extend(refusal.map(|why| (position, why.clone()))),
            Ok(event) => page.events.push(StoredEvent { position, event: Arc::new(event) }),
            Err(error) => page.damaged.push((position, error.one_line())),
        }
    }
    page
}

/// Parked rows that are being read again.
#[derive(Debug, Default)]
pub(crate) struct Refetch {
    requested: Vec<(Position, TermRow)>,
    fetched: Fetched,
}

impl Refetch {
    pub(crate) fn of(known: &TermRows, positions: &[Position]) -> Self {
        let mut refetch = Self::default();
        for position in positions {
            match known.get(*position) {
                Some(entry) => refetch.requested.push((*position, entry.clone())),
                None => refetch.fetched.gone.push(*position),
            }
        }
        refetch
    }

    pub(crate) fn ids(&self) -> Vec<RowId> {
        self.requested.iter().map(|(_, entry)| entry.id.clone()).collect()
    }

    /// Drops the rows that exceeded the budget. Returns the rows that must be marked before they are handed out.
    pub(crate) fn drop_unread(&mut self, read: &Read) -> Vec<SeenRow> {
        let first_unread = read.first_unread.as_ref();
        let fits = self.requested.iter().position(|(_, entry)| Some(&entry.id) == first_unread);
        self.requested.truncate(fits.unwrap_or(self.requested.len()));
        let found: HashMap<&str, &ReadRow> = read.rows.iter().map(|row| (&*row.state.id, row)).collect();
        self.requested
            .iter()
            .filter(|(_, entry)| entry.claim.is_none())
            .filter_map(|(_, entry)| found.get(&*entry.id).filter(|row| row.state.is_open))
            .map(|row| (row.state.id.clone(), row.state.attempts))
            .collect()
    }

    /// Hands the rows out, or only returns them for inspection. `marked` are the rows that were marked or locked;
    /// `None` if this table needs neither.
    pub(crate) fn finish(
        self,
        known: &mut TermRows,
        read: Read,
        marked: Option<&Claims>,
        purpose: Purpose,
    ) -> Fetched {
        let Self { requested, mut fetched } = self;
        let mut found: HashMap<RowId, ReadRow> =
            read.rows.into_iter().map(|row| (row.state.id.clone(), row)).collect();
        let needs_mark = marked.is_some() && purpose == Purpose::HandOut;
        for (position, entry) in requested {
            let Some(ReadRow { state, event }) = found.remove(&entry.id) else {
                fetched.gone.push(position);
                continue;
            };
            let claim = entry.claim.or_else(|| marked?.get(&entry.id).copied());
            if !state.is_open || needs_mark && claim.is_none() {
                known.change(position, |row| row.state = HandoutState::Taken);
                fetched.taken.push(position);
                continue;
            }
            if purpose == Purpose::HandOut {
                known.change(position, |row| {
                    row.claim = claim;
                    if row.state == HandoutState::Parked {
                        row.state = HandoutState::Refetched;
                    }
                });
            }
            match event {
                Ok(mut event) => {
                    event.max_attempts = Some(entry.limit.saturating_sub(entry.attempts_before).max(1));
                    fetched.events.push(StoredEvent { position, event: Arc::new(event) });
                }
                Err(_) => fetched.gone.push(position),
            }
        }
        fetched
    }
}
