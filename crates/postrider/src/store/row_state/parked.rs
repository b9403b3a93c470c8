//! What operators see and change: rows with a note. The table decides what a row is; a note that contradicts its row is
//! obsolete and not shown.
//!
//! A row that is given up, or waits for its next attempt, can be made due again. A row has no state for "discarded" or
//! "skipped", so these are refused. A waiting row is given up only while no relay leads: a relay has it in memory, and its
//! next settle would overwrite the change. Retrying needs no such rule: whatever the relay does to the row meanwhile, it
//! has tried it once more.

use std::collections::HashMap;
use std::sync::Arc;

use super::columns::with_refused;
use super::dialect::{RowTx, TxVerb};
use super::load::NotedRow;
use super::plan::{Note, OutcomeRows, SettlePlan};
use crate::layout::RowTable;
use crate::ledger::Intervals;
use crate::operate::{
    AuditEntry, AuditQuery, AuditRecord, AuditSearch, ParkedAction, ParkedChange, ParkedChanged, ParkedItem,
};
use crate::store::audit_tx::{self, NewAudit};
use crate::store::subscription::{require_found, unknown};
use crate::store::{Epoch, ParkedState, Settlement};
use crate::{Code, Error, Position, Result, Timestamp};

/// Maximum number of bytes of row ids in one audit row.
const TARGETS_BYTES_MAX: usize = 100_000;

/// The order in which rows are listed: numeric ids as numbers.
pub(super) fn order(row: &str) -> (i64, &str) {
    (row.parse().unwrap_or(0), row)
}

/// The notes of a subscription that are true, in their order.
pub(super) struct ReadParked {
    pub(super) subscription: String,
}

impl TxVerb for ReadParked {
    type Output = Vec<ParkedItem>;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<Vec<ParkedItem>> {
        parked_items(tx, &self.subscription).await
    }
}

/// See [`ReadParked`].
pub(super) async fn parked_items<T: RowTx>(tx: &mut T, subscription: &str) -> Result<Vec<ParkedItem>> {
    let times: HashMap<String, (Timestamp, Timestamp)> =
        tx.note_times().await?.into_iter().map(|(id, parked, changed)| (id, (parked, changed))).collect();
    let notes = with_refused(tx.notes(subscription).await?, tx.refused_rows().await?);
    let mut items: Vec<ParkedItem> =
        notes.into_iter().filter(is_true).map(|note| item(subscription, note)).collect();
    for item in &mut items {
        if let Some((parked, changed)) = times.get(&item.row) {
            (item.parked_at, item.updated_at) = (Some(*parked), Some(*changed));
        }
    }
    items.sort_by(|a, b| order(&a.row).cmp(&order(&b.row)));
    Ok(items)
}

/// Whether the note says what the row says.
fn is_true(note: &NotedRow) -> bool {
    let is_final = ParkedState::from_word(&note.state).is_some_and(is_given_up);
    note.created.is_some() && !note.is_done && (is_final == note.is_given_up || note.refused.is_some())
}

/// The table shows a row in this state as given up.
fn is_given_up(state: ParkedState) -> bool {
    state.is_final() || state == ParkedState::Unrouted
}

fn item(subscription: &str, note: NotedRow) -> ParkedItem {
    ParkedItem {
        subscription: subscription.to_owned(),
        row: note.id,
        id: None,
        event_type: None,
        key: note.key,
        destination: note.destination,
        state: note.state,
        attempts: note.attempts,
        next_attempt_at: note.next_attempt_at,
        last_error: note.last_error,
        parked_at: None,
        updated_at: None,
        redelivery: None,
    }
}

/// See [`Store::change_parked`](crate::store::Store::change_parked).
pub(super) struct ChangeParked {
    pub(super) change: ParkedChange,
    pub(super) table: Arc<RowTable>,
}

