//! Rows that were set aside come back into the relay's hands.

use std::collections::HashMap;

use super::super::session::Session;
use super::{Rows, read};
use crate::store::row_state::handout::{Purpose, Recall};
use crate::store::row_state::read::{Read, Which};
use crate::store::{Budget, Fetched};
use crate::{Position, Result};

/// See [`Store::fetch`](crate::store::Store::fetch) and [`Store::peek`](crate::store::Store::peek).
pub(super) async fn fetch(
    rows: &Rows,
    session: &mut Session,
    positions: &[Position],
    bytes_max: usize,
    purpose: Purpose,
) -> Result<Fetched> {
    let (mut recall, epoch) = rows.session.with_rows(|known| (Recall::of(known, positions), known.epoch));
    let ids = recall.ids();
    let budget = Budget { events_max: ids.len(), bytes_max };
    let found = match ids.is_empty() {
        true => Read::default(),
        false => read::read(session, &rows.sql, &ids, budget, Which::Any).await?,
    };
    let unclaimed = recall.cut(&found);
    let won = match rows.marks.as_ref().filter(|_| purpose == Purpose::HandOut) {
        Some(_) if unclaimed.is_empty() => Some(HashMap::new()),
        Some(marks) => {
            let name = rows.session.subscription();
            Some(read::mark(session, marks, &name, epoch, unclaimed).await?.claims)
        }
        None => None,
    };
    Ok(rows.session.with_rows(|known| recall.finish(known, found, won.as_ref(), purpose)))
}
