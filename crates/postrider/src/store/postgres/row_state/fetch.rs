//! Rows that were set aside come back into the relay's hands.

use super::super::connection::Guard;
use super::Rows;
use super::read;
use crate::store::row_state::handout::{Purpose, Recall};
use crate::store::row_state::read::Which;
use crate::store::{Budget, Fetched};
use crate::{Position, Result};

/// See [`Store::fetch`](crate::store::Store::fetch) and [`Store::peek`](crate::store::Store::peek).
pub(super) async fn fetch(
    rows: &Rows,
    turn: &mut Guard<'_>,
    positions: &[Position],
    bytes_max: usize,
    purpose: Purpose,
) -> Result<Fetched> {
    let (mut recall, epoch) = rows.with_rows(|known| (Recall::of(known, positions), known.epoch));
    let ids = recall.ids();
    let budget = Budget { events_max: ids.len(), bytes_max };
    let read = match ids.is_empty() {
        true => read::Read::default(),
        false => read::read(turn, &rows.sql, &rows.table, &ids, budget, Which::Any).await?,
    };
    let unclaimed = recall.cut(&read);
    let won = match purpose {
        Purpose::HandOut => rows.win(turn, epoch, &unclaimed).await?,
        Purpose::Look => None,
    };
    let claims = won.as_ref().map(|won| &won.claims);
    let fetched = rows.with_rows(|known| recall.finish(known, read, claims, purpose));
    drop(won);
    rows.let_go().await;
    Ok(fetched)
}