impl TxVerb for ChangeParked {
    type Output = ParkedChanged;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<ParkedChanged> {
        let ParkedChange { subscription, action, rows, out_of_order, audit, .. } = self.change;
        refuse_unsupported(action, &self.table)?;
        let locked = tx.lock(&subscription).await?.ok_or_else(|| unknown(&subscription))?;
        if action == ParkedAction::Kill {
            refuse_led(tx, &subscription).await?;
        }
        let mut notes: HashMap<String, NotedRow> =
            with_refused(tx.notes(&subscription).await?, tx.refused_rows().await?)
                .into_iter()
                .filter(|note| is_true(note) && note.refused.is_none())
                .map(|note| (note.id.clone(), note))
                .collect();
        let mut plan =
            SettlePlan { trial: locked.trial, trial_deaths: locked.trial_deaths, ..SettlePlan::default() };
        let mut moved_on = 0;
        for row in &rows {
            let Some(note) = notes.remove(row) else { continue };
            let state = ParkedState::from_word(&note.state);
            if !state.is_some_and(|state| action.applies_to(state)) {
                continue;
            }
            // Whether later rows with its key were delivered is not known, so they may have been.
            if action == ParkedAction::Retry
                && state == Some(ParkedState::Dead)
                && note.key.is_some()
                && !out_of_order
            {
                moved_on += 1;
                continue;
            }
            plan_change(&mut plan, action, note);
        }
        let wanted = plan.rows();
        let mut changed = 0;
        if wanted > 0 {
            changed = record(tx, &subscription, locked.epoch, &plan).await?;
            // Which rows were not changed is not known, so the transaction is rolled back: their notes must stay.
            if changed < wanted as u64 {
                return Err(not_all_changed(&subscription));
            }
            tx.raise_changes(&subscription).await?;
            let targets = targets(&plan);
            let new = NewAudit { events: changed, ..NewAudit::of(&subscription, &audit).targets(&targets) };
            tx.insert_audit(new).await?;
        }
        let not_applicable = (rows.len() as u64).saturating_sub(changed + moved_on);
        Ok(ParkedChanged::new(changed, moved_on, not_applicable))
    }
}

/// The error of a batch of which the table did not change every row: another process has changed one, or the table refuses
/// it.
fn not_all_changed(name: &str) -> Error {
    let what =
        format!("a row of {name} was changed by another process meanwhile, or the table refuses the change");
    Error::new(Code::RowRefused, what).with_effect("nothing was changed")
}

/// The same change for one of its rows, after `changed` rows were changed separately.
pub(super) fn single(change: &ParkedChange, row: &str, changed: u64) -> ParkedChange {
    let mut audit = change.audit.clone();
    audit.part = audit.part.saturating_add(i64::try_from(changed).unwrap_or(i64::MAX));
    ParkedChange { rows: vec![row.to_owned()], audit, ..change.clone() }
}

fn plan_change(plan: &mut SettlePlan, action: ParkedAction, note: NotedRow) {
    let outcome = if action == ParkedAction::Kill { &mut plan.given_up } else { &mut plan.retried };
    let limit = note.limit.unwrap_or(1).max(1);
    let attempts = if action == ParkedAction::Kill { i64::from(note.attempts).max(limit) } else { 0 };
    add(outcome, &note.id, attempts);
    if action == ParkedAction::Kill {
        plan.notes.push(Note {
            id: note.id,
            key: note.key,
            destination: note.destination,
            state: ParkedState::Dead.as_str(),
            attempts: note.attempts,
            next_attempt_at: None,
            last_error: note.last_error.or_else(|| Some("given up by an operator".to_owned())),
            refused: None,
        });
    } else {
        plan.obsolete_notes.push(note.id);
    }
}

/// Adds a row without a mark.
fn add(outcome: &mut OutcomeRows, id: &str, attempts: i64) {
    outcome.positions.push(Position::ZERO);
    outcome.ids.push(id.to_owned());
    outcome.marked_at.push(None);
    outcome.marked_attempts.push(None);
    outcome.attempts.push(attempts.min(i32::MAX.into()));
    outcome.next_attempt_at.push(None);
}

