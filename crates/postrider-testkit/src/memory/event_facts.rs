//! What the outbox knows about one event.

use postrider::operate::explain::{
    Absent, EventFacts, EventIdentity, OpenWriter, Place, SqlFlavor, SubscriptionFacts,
};
use postrider::operate::{AuditEntry, AuditSearch, EventSelector, ParkedCount, ParkedItem};
use postrider::store::ParkedState;
use postrider::{Now, Position};
use uuid::Uuid;

use super::{MemoryOutbox, MemorySubscription};

impl MemoryOutbox {
    /// See `Store::event_facts`.
    pub fn event_facts(&self, sought: &EventSelector, now: Now) -> EventFacts {
        match sought {
            EventSelector::Key(key) => self.facts_of_key(key, now),
            EventSelector::Event(event) => self.facts_of_event(event, now),
            _ => EventFacts::new(now.wall),
        }
    }

    /// See `Store::find_audit`.
    pub fn find_audit(&self, search: &AuditSearch) -> Vec<AuditEntry> {
        let mut found: Vec<AuditEntry> =
            self.audit.iter().filter(|entry| search.wants(entry)).cloned().collect();
        found.sort_by_key(|entry| std::cmp::Reverse(entry.command));
        found.truncate(search.found_max);
        found
    }

    fn facts_of_event(&self, event: &str, now: Now) -> EventFacts {
        let mut facts = EventFacts::new(now.wall);
        let id = Uuid::parse_str(event).ok();
        let named = event.parse().ok().map(Position::new);
        let found = self.log.visible().map(|(position, event)| (position, event.id));
        let position = named.or_else(|| found.into_iter().find(|(_, of)| Some(*of) == id).map(|(at, _)| at));
        let Some(position) = position.filter(|position| self.log.get(*position).is_some()) else {
            facts.absent = Some(self.absent(named, now));
            return facts;
        };
        facts.event = Some(self.identity(position));
        facts.content = self.log.get(position).filter(|_| !self.log.is_unreadable(position)).cloned();
        facts.damaged = self.damage(position);
        facts.subscriptions =
            self.subscriptions().map(|(name, of)| self.facts_of(name, of, position, now)).collect();
        facts
    }

    fn facts_of_key(&self, key: &str, now: Now) -> EventFacts {
        let mut facts = EventFacts::new(now.wall);
        for (name, of) in self.subscriptions() {
            let parked = of.parked.values().rev().find(|row| {
                row.key.as_deref() == Some(key) && row.state != ParkedState::Behind && !row.state.is_final()
            });
            let unread = || {
                let waits = |(position, event): &(Position, &std::sync::Arc<postrider::Event>)| {
                    !of.progress.done.contains(*position) && event.ordering_key().as_deref() == Some(key)
                };
                self.log.visible().find(waits).map(|(position, _)| position)
            };
            let dead = || of.parked.values().rev().find(|row| row.key.as_deref() == Some(key));
            let position = parked.map(|row| row.position).or_else(unread);
            let Some(position) = position.or_else(|| dead().map(|row| row.position)) else { continue };
            let mut about = self.facts_of(name, of, position, now);
            (about.event, about.damaged) = (Some(self.identity(position)), self.damage(position));
            facts.subscriptions.push(about);
        }
        if facts.subscriptions.is_empty() {
            facts.absent = Some(Absent::NothingWaits);
        }
        facts
    }

    fn identity(&self, position: Position) -> EventIdentity {
        let event = self.log.get(position).filter(|_| !self.log.is_unreadable(position));
        EventIdentity::new(position.to_string(), event.map(|event| &**event))
    }

    fn damage(&self, position: Position) -> Option<String> {
        self.log.is_unreadable(position).then(|| "it is damaged".to_owned())
    }

    fn absent(&self, position: Option<Position>, now: Now) -> Absent {
        let oldest = self.log.visible().next();
        let transactions: Vec<OpenWriter> = self
            .log
            .open()
            .map(|at| OpenWriter::new(at.to_string(), "a test", Some(now.wall), None, SqlFlavor::Postgres))
            .collect();
        match (position, oldest) {
            (Some(position), _) if position > self.log.sequence() => {
                Absent::NotReached { last: self.log.sequence().to_string() }
            }
            (Some(position), Some((first, event))) if position < first => {
                Absent::RemovedByRetention { oldest: event.time }
            }
            _ if !transactions.is_empty() => Absent::TransactionOpen { transactions },
            (Some(_), _) => Absent::Empty,
            (None, _) => Absent::Unknown { searched: None },
        }
    }

    fn facts_of(
        &self,
        name: &str,
        of: &MemorySubscription,
        position: Position,
        now: Now,
    ) -> SubscriptionFacts {
        let item = |row: &postrider::ledger::ParkedRow| {
            let event = self.log.get(row.position);
            let (id, event_type) = (event.map(|e| e.id.to_string()), event.map(|e| e.event_type.clone()));
            ParkedItem::new(name, row, id, event_type, now.wall)
        };
        let parked = of.parked.get(&position);
        let is_done = of.progress.done.contains(position);
        let place = match parked {
            Some(row) => Place::Parked(Box::new(item(row))),
            None if is_done => Place::Done { before: Some(now.wall) },
            None => {
                let undone = |(at, _): &(Position, &_)| *at < position && !of.progress.done.contains(*at);
                let ahead = self.log.visible().filter(undone).count() as u64;
                Place::Backlog { ahead: Some(ParkedCount::up_to(ahead, 10_000)) }
            }
        };
        let key = match parked {
            Some(row) => row.key.clone(),
            None => self.identity(position).key,
        };
        let is_behind = parked.is_none_or(|row| row.state == ParkedState::Behind);
        let head = of.parked.values().rev().find(|row| {
            row.position < position
                && key.is_some()
                && row.key == key
                && row.state != ParkedState::Behind
                && (parked.is_some() || !row.state.is_final())
        });
        let mut facts = SubscriptionFacts::new(name, place);
        facts.head = head.filter(|_| is_behind && (parked.is_some() || !is_done)).map(item);
        (facts.paused, facts.halted) = (of.paused.clone(), of.halted.clone());
        let overview = self.overview(0, now);
        if let Some(known) = overview.subscriptions.into_iter().find(|known| known.name == name) {
            (facts.lease, facts.relays) = (known.lease, known.relays);
        }
        facts
    }
}
