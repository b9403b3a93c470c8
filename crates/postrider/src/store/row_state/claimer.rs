//! Claiming: due rows in the order of the table, each once per term.

use std::sync::Arc;

use super::dialect::{Owner, Role, RowConnection, RowDialect};
use super::due_list::{DueList, ListRequest};
use super::handout::hand_out;
use super::lease_lost;
use super::read::ReadScope;
use super::refused::MarkedRows;
use super::store::Shared;
use crate::store::{Budget, Claimed, Claimer, Epoch, Page};
use crate::{BoxFuture, Code, Result};

/// Reads due rows from a loaded state on. If the future of a claim is dropped and rows are not marked, nothing has
/// changed. If rows are marked, those of the claim may stay marked until the lease is released or taken over; then
/// they are due again.
pub(super) struct RowClaimer<D> {
    store: Arc<Shared<D>>,
    /// The term it reads for.
    epoch: Epoch,
    due: DueList,
}

impl<D: RowDialect> RowClaimer<D> {
    pub(super) fn new(store: Arc<Shared<D>>) -> Self {
        let (epoch, due) = store.term.with_rows(|known| (known.epoch, DueList::new(known)));
        Self { store, epoch, due }
    }

    async fn claim_next(&mut self, budget: Budget) -> Result<Page> {
        let store = self.store.clone();
        let mut connection = store.dialect.connection(Role::Claimer).await?;
        connection.leases().check_server()?;
        self.check_term()?;
        if self.due.is_empty() {
            let request = store.term.with_rows(|known| ListRequest::of(known));
            let ids = connection.list(request.rows_max).await?;
            store.term.with_rows(|known| self.due.replace(ids.into_iter(), &request, known));
        }
        let requested = self.due.next(budget.events_max);
        if requested.is_empty() {
            return Ok(Page { has_unread: self.due.has_more(), ..Page::default() });
        }
        store.dialect.prepare_helper(requested.len()).await;
        let read = connection.read(&requested, budget, ReadScope::Due).await?;
        let needs_mark = store.marks_or_locks();
        let marked = match needs_mark {
            true => {
                let subscription = &store.term.subscription();
                connection.mark_or_lock(Owner { subscription, epoch: self.epoch }, read.due()).await?
            }
            false => MarkedRows::default(),
        };
        self.check_term()?;
        let listed = self.due.remove_read(requested, read.first_unread.as_ref());
        let claims = needs_mark.then_some(&marked.claims);
        let mut page = store.term.with_rows(|known| hand_out(known, listed, read, claims, &marked.refused));
        drop(marked);
        store.release_locks().await;
        page.more_at_once = self.due.has_more();
        page.has_unread = page.more_at_once;
        Ok(page)
    }

    /// Returns an error if the term has ended.
    fn check_term(&self) -> Result<()> {
        let epoch = self.store.term.with_rows(|known| known.epoch);
        if epoch == self.epoch { Ok(()) } else { Err(lease_lost()) }
    }
}

impl<D: RowDialect> Claimer for RowClaimer<D> {
    fn claim(&mut self, budget: Budget) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(async move {
            let claimed = self.claim_next(budget).await;
            if claimed.as_ref().is_err_and(|error| error.code() != Code::StoreBusy) {
                // The rows may have been marked although the answer was lost, so the list is read again.
                self.due.clear();
            }
            claimed.map(Claimed::Page)
        })
    }
}