async fn record<T: RowTx>(tx: &mut T, name: &str, epoch: Epoch, plan: &SettlePlan) -> Result<u64> {
    let settlement = Settlement {
        subscription: name.to_owned(),
        epoch,
        done: Intervals::default(),
        highest: None,
        trial: None,
        park: Vec::new(),
        unpark: Vec::new(),
    };
    Ok(tx.record(&settlement, plan).await?.unwrap_or(0) as u64)
}

fn targets(plan: &SettlePlan) -> String {
    let ids = plan.retried.ids.iter().chain(&plan.given_up.ids);
    let mut text = ids.map(String::as_str).collect::<Vec<_>>().join(" ");
    if text.len() > TARGETS_BYTES_MAX {
        let end = text.get(..TARGETS_BYTES_MAX).and_then(|text| text.rfind(' ')).unwrap_or(0);
        text.truncate(end);
    }
    text
}

/// Refuses what a row has no state for.
fn refuse_unsupported(action: ParkedAction, table: &RowTable) -> Result<()> {
    if matches!(action, ParkedAction::Retry | ParkedAction::Kill) {
        return Ok(());
    }
    let what = format!(
        "layout {} cannot {} an event: a row of {} has no state for it",
        table.layout.name(),
        action.as_str(),
        table.name
    );
    let hint = match action {
        ParkedAction::Skip => {
            "use `parked kill`, which marks the row as given up; the row stays in your table"
        }
        _ => "a row that is given up is never sent; it stays in your table until you delete it",
    };
    Err(Error::new(Code::LayoutDiffers, what).with_effect("nothing was changed").with_hint(hint))
}

/// Refuses a change while a relay leads.
async fn refuse_led<T: RowTx>(tx: &mut T, name: &str) -> Result<()> {
    let now = tx.now().await?;
    let Some(lease) = tx.lease(name).await?.filter(|lease| lease.expires_at > now) else { return Ok(()) };
    let what = format!(
        "relay {:?} leads {name} and has its waiting rows in memory: it would overwrite the change",
        lease.holder
    );
    Err(Error::new(Code::LeaseHeld, what))
}

/// See [`Store::subscription_names`](crate::store::Store::subscription_names).
pub(super) struct ReadNames;

impl TxVerb for ReadNames {
    type Output = Vec<String>;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<Vec<String>> {
        Ok(tx.subscriptions().await?.into_iter().map(|subscription| subscription.name).collect())
    }
}

/// How often operators changed rows of a subscription.
pub(super) struct ReadChanges {
    pub(super) subscription: String,
}

impl TxVerb for ReadChanges {
    type Output = i64;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<i64> {
        tx.changes(&self.subscription).await
    }
}

/// See [`Store::pause_audited`](crate::store::Store::pause_audited).
pub(super) struct PauseAudited {
    pub(super) subscription: String,
    pub(super) reason: Option<String>,
    pub(super) audit: AuditRecord,
}

impl TxVerb for PauseAudited {
    type Output = ();

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<()> {
        let found = tx.set_paused(&self.subscription, self.reason.as_deref()).await?;
        require_found(&self.subscription, found)?;
        tx.insert_audit(NewAudit::of(&self.subscription, &self.audit)).await
    }
}

/// See [`Store::note_audit`](crate::store::Store::note_audit).
pub(super) struct NoteAudit {
    pub(super) name: String,
    pub(super) audit: AuditRecord,
}

impl TxVerb for NoteAudit {
    type Output = ();

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<()> {
        tx.insert_audit(NewAudit::of(&self.name, &self.audit)).await
    }
}

/// See [`Store::find_audit`](crate::store::Store::find_audit).
pub(super) struct FindAudit {
    pub(super) search: AuditSearch,
}

impl TxVerb for FindAudit {
    type Output = Vec<AuditEntry>;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<Vec<AuditEntry>> {
        audit_tx::find(tx, &self.search).await
    }
}

/// See [`Store::list_audit`](crate::store::Store::list_audit).
pub(super) struct ListAudit {
    pub(super) query: AuditQuery,
}

impl TxVerb for ListAudit {
    type Output = Vec<AuditEntry>;

    async fn run<T: RowTx>(self, tx: &mut T) -> Result<Vec<AuditEntry>> {
        tx.list_audit(&self.query).await
    }
}
