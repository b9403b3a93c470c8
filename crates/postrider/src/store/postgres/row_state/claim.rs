//! Claiming: due rows in the order of the table, each once per session.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::row::get;
use super::read::{self, foreign_timeout};
use super::{Rows, deliver, lost};
use crate::ledger::Progress;
use crate::store::row_state::due_list::{DueList, ListRequest};
use crate::store::row_state::handout::hand_out;
use crate::store::row_state::read::Which;
use crate::store::row_state::session_rows::RowId;
use crate::store::{Budget, Claimed, Claimer, Epoch, Page};
use crate::{BoxFuture, Code, Result};

/// Reads on from a loaded state. Dropping the future of a claim loses nothing where rows are not marked; where they
/// are, those of the claim are given back with the lease.
pub(super) struct RowClaimer {
    rows: Arc<Rows>,
    /// The session it reads for.
    epoch: Epoch,
    listing: DueList,
}

impl RowClaimer {
    pub(super) fn new(rows: Arc<Rows>, _: &Progress) -> Self {
        let (epoch, listing) = rows.with_rows(|known| (known.epoch, DueList::new(known)));
        Self { rows, epoch, listing }
    }

    async fn claim_next(&mut self, budget: Budget) -> Result<Page> {
        let rows = self.rows.clone();
        let mut turn = rows.claimer.lock().await?;
        rows.check_server(&mut turn)?;
        self.check_session()?;
        if self.listing.is_empty() {
            let asking = rows.with_rows(|known| ListRequest::of(known));
            let limit = i64::try_from(asking.most).unwrap_or(i64::MAX);
            let table = &rows.table;
            let found = turn
                .read(rows.sql.list, &[&limit, &i64::from(table.max_attempts), &foreign_timeout(table)])
                .await?;
            let ids = found.iter().map(|row| get::<&str>(row, 0)).collect::<Result<Vec<_>>>()?;
            let ids = ids.into_iter().map(RowId::from);
            rows.with_rows(|known| self.listing.take(ids, &asking, known));
        }
        let asked = self.listing.next(budget.events_max);
        if asked.is_empty() {
            return Ok(Page { left_unread: self.listing.has_more(), ..Page::default() });
        }
        deliver::prepare(&rows, asked.len()).await;
        let read = read::read(&mut turn, &rows.sql, &rows.table, &asked, budget, Which::Due).await?;
        let won = rows.win(&mut turn, self.epoch, &read.due()).await?;
        self.check_session()?;
        let passed = self.listing.pass(asked, read.left.as_ref());
        let (claims, refused) = (won.as_ref().map(|won| &won.claims), won.as_ref().map(|won| &won.refused));
        let none = HashMap::new();
        let refused = refused.unwrap_or(&none);
        let mut page = rows.with_rows(|known| hand_out(known, passed, read, claims, refused));
        drop(won);
        rows.let_go().await;
        page.more_at_once = self.listing.has_more();
        page.left_unread = page.more_at_once;
        Ok(page)
    }

    /// Refuses to go on for a session that is over.
    fn check_session(&self) -> Result<()> {
        if self.rows.with_rows(|known| known.epoch) == self.epoch { Ok(()) } else { Err(lost()) }
    }
}

impl Claimer for RowClaimer {
    fn claim(&mut self, budget: Budget) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(async move {
            let claimed = self.claim_next(budget).await;
            if claimed.as_ref().is_err_and(|error| error.code() != Code::StoreBusy) {
                // What was asked for may have been marked without our knowing it.
                self.listing.forget();
            }
            claimed.map(Claimed::Page)
        })
    }
}
