//! Claiming: due rows in the order of the table, each once per session.

use std::sync::Arc;

use super::super::session::{Access, Params};
use super::{Rows, read};
use crate::store::row_state::due_list::{DueList, ListRequest};
use crate::store::row_state::handout::hand_out;
use crate::store::row_state::lost;
use crate::store::row_state::read::Which;
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
    pub(super) fn new(rows: Arc<Rows>) -> Self {
        let (epoch, listing) = rows.session.with_rows(|known| (known.epoch, DueList::new(known)));
        Self { rows, epoch, listing }
    }

    async fn claim_next(&mut self, budget: Budget) -> Result<Page> {
        let rows = self.rows.clone();
        let mut turn = rows.claimer.lock().await?;
        rows.check_server(&mut turn)?;
        self.check_session()?;
        let session = turn.session()?;
        if self.listing.is_empty() {
            let asking = rows.session.with_rows(|known| ListRequest::of(known));
            let list = rows.sql.list.replace("{most}", &asking.most.to_string());
            let found = session.autocommit(Access::Reads, &list, Params::new()).await?;
            let ids = found.iter().map(read::id).collect::<Result<Vec<_>>>()?;
            rows.session.with_rows(|known| self.listing.take(ids.into_iter(), &asking, known));
        }
        let asked = self.listing.next(budget.events_max);
        if asked.is_empty() {
            return Ok(Page { left_unread: self.listing.has_more(), ..Page::default() });
        }
        let found = read::read(session, &rows.sql, &asked, budget, Which::Due).await?;
        let due = found.due();
        let won = match &rows.marks {
            Some(marks) if !due.is_empty() => {
                let name = rows.session.subscription();
                Some(read::mark(session, marks, &name, self.epoch, due).await?)
            }
            _ => None,
        };
        self.check_session()?;
        let passed = self.listing.pass(asked, found.left.as_ref());
        let (is_marked, marked) = (won.is_some(), won.unwrap_or_default());
        let claims = is_marked.then_some(&marked.claims);
        let mut page =
            rows.session.with_rows(|known| hand_out(known, passed, found, claims, &marked.refused));
        page.more_at_once = self.listing.has_more();
        page.left_unread = page.more_at_once;
        Ok(page)
    }

    /// Refuses to go on for a session that is over.
    fn check_session(&self) -> Result<()> {
        if self.rows.session.with_rows(|known| known.epoch) == self.epoch { Ok(()) } else { Err(lost()) }
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
