//! Parked events come back into memory when their turn has come.

use std::collections::{HashSet, VecDeque};

use super::io::Fetch;
use super::leader::Leader;
use super::lines::{Body, Entry, Stage};
use super::park::Fate;
use super::turn::Turn;
use super::{Deposed, Effect, KeyId, Route, Routed};
use crate::Position;
use crate::ledger::ParkedState;

/// Parked events of one key read at a time, so that a long line does not cost a query per event.
const PER_KEY_MAX: usize = 32;

impl Leader {
    /// The head of a line is in the table and its turn has come, unless the last owner had events of its key
    /// in memory that go before it and are still to be read.
    pub(super) fn want(&mut self, key: KeyId) {
        let Some(line) = self.lines.get_mut(key) else { return };
        if self.reader.has_passed(line.head.position) {
            line.stage = Stage::Wanted;
            self.wanted.push_back(key);
        } else {
            line.stage = Stage::Unread;
            self.unread.insert((line.head.position, key));
        }
    }

    /// Asks for wanted events, as many as there is room for in memory. Claims leave room for a batch of
    /// these, so that retries do not starve behind a full read-ahead.
    pub(super) fn fetch(&mut self, turn: &mut Turn<'_>) {
        if self.wanted.is_empty() || !self.fetching.is_empty() {
            return;
        }
        let policy = turn.policy();
        let room = (policy.read_ahead_events_max + policy.batch_events_max)
            .saturating_sub(self.memory.events + self.memory.claiming.events_max);
        let bytes_room = (policy.read_ahead_bytes_max + policy.batch_bytes_max)
            .saturating_sub(self.memory.bytes + self.memory.claiming.bytes_max);
        let events_max = if bytes_room == 0 { 0 } else { room.min(policy.claim_events_max) };
        // What fills the memory may itself wait for one of these.
        let events_max = events_max.max(usize::from(self.is_still()));
        while self.fetching.len() < events_max
            && let Some(key) = self.wanted.pop_front()
        {
            let Some(line) = self.lines.get_mut(key).filter(|line| line.stage == Stage::Wanted) else {
                continue;
            };
            line.stage = Stage::Fetching;
            let reader = &self.reader;
            let missing = std::iter::once(&line.head)
                .chain(&line.rest)
                .take_while(|entry| entry.body.is_none() && reader.has_passed(entry.position));
            let most = PER_KEY_MAX.min(events_max - self.fetching.len());
            self.fetching.extend(missing.take(most).map(|entry| (key, entry.position)));
        }
        if !self.fetching.is_empty() {
            let positions = self.fetching.iter().map(|(_, position)| *position).collect();
            turn.emit(Effect::Fetch(positions, bytes_room.min(policy.batch_bytes_max)));
        }
    }

    /// Nothing is on its way to the sink, and no destination is waited for.
    fn is_still(&self) -> bool {
        self.ready.is_empty()
            && self.in_flight == 0
            && !self.is_staged()
            && !self.destinations.values().any(|d| d.outage.is_some() && d.is_waited_for())
    }

    /// What was asked for is here, or gone, or did not fit and is asked for again. An event of another key
    /// in its place belongs to another history.
    pub(super) fn fetched(&mut self, turn: &mut Turn<'_>, fetched: Fetch) -> Result<(), Deposed> {
        let asked = std::mem::take(&mut self.fetching);
        let known: HashSet<(KeyId, Position)> = asked.iter().copied().collect();
        if let Some(other) = fetched.events.iter().find(|e| !known.contains(&(e.key, e.position))) {
            let position = other.position;
            let reason = format!(
                "the event at position {position} has a different key than its parked row: the database was \
                 restored, or all routing rules were removed while events waited with a rule's key"
            );
            turn.emit(Effect::Halt { epoch: self.lease.epoch, reason });
            return Err(Deposed::HistoryChanged);
        }
        let mut unrouted = Vec::new();
        for Routed { position, key, route, event } in fetched.events {
            match route {
                Route::To { id, name, label } => {
                    self.load(key, position, Body { destination: id, name, label, event })
                }
                Route::Filtered => self.drop_filtered(turn, key, position),
                Route::Unrouted => unrouted.push((key, position)),
            }
        }
        // After the loading, so that what was read behind such a head does not stay in memory with it.
        for (key, position) in unrouted {
            if self.heads(key, position) {
                let fate = Fate::new(ParkedState::Unrouted, "no rule matches");
                self.park_line(turn, key, Stage::Stuck, fate);
            }
        }
        for (key, position) in asked.iter().filter(|(_, position)| fetched.taken.contains(position)) {
            self.drop_filtered(turn, *key, *position);
        }
        let asked_keys = dedup(asked.iter().map(|(key, _)| *key));
        for (key, position) in asked {
            if fetched.gone.contains(&position) && self.heads(key, position) {
                let why = "its row is no longer in the outbox";
                self.give_up(turn, key, Fate::new(ParkedState::Dead, why));
            }
        }
        for key in asked_keys {
            if self.lines.stage(key) == Some(Stage::Fetching) {
                self.proceed(turn, key);
            }
        }
        Ok(())
    }

    /// The database was busy: ask again.
    pub(super) fn fetch_failed(&mut self) {
        for key in dedup(std::mem::take(&mut self.fetching).into_iter().map(|(key, _)| key)) {
            self.want(key);
        }
    }

    fn heads(&self, key: KeyId, position: Position) -> bool {
        self.lines.get(key).is_some_and(|line| line.head.position == position)
    }

    fn load(&mut self, key: KeyId, position: Position, body: Body) {
        let Some(line) = self.lines.get_mut(key) else { return };
        let mut entries = std::iter::once(&mut line.head).chain(&mut line.rest);
        if let Some(entry) = entries.find(|entry| entry.position == position)
            && entry.body.is_none()
        {
            self.memory.keep(&body);
            entry.body = Some(body);
        }
    }

    /// The subscription no longer wants an event that was parked, or another process has it: it is done.
    fn drop_filtered(&mut self, turn: &Turn<'_>, key: KeyId, position: Position) {
        let head = self.heads(key, position);
        let Some(line) = self.lines.get_mut(key) else { return };
        if head {
            self.lines.pop(key);
        } else {
            remove(&mut line.rest, position);
        }
        self.acquit(position);
        self.books.unpark(position, turn.elapsed());
    }
}

pub(super) fn remove(entries: &mut VecDeque<Entry>, position: Position) -> Option<Entry> {
    let at = entries.iter().position(|entry| entry.position == position)?;
    entries.remove(at)
}

fn dedup(keys: impl Iterator<Item = KeyId>) -> Vec<KeyId> {
    let mut keys: Vec<KeyId> = keys.collect();
    keys.dedup();
    keys
}
