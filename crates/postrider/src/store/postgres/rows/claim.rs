//! Claiming: due rows in the order of the table, each once per session.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::super::row::get;
use super::book::{Entry, RowId, Stage};
use super::read::{self, Read, Which, foreign_timeout};
use super::{Rows, lost};
use crate::ledger::Progress;
use crate::store::{Budget, Claimed, Claimer, Epoch, Page};
use crate::{BoxFuture, Code, Result, StoredEvent};

/// Due rows listed in one snapshot. What one snapshot shows may be worked off before the next is taken; see
/// adr/0020-row-state-store.md.
const LIST_ROWS_MAX: usize = 20_000;

/// Reads on from a loaded state. Dropping the future of a claim loses nothing where rows are not marked; where they
/// are, those of the claim are given back with the lease.
pub(super) struct RowClaimer {
    rows: Arc<Rows>,
    /// The session it reads for.
    epoch: Epoch,
    /// Rows to be handed out, in their order.
    list: VecDeque<RowId>,
    /// There were more than the list took.
    is_cut: bool,
}

impl RowClaimer {
    pub(super) fn new(rows: Arc<Rows>, _: &Progress) -> Self {
        let (epoch, list) = rows.with_book(|book| (book.epoch, book.reserved().collect()));
        Self { rows, epoch, list, is_cut: true }
    }

    async fn claim_next(&mut self, budget: Budget) -> Result<Page> {
        let rows = self.rows.clone();
        let mut turn = rows.claimer.turn().await?;
        rows.check_server(&mut turn)?;
        self.check_session()?;
        if self.list.is_empty() {
            // Rows in the book may still be due by the table; they are counted in, so that they hide nobody.
            // Some of them may be settled while the list is made: they are left out too, for it shows them as due.
            let (known, in_hands) = rows.with_book(|book| (book.len(), book.in_hands()));
            let most = LIST_ROWS_MAX + known;
            let limit = i64::try_from(most).unwrap_or(i64::MAX);
            let table = &rows.table;
            let found = turn
                .read(rows.sql.list, &[&limit, &i64::from(table.max_attempts), &foreign_timeout(table)])
                .await?;
            self.is_cut = found.len() >= most;
            let ids = found.iter().map(|row| get::<&str>(row, 0)).collect::<Result<Vec<_>>>()?;
            self.list = rows.with_book(|book| {
                let is_new = |id: &&str| !book.is_out(id) && !in_hands.contains(*id);
                ids.into_iter().filter(is_new).map(RowId::from).collect()
            });
        }
        let asked: Vec<RowId> = self.list.iter().take(budget.events_max.max(1)).cloned().collect();
        if asked.is_empty() {
            return Ok(Page { left_unread: self.is_cut, ..Page::default() });
        }
        let Read { rows: found, left } =
            read::read(&mut turn, &rows.sql, &rows.table, &asked, budget, Which::Due).await?;
        let due: Vec<(RowId, i64)> = found
            .iter()
            .filter(|row| row.told.is_due)
            .map(|row| (row.told.id.clone(), row.told.attempts))
            .collect();
        let won = rows.win(&mut turn, self.epoch, &due).await?;
        self.check_session()?;
        // Everything up to the first that did not fit has been dealt with.
        let passed: Vec<RowId> = asked.into_iter().take_while(|id| Some(id) != left.as_ref()).collect();
        self.list.drain(..passed.len());
        let mut found: HashMap<RowId, read::ReadRow> =
            found.into_iter().filter(|row| row.told.is_due).map(|row| (row.told.id.clone(), row)).collect();
        let mut page = Page::default();
        rows.with_book(|book| {
            for id in passed {
                let claim = won.as_ref().map(|won| won.claims.get(&id).copied());
                let row = found.remove(&id).filter(|_| !matches!(claim, Some(None)));
                let Some(read::ReadRow { told, event }) = row else {
                    // Somebody else was first. Of a row that has a position, the relay must hear.
                    if let Some(position) = book.position_of(&id).filter(|_| !book.is_out(&id)) {
                        page.dead.push((position, position));
                        book.remove(position);
                    }
                    continue;
                };
                let position = book.enter(Entry {
                    id: told.id.clone(),
                    stage: Stage::Out,
                    is_noted: false,
                    tried_before: told.tried(),
                    limit: told.limit,
                    claim: claim.flatten(),
                });
                match event {
                    Ok(event) => page.events.push(StoredEvent { position, event: Arc::new(event) }),
                    Err(error) => page.damaged.push((position, error.sentence())),
                }
            }
        });
        drop(won);
        rows.let_go().await;
        let more = !self.list.is_empty() || self.is_cut;
        page.more_at_once = more;
        page.left_unread = more;
        Ok(page)
    }

    /// Refuses to go on for a session that is over.
    fn check_session(&self) -> Result<()> {
        if self.rows.with_book(|book| book.epoch) == self.epoch { Ok(()) } else { Err(lost()) }
    }
}

impl Claimer for RowClaimer {
    fn claim(&mut self, budget: Budget) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(async move {
            let claimed = self.claim_next(budget).await;
            if claimed.as_ref().is_err_and(|error| error.code() != Code::StoreBusy) {
                // What was asked for may have been marked without our knowing it.
                self.list.clear();
                self.is_cut = true;
            }
            claimed.map(Claimed::Page)
        })
    }
}
