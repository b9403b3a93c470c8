//! The application: transactions that lock their keys, write events, and commit or do not.

use std::collections::{BTreeMap, BTreeSet};

use postrider::{Aggregate, Event, Timestamp};

use super::event_queue::SimEvent;
use super::rng::Span;
use super::simulation::Simulation;
use super::written::{WrittenEvent, WrittenEvents};
use crate::memory::TransactionId;
use crate::sink::Poison;

/// All writers, and the keys that they have locked.
#[derive(Debug)]
pub(crate) struct Writers {
    open: Vec<Option<Open>>,
    locked: BTreeSet<u32>,
    /// The number of committed events per key.
    versions: BTreeMap<u32, u32>,
    /// The template of every event, because a new `Event` reads the real clock.
    template: Event,
    /// The number of transactions that each writer still begins after the faults have stopped.
    final_transactions_left: Vec<u32>,
}

/// An open transaction. It locks its keys before it writes and until it ends, so for each key the order of positions is
/// the order of commits.
#[derive(Debug)]
struct Open {
    transaction: TransactionId,
    keys: Vec<u32>,
    left: usize,
    written_events: Vec<usize>,
}

impl Writers {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            open: (0..count).map(|_| None).collect(),
            locked: BTreeSet::new(),
            versions: BTreeMap::new(),
            template: Event::new("sim.happened", ""),
            final_transactions_left: vec![1; count],
        }
    }

    /// Reads the versions of the keys from a restored log.
    pub(crate) fn reload<'a>(
        &mut self,
        events: impl Iterator<Item = &'a Event>,
        written_events: &WrittenEvents,
    ) {
        self.versions.clear();
        for written in events.map(|event| written_events.of(event)) {
            if let Some(key) = written.key {
                let version = self.versions.entry(key).or_default();
                *version = written.version.max(*version);
            }
        }
    }
}

impl Simulation {
    /// One step of a writer.
    pub(crate) fn write(&mut self, writer: usize) {
        match self.writers.open[writer].take() {
            None => self.begin(writer),
            Some(open) if open.left > 0 => self.insert(writer, open),
            Some(open) => self.end(writer, open),
        }
    }

    fn write_again(&mut self, writer: usize, gap: Span) {
        let at = self.now + self.rng.time(gap);
        self.queue.push(at, SimEvent::Write(writer));
    }

    fn begin(&mut self, writer: usize) {
        if self.faults_stopped {
            if self.writers.final_transactions_left[writer] == 0 {
                return;
            }
            self.writers.final_transactions_left[writer] -= 1;
        } else if self.written_events.len() >= self.scenario.events_max {
            return;
        }
        let wanted = self.rng.size(1, 3);
        let mut keys: Vec<u32> =
            (0..wanted).map(|_| self.rng.index(self.scenario.keys as usize) as u32).collect();
        keys.retain(|key| self.writers.locked.insert(*key));
        let left = self.rng.size(1, 5);
        let transaction = self.database.log.begin();
        self.writers.open[writer] = Some(Open { transaction, keys, left, written_events: Vec::new() });
        self.write_again(writer, self.scenario.write_gap);
    }

    fn insert(&mut self, writer: usize, mut open: Open) {
        let key = if open.keys.is_empty() || self.rng.permille(80) {
            None
        } else {
            Some(self.rng.pick(&open.keys))
        };
        let before = open
            .written_events
            .iter()
            .filter(|written| self.written_events.get(**written).key == key)
            .count() as u32;
        let version = key.map_or(0, |key| self.writers.versions.get(&key).unwrap_or(&0) + before + 1);
        // Most events of a key have the same topic, some have another.
        let topic = match key {
            Some(key) if !self.rng.permille(150) => key as usize % 5,
            _ => self.rng.index(6),
        };
        let poison = self.poison();
        let event = self.event(key, version);
        let (id, expires) = (event.id, event.expires_at.is_some());
        let Some(position) = self.database.log.insert(open.transaction, event) else {
            return self.close(writer, &open);
        };
        let written = WrittenEvent { position, key, version, topic, poison, expires, committed: None };
        if let Some(poison) = poison {
            self.destinations.iter_mut().for_each(|destination| destination.script.poison(id, poison));
        }
        open.written_events.push(self.written_events.add(written));
        open.left -= 1;
        let late = open.left == 0 && self.rng.permille(self.scenario.late_commit_permille);
        let gap = if late && !self.faults_stopped { Span::ms(50, 3000) } else { self.scenario.write_gap };
        self.tally_if(late, "late commit");
        self.writers.open[writer] = Some(open);
        self.write_again(writer, gap);
    }

    fn end(&mut self, writer: usize, open: Open) {
        if !self.faults_stopped && self.rng.permille(self.scenario.rollback_permille) {
            self.database.log.rollback(open.transaction);
            self.tally.add("position rolled back", open.written_events.len() as u64);
        } else if self.database.log.commit(open.transaction) {
            for written in &open.written_events {
                let now = self.now;
                let written = self.written_events.get_mut(*written);
                written.committed = Some(now);
                if let Some(key) = written.key {
                    *self.writers.versions.entry(key).or_default() += 1;
                }
            }
            self.tally.add("event committed", open.written_events.len() as u64);
            self.note(|sim| {
                let written_events: Vec<String> =
                    open.written_events.iter().map(|f| sim.written_events.get(*f).to_string()).collect();
                format!("w{writer} commits {}", written_events.join(" "))
            });
            self.wake_relays();
        }
        self.close(writer, &open);
    }

    fn close(&mut self, writer: usize, open: &Open) {
        for key in &open.keys {
            self.writers.locked.remove(key);
        }
        self.write_again(writer, self.scenario.write_gap);
    }

    fn event(&mut self, key: Option<u32>, version: u32) -> Event {
        let mut event = self.writers.template.clone();
        event.id = self.written_events.next_id();
        event.time = self.wall();
        // Some keys are a text; others are an aggregate, and two aggregates of different types share each id.
        match key {
            Some(key) if key % 3 > 0 => {
                let kind = if key % 3 == 1 { "order" } else { "user" };
                event.aggregate = Some(Aggregate::new(kind, (key / 3).to_string()));
            }
            own => event.key = own.map(|key| format!("k{key}")),
        }
        event.payload = format!("{key:?} {version}").into();
        if self.rng.permille(50) {
            event.max_attempts = Some(self.rng.between(1, 4) as u32);
        }
        if self.rng.permille(self.scenario.expiry_permille) {
            let wait = self.rng.time(Span::ms(0, 400));
            event.expires_at = Some(self.wall().after(wait));
        }
        event
    }

    fn poison(&mut self) -> Option<Poison> {
        if self.rng.permille(self.scenario.deadly_permille) && self.deadly_events_left > 0 {
            self.deadly_events_left -= 1;
            return Some(Poison::Deadly);
        }
        let times = self.rng.between(1, 3) as u32;
        let kind = self.rng.pick(&[Poison::Rejected, Poison::Failing, Poison::FailingTimes(times)]);
        self.rng.permille(self.scenario.poison_permille).then_some(kind)
    }

    /// Whether no transaction is open, and none will be.
    pub(crate) fn writers_are_done(&self) -> bool {
        self.writers.open.iter().all(Option::is_none)
            && self.writers.final_transactions_left.iter().all(|left| *left == 0)
    }

    /// The correct wall-clock time.
    pub(crate) fn wall(&self) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000).after(self.now)
    }
}
