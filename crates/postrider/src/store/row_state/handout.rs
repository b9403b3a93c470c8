//! Hands rows that were read out to the relay.

use std::collections::HashMap;
use std::sync::Arc;

use super::read::{Read, ReadRow};
use super::session_rows::{HandoutState, RowClaim, RowId, SessionRow, SessionRows};
use crate::store::{Fetched, Page};
use crate::{Position, StoredEvent};

/// Whether rows are only read for inspection, or handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Look,
    HandOut,
}

/// Hands out the due rows among `passed`, in their order. `won` are the rows that were marked, if rows are marked.
/// `refused` are rows that the table refuses to mark: they are returned as damaged.
pub(crate) fn hand_out(
    known: &mut SessionRows,
    passed: Vec<RowId>,
    read: Read,
    won: Option<&HashMap<RowId, RowClaim>>,
    refused: &HashMap<RowId, String>,
) -> Page {
    let due = read.rows.into_iter().filter(|row| row.state.is_due);
    let mut found: HashMap<RowId, ReadRow> = due.map(|row| (row.state.id.clone(), row)).collect();
    let mut page = Page::default();
    for id in passed {
        let claim = won.map(|won| won.get(&id).copied());
        let why_not = refused.get(&id);
        let row = found.remove(&id).filter(|_| !matches!(claim, Some(None)) || why_not.is_some());
        let Some(ReadRow { state, event }) = row else {
            // Another process was first. If the row has a position already, the relay waits for it and must learn that
            // nothing will come.
            match known.position_of(&id).filter(|_| !known.is_out(&id)) {
                Some(position) => {
                    page.dead.push((position, position));
                    known.remove(position);
                }
                None => page.taken += 1,
            }
            continue;
        };
        let position = known.enter(SessionRow {
            id: state.id.clone(),
            stage: HandoutState::HandedOut,
            is_noted: false,
            tried_before: state.tried(),
            limit: state.limit,
            is_given_up: false,
            claim: claim.flatten(),
        });
        match event {
            _ if why_not.is_some() => page.damaged.extend(why_not.map(|why| (position, why.clone()))),
            Ok(event) => page.events.push(StoredEvent { position, event: Arc::new(event) }),
            Err(error) => page.damaged.push((position, error.one_line())),
        }
    }
    page
}

/// Parked rows that are being read again.
#[derive(Debug, Default)]
pub(crate) struct Refetch {
    pub(crate) asked: Vec<(Position, SessionRow)>,
    fetched: Fetched,
}

impl Refetch {
    pub(crate) fn of(known: &SessionRows, positions: &[Position]) -> Self {
        let mut recall = Self::default();
        for position in positions {
            match known.get(*position) {
                Some(entry) => recall.asked.push((*position, entry.clone())),
                None => recall.fetched.gone.push(*position),
            }
        }
        recall
    }

    pub(crate) fn ids(&self) -> Vec<RowId> {
        self.asked.iter().map(|(_, entry)| entry.id.clone()).collect()
    }

    /// Drops the rows that did not fit. Returns the rows that must be marked before they are handed out.
    pub(crate) fn cut(&mut self, read: &Read) -> Vec<(RowId, i64)> {
        let left = read.left.as_ref();
        let fits = self.asked.iter().position(|(_, entry)| Some(&entry.id) == left);
        self.asked.truncate(fits.unwrap_or(self.asked.len()));
        let found: HashMap<&str, &ReadRow> = read.rows.iter().map(|row| (&*row.state.id, row)).collect();
        self.asked
            .iter()
            .filter(|(_, entry)| entry.claim.is_none())
            .filter_map(|(_, entry)| found.get(&*entry.id).filter(|row| row.state.is_open))
            .map(|row| (row.state.id.clone(), row.state.attempts))
            .collect()
    }

    /// Hands the rows out, or only returns them for inspection. `won` are the rows that were marked, if rows are
    /// marked.
    pub(crate) fn finish(
        self,
        known: &mut SessionRows,
        read: Read,
        won: Option<&HashMap<RowId, RowClaim>>,
        purpose: Purpose,
    ) -> Fetched {
        let Self { asked, mut fetched } = self;
        let mut found: HashMap<RowId, ReadRow> =
            read.rows.into_iter().map(|row| (row.state.id.clone(), row)).collect();
        let must_win = won.is_some() && purpose == Purpose::HandOut;
        for (position, entry) in asked {
            let Some(ReadRow { state, event }) = found.remove(&entry.id) else {
                fetched.gone.push(position);
                continue;
            };
            let claim = entry.claim.or_else(|| won?.get(&entry.id).copied());
            if !state.is_open || must_win && claim.is_none() {
                known.change(position, |row| row.stage = HandoutState::Taken);
                fetched.taken.push(position);
                continue;
            }
            if purpose == Purpose::HandOut {
                known.change(position, |row| {
                    row.claim = claim;
                    row.stage =
                        if row.stage == HandoutState::Parked { HandoutState::Recalled } else { row.stage };
                });
            }
            match event {
                Ok(mut event) => {
                    event.max_attempts = Some(entry.limit.saturating_sub(entry.tried_before).max(1));
                    fetched.events.push(StoredEvent { position, event: Arc::new(event) });
                }
                Err(_) => fetched.gone.push(position),
            }
        }
        fetched
    }
}
