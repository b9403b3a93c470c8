//! Half of the deliveries of a large settle, marked over a second connection.
//!
//! An UPDATE of a row with many indexes keeps a process of the server busy; two of them share the work. Each half is
//! fenced and stands for itself: a row that is marked was delivered, whatever becomes of the other half.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::connection::Guard;
use super::super::row::get;
use super::settle::times;
use super::{Rows, lost};
use crate::Result;
use crate::store::Settlement;
use crate::store::row_state::plan::{OutcomeRows, SettlePlan};

/// Deliveries from which on they are shared: below, a second round trip costs more than it gains.
const SHARED_FROM: usize = 512;

/// How long a claim waits for the connection that its deliveries will be marked over.
const PREPARE_WITHIN: Duration = Duration::from_secs(1);

/// Pages for which it is not tried again.
const PAUSE_PAGES: u32 = 100;

/// Makes the connection for half of the deliveries, where so many rows were handed out: not when they are settled, for a
/// renewal of the lease would wait for it. Whoever has none does without.
pub(super) async fn prepare(rows: &Rows, handed_out: usize) {
    if handed_out < SHARED_FROM || !rows.marker.is_idle() || rows.marker.ready().is_some() {
        return;
    }
    let is_over = |pause: u32| pause.checked_sub(1);
    if rows.marker_pause.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_over).is_ok() {
        return;
    }
    if !matches!(tokio::time::timeout(PREPARE_WITHIN, rows.marker.lock()).await, Ok(Ok(_))) {
        rows.marker_pause.store(PAUSE_PAGES, Ordering::Relaxed);
    }
}

/// Takes half of many deliveries out of a plan, and the connection to mark them over.
pub(super) fn half<'a>(rows: &'a Rows, plan: &mut SettlePlan) -> Option<(OutcomeRows, Guard<'a>)> {
    let turn = rows.marker.ready()?;
    plan.halve(SHARED_FROM).map(|half| (half, turn))
}

/// Marks these rows. Answers how many were still ours, `None` if the lease is not.
pub(super) async fn deliver(
    rows: &Rows,
    settlement: &Settlement,
    mut turn: Guard<'_>,
    delivered: &OutcomeRows,
) -> Result<Option<usize>> {
    rows.check_server(&mut turn)?;
    let server = turn.incarnation()?;
    let answer = turn
        .query(
            rows.sql.deliver,
            &[
                &settlement.subscription,
                &settlement.epoch.0,
                &server.started,
                &server.timeline(),
                &delivered.ids,
                &times(&delivered.stamps),
            ],
        )
        .await?;
    changed(&mut turn, &answer)
}

/// How many rows a fenced statement changed, `None` if the lease is not ours.
pub(super) fn changed(turn: &mut Guard<'_>, answer: &[tokio_postgres::Row]) -> Result<Option<usize>> {
    let Some(row) = answer.first() else { return Err(lost()) };
    match (get::<bool>(row, 0)?, get::<bool>(row, 1)?) {
        (true, _) => Ok(Some(usize::try_from(get::<i64>(row, 2)?).unwrap_or(0))),
        (false, true) => Ok(None),
        (false, false) => Err(turn.give_up()),
    }
}
