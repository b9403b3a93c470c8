//! The rows of one subscription: progress, lease, parked events, pause and halt.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider::ledger::{KnownRows, ParkedRow, ParkedState, Progress, Redelivery, SettledChange, seal};
use postrider::operate::ParkedAction;
use postrider::store::{
    Acquired, Epoch, LeaseOverview, LeaseRequest, Loaded, RELAYS_MAX, RelayOverview, RelayReport, RelayRole,
    Renewed, Settled, Settlement,
};
use postrider::{Position, Timestamp};
use uuid::Uuid;

use super::Log;

/// The holder of a lease and the time at which it expires, by the database's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLease {
    /// The relay that holds it.
    pub holder: String,
    /// The time at which it expires.
    pub until: Duration,
}

/// The state of one subscription in the database.
#[derive(Debug, Clone, Default)]
pub struct MemorySubscription {
    /// Which positions are done.
    pub progress: Progress,
    /// The epoch of the last owner.
    pub epoch: Epoch,
    /// The lease, expired or not.
    pub lease: Option<MemoryLease>,
    /// The parked rows, by position.
    pub parked: BTreeMap<Position, ParkedRow>,
    /// The parked rows, as the owner knows them.
    pub known: KnownRows,
    /// The ids of parked events: after a restore, their positions may belong to other events.
    pub parked_ids: BTreeMap<Position, Uuid>,
    /// Whether the last owner released the subscription cleanly.
    pub unclean: bool,
    /// The reason of a pause.
    pub paused: Option<String>,
    /// The reason of a halt.
    pub halted: Option<String>,
    /// The last reports of relays, by name.
    pub relays: BTreeMap<String, RelayOverview>,
}

impl MemorySubscription {
    /// Records the report of a relay.
    pub(super) fn report(&mut self, report: RelayReport, now: Timestamp) {
        let RelayReport { relay, role, duration, down, facts, .. } = report;
        if role == RelayRole::Gone {
            self.relays.remove(&relay);
            return;
        }
        let (leading, expires_at) = (role == RelayRole::Leading, now.after(duration));
        let of = RelayOverview { relay: relay.clone(), leading, seen_at: now, expires_at, down, facts };
        self.relays.insert(relay, of);
    }

    /// The latest reports, also those that are no longer valid.
    pub(super) fn latest_relays(&self) -> Vec<RelayOverview> {
        let mut latest: Vec<RelayOverview> = self.relays.values().cloned().collect();
        latest.sort_by_key(|of| std::cmp::Reverse(of.expires_at));
        latest.truncate(RELAYS_MAX);
        latest.sort_by(|one, other| one.relay.cmp(&other.relay));
        latest
    }

    pub(super) fn acquire(&mut self, request: &LeaseRequest, now: Duration) -> Acquired {
        if let Some(reason) = &self.halted {
            return Acquired::Halted(reason.clone());
        }
        if let Some(lease) = &self.lease
            && lease.holder != request.holder
            && lease.until > now
        {
            return Acquired::Held { holder: lease.holder.clone(), remaining: lease.until - now };
        }
        self.epoch = Epoch(self.epoch.0 + 1);
        let previous = self.lease.take();
        self.lease = Some(MemoryLease { holder: request.holder.clone(), until: now + request.duration });
        let clean = !std::mem::replace(&mut self.unclean, true);
        self.known = KnownRows::loaded(self.epoch, self.parked.values());
        let mut loaded = self.load(clean);
        loaded.previous = previous.map(|lease| LeaseOverview {
            expires_at: Timestamp::from_micros(i64::try_from(lease.until.as_micros()).unwrap_or(i64::MAX)),
            holder: lease.holder,
        });
        Acquired::Granted(Box::new(loaded))
    }

    fn load(&self, clean: bool) -> Loaded {
        let rows =
            |wanted: fn(&ParkedRow) -> bool| self.parked.values().filter(|r| wanted(r)).cloned().collect();
        let mut loaded = Loaded::new(self.epoch, self.progress.clone());
        loaded.parked = rows(|row| !row.state.is_final());
        loaded.dead = rows(|row| row.state == ParkedState::Dead);
        loaded.parked_count = self.parked.len() as u64;
        loaded.clean = clean;
        loaded.paused = self.paused.clone();
        loaded
    }

    pub(super) fn renew(&mut self, request: &LeaseRequest, epoch: Epoch, now: Duration) -> Renewed {
        match &mut self.lease {
            Some(lease) if self.epoch == epoch && lease.holder == request.holder => {
                lease.until = now + request.duration;
                let found: Vec<_> = self.parked.values().map(|row| (row.position, seal(row))).collect();
                let parked_changed = self.known.differ(epoch, &found);
                Renewed::Held { paused: self.paused.clone(), parked_changed }
            }
            _ => Renewed::Lost,
        }
    }

