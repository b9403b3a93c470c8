//! Rows that were set aside come back into the relay's hands.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::line::Turn;
use super::Rows;
use super::book::{Entry, RowId, Stage};
use super::read::{self, Read, ReadRow, Which};
use crate::store::{Budget, Fetched};
use crate::{Position, Result, StoredEvent};

/// Whether rows are only looked at, or handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Look,
    HandOut,
}

/// See [`Store::fetch`](crate::store::Store::fetch) and [`Store::peek`](crate::store::Store::peek).
pub(super) async fn fetch(
    rows: &Rows,
    turn: &mut Turn<'_>,
    positions: &[Position],
    bytes_max: usize,
    purpose: Purpose,
) -> Result<Fetched> {
    let mut fetched = Fetched::default();
    let mut asked: Vec<(Position, Entry)> = Vec::new();
    let epoch = rows.with_book(|book| {
        for position in positions {
            match book.get(*position) {
                Some(entry) => asked.push((*position, entry.clone())),
                None => fetched.gone.push(*position),
            }
        }
        book.epoch
    });
    if asked.is_empty() {
        return Ok(fetched);
    }
    let ids: Vec<RowId> = asked.iter().map(|(_, entry)| entry.id.clone()).collect();
    let budget = Budget { events_max: ids.len(), bytes_max };
    let Read { rows: found, left } =
        read::read(turn, &rows.sql, &rows.table, &ids, budget, Which::Any).await?;
    let mut found: HashMap<RowId, ReadRow> =
        found.into_iter().map(|row| (row.told.id.clone(), row)).collect();
    asked.truncate(
        asked.iter().position(|(_, entry)| Some(&entry.id) == left.as_ref()).unwrap_or(asked.len()),
    );
    let won = match purpose {
        Purpose::HandOut => {
            let unclaimed: Vec<(RowId, i64)> = asked
                .iter()
                .filter(|(_, entry)| entry.claim.is_none())
                .filter_map(|(_, entry)| found.get(&entry.id).filter(|row| row.told.is_open))
                .map(|row| (row.told.id.clone(), row.told.attempts))
                .collect();
            rows.win(turn, epoch, &unclaimed).await?
        }
        Purpose::Look => None,
    };
    rows.with_book(|book| {
        for (position, entry) in asked {
            let Some(ReadRow { told, event }) = found.remove(&entry.id) else {
                fetched.gone.push(position);
                continue;
            };
            let claim = entry.claim.or_else(|| won.as_ref()?.claims.get(&entry.id).copied());
            if !told.is_open || won.is_some() && claim.is_none() {
                book.change(position, |row| row.stage = Stage::Taken);
                fetched.taken.push(position);
                continue;
            }
            if purpose == Purpose::HandOut {
                book.change(position, |row| {
                    row.claim = claim;
                    row.stage = if row.stage == Stage::Parked { Stage::Recalled } else { row.stage };
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
    });
    drop(won);
    rows.let_go().await;
    Ok(fetched)
}
