//! What operators see and change.

use std::borrow::Cow;

use postrider::operate::{
    AuditEntry, AuditQuery, AuditRecord, ParkedAction, ParkedChange, ParkedChanged, ParkedItem, ParkedQuery,
    ReplayBatch, ReplayCandidate, ReplaySelection, ReplayedBatch,
};
use postrider::store::ParkedState;
use postrider::{Code, Error, Position, Result, Timestamp};

use super::MemoryOutbox;

impl MemoryOutbox {
    /// See `Store::list_parked`.
    ///
    /// # Errors
    /// None.
    pub fn list_parked(&self, query: &ParkedQuery, now: Timestamp) -> Result<Vec<ParkedItem>> {
        let Ok(subscription) = self.subscription(&query.subscription) else { return Ok(Vec::new()) };
        let after =
            query.after.as_deref().and_then(|row| row.parse().ok()).map_or(Position::ZERO, Position::new);
        let searched = query.search_max.unwrap_or(usize::MAX);
        let rows = subscription.parked.values().filter(|row| row.position > after).take(searched);
        let items = rows.map(|row| {
            let id = subscription.parked_ids.get(&row.position).map(ToString::to_string);
            let event_type = self.log.get(row.position).map(|event| event.event_type.clone());
            ParkedItem::new(&query.subscription, row, id, event_type, now)
        });
        Ok(items.filter(|item| query.filter.matches(item)).take(query.rows_max).collect())
    }

    /// See `Store::change_parked`.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`](postrider::Code::SubscriptionUnknown)
    pub fn change_parked(&mut self, change: &ParkedChange, now: Timestamp) -> Result<ParkedChanged> {
        let positions: Vec<Position> =
            change.rows.iter().filter_map(|row| row.parse().ok().map(Position::new)).collect();
        self.subscription(&change.subscription)?;
        let (mut changed, mut moved_on) = (Vec::new(), 0);
        for position in positions {
            if change.action == ParkedAction::Retry
                && !change.out_of_order
                && self.has_moved_on(&change.subscription, position)
            {
                moved_on += 1;
            } else if self.subscription_mut(&change.subscription)?.operate(position, change.action) {
                changed.push(position);
            }
        }
        let count = changed.len() as u64;
        if count > 0 {
            let targets: Vec<String> = changed.iter().map(Position::to_string).collect();
            self.record_audit(&change.subscription, &change.audit, count, targets.join(" "), now);
        }
        Ok(ParkedChanged::new(count, moved_on, change.rows.len() as u64 - count - moved_on))
    }

    /// See `Store::replay`.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`](postrider::Code::SubscriptionUnknown), or
    /// [`Code::HistoryChanged`](postrider::Code::HistoryChanged) if the subscription is halted.
    pub fn replay(&mut self, batch: &ReplayBatch, now: Timestamp) -> Result<ReplayedBatch> {
        let subscription = self.subscription(&batch.subscription)?;
        if let Some(reason) = &subscription.halted {
            return Err(Error::new(Code::HistoryChanged, format!("the subscription is halted: {reason}")));
        }
        let newest = self.log.sequence();
        let last = batch.last.unwrap_or(batch.filter.to.map_or(newest, |to| to.min(newest)));
        let events = self.log.visible().filter(|(at, _)| *at > batch.after && *at <= last);
        let candidates = events.map(|(position, event)| ReplayCandidate {
            position,
            time: event.time,
            expires_at: event.expires_at,
            names: Some((event.event_type.clone(), event.ordering_key().map(Cow::into_owned))),
            parked: subscription.parked.contains_key(&position),
        });
        let done = &subscription.progress.done;
        let selection = batch.select(candidates.collect(), (batch.after, last), usize::MAX, done, now);
        let ReplaySelection { result, first_of_key, behind } = selection;
        let Some(audit) = batch.audit.as_ref().filter(|_| result.counts.replayed > 0) else {
            return Ok(result);
        };
        let mut targets = Vec::new();
        for (state, events) in [(ParkedState::Retry, first_of_key), (ParkedState::Behind, behind)] {
            for ReplayCandidate { position, names, .. } in events {
                let id = self.log.get(position).map(|event| event.id);
                let key = names.and_then(|(_, key)| key);
                self.subscription_mut(&batch.subscription)?.park_again(position, state, key, id);
                targets.push(position.to_string());
            }
        }
        self.record_audit(&batch.subscription, audit, result.counts.replayed, targets.join(" "), now);
        Ok(result)
    }

    /// Whether a dead event has a later event of its key that was read and is not parked.
    fn has_moved_on(&self, name: &str, position: Position) -> bool {
        let Ok(subscription) = self.subscription(name) else { return false };
        let Some(row) = subscription.parked.get(&position).filter(|row| row.state == ParkedState::Dead)
        else {
            return false;
        };
        let highest = subscription.progress.highest.map_or(Position::ZERO, |seen| seen.position);
        row.key.is_some()
            && self.log.visible().any(|(at, event)| {
                at > position
                    && at <= highest
                    && event.ordering_key().as_deref() == row.key.as_deref()
                    && !subscription.parked.contains_key(&at)
            })
    }

    /// Writes an audit row.
    pub fn record_audit(
        &mut self,
        name: &str,
        audit: &AuditRecord,
        events: u64,
        targets: String,
        now: Timestamp,
    ) {
        self.audit.push(AuditEntry::new(audit, Some(name.to_owned()), events, targets, now));
    }

    /// See `Store::list_audit`.
    pub fn list_audit(&self, query: &AuditQuery) -> Vec<AuditEntry> {
        let mut found: Vec<AuditEntry> = self
            .audit
            .iter()
            .filter(|entry| query.subscription.is_none() || entry.subscription == query.subscription)
            .filter(|entry| query.before.is_none_or(|before| entry.command < before))
            .cloned()
            .collect();
        found.sort_by_key(|entry| std::cmp::Reverse(entry.command));
        found.truncate(query.commands_max);
        found
    }
}