    pub(super) fn release(&mut self, epoch: Epoch, clean: bool) {
        if self.epoch == epoch && self.lease.take().is_some() {
            self.unclean = !clean;
        }
    }

    pub(super) fn settle(&mut self, settlement: Settlement, log: &Log) -> Settled {
        if self.epoch != settlement.epoch {
            return Settled::Fenced;
        }
        let mut known = std::mem::take(&mut self.known);
        let change = SettledChange::of(&settlement);
        let as_known = |parked: &BTreeMap<Position, ParkedRow>, position: Position| {
            parked.get(&position).map(seal).as_deref() == known.expected(settlement.epoch, position)
        };
        let mut park = settlement.park.clone();
        park.retain(|row| as_known(&self.parked, row.position));
        let all_written = park.len() == settlement.park.len();
        self.progress =
            Progress { done: settlement.done, highest: settlement.highest, trial: settlement.trial };
        // Its event was delivered, whatever another process did to the row meanwhile.
        for position in settlement.unpark {
            self.parked.remove(&position);
            self.parked_ids.remove(&position);
        }
        for mut row in park {
            if let Some(event) = log.get(row.position) {
                self.parked_ids.entry(row.position).or_insert(event.id);
            }
            if let Some(old) = self.parked.remove(&row.position) {
                row.keep_names_of(old);
            }
            self.parked.insert(row.position, row);
        }
        known.settle(change);
        self.known = known;
        if all_written { Settled::Done } else { Settled::ParkedChanged }
    }

    /// Changes a parked row as an operator does, if its state allows it. Returns whether it did.
    pub fn operate(&mut self, position: Position, action: ParkedAction) -> bool {
        let Some(row) = self.parked.get_mut(&position).filter(|row| action.applies_to(row.state)) else {
            return false;
        };
        match action {
            ParkedAction::Retry => {
                if row.state == ParkedState::Dead {
                    row.redelivery = Some(Redelivery::Retry);
                }
                (row.state, row.attempts, row.next_attempt_at) = (ParkedState::Retry, 0, None);
            }
            ParkedAction::Kill => {
                (row.state, row.next_attempt_at) = (ParkedState::Dead, None);
                row.last_error.get_or_insert_with(|| "given up by an operator".to_owned());
            }
            _ => {
                self.parked.remove(&position);
                self.parked_ids.remove(&position);
            }
        }
        true
    }

    /// Parks a finished event for a replay.
    pub fn park_again(
        &mut self,
        position: Position,
        state: ParkedState,
        key: Option<String>,
        id: Option<Uuid>,
    ) {
        let row = ParkedRow {
            position,
            key,
            destination: None,
            state,
            attempts: 0,
            next_attempt_at: None,
            last_error: None,
            redelivery: Some(Redelivery::Replay),
        };
        self.parked.insert(position, row);
        self.parked_ids.extend(id.map(|id| (position, id)));
    }

    /// Whether a parked row is as the owner of this epoch knows it.
    pub fn is_as_known(&self, position: Position, epoch: Epoch) -> bool {
        self.parked.get(&position).map(seal).as_deref() == self.known.expected(epoch, position)
    }

    pub(super) fn pause_as_owner(&mut self, epoch: Epoch, reason: &str) -> Settled {
        if self.epoch != epoch {
            return Settled::Fenced;
        }
        self.paused = Some(reason.to_owned());
        Settled::Done
    }

    pub(super) fn halt(&mut self, epoch: Epoch, reason: &str) -> Settled {
        if self.epoch > epoch {
            return Settled::Fenced;
        }
        self.halted = Some(reason.to_owned());
        Settled::Done
    }

    /// Restarts from this progress with a higher epoch, which fences the old owner. Parked events above it are read again;
    /// parked rows whose position another event has are dropped.
    pub(super) fn begin(&mut self, progress: Progress, log: &Log) {
        let (mut parked, parked_ids) =
            (std::mem::take(&mut self.parked), std::mem::take(&mut self.parked_ids));
        let is_another =
            |at: &Position| log.get(*at).is_some_and(|event| parked_ids.get(at) != Some(&event.id));
        parked.retain(|position, _| progress.done.contains(*position) && !is_another(position));
        let (epoch, paused) = (Epoch(self.epoch.0 + 1), self.paused.take());
        *self = Self { progress, epoch, parked, parked_ids, paused, ..Self::default() };
    }
}
