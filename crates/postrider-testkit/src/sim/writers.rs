//! The application: transactions that lock their keys, write events, and commit or do not.

use std::collections::{BTreeMap, BTreeSet};

use postrider::{Aggregate, Event, Timestamp};

use super::agenda::Happening;
use super::facts::{Fact, Facts};
use super::random::Span;
use super::world::World;
use crate::memory::TransactionId;
use crate::sink::Poison;

/// All writers and the keys they hold.
#[derive(Debug)]
pub(crate) struct Writers {
    open: Vec<Option<Open>>,
    locked: BTreeSet<u32>,
    /// Committed events of a key.
    versions: BTreeMap<u32, u32>,
    /// The template of every event; creating one would read the real clock.
    template: Event,
    /// Transactions each writer may still begin once the faults are over.
    farewells: Vec<u32>,
}

/// A transaction under way. It holds its keys from before it writes until it ends, so the order of
/// positions is the order of commits for each key.
#[derive(Debug)]
struct Open {
    transaction: TransactionId,
    keys: Vec<u32>,
    left: usize,
    facts: Vec<usize>,
}

impl Writers {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            open: (0..count).map(|_| None).collect(),
            locked: BTreeSet::new(),
            versions: BTreeMap::new(),
            template: Event::new("sim.happened", ""),
            farewells: vec![1; count],
        }
    }

    /// Learns the keys' versions from a restored log.
    pub(crate) fn reload<'a>(&mut self, events: impl Iterator<Item = &'a Event>, facts: &Facts) {
        self.versions.clear();
        for fact in events.map(|event| facts.of(event)) {
            if let Some(key) = fact.key {
                let version = self.versions.entry(key).or_default();
                *version = fact.version.max(*version);
            }
        }
    }
}

impl World {
    /// One step of a writer.
    pub(crate) fn write(&mut self, writer: usize) {
        match self.writers.open[writer].take() {
            None => self.begin(writer),
            Some(open) if open.left > 0 => self.insert(writer, open),
            Some(open) => self.end(writer, open),
        }
    }

    fn write_again(&mut self, writer: usize, gap: Span) {
        let at = self.now + self.random.time(gap);
        self.agenda.plan(at, Happening::Write(writer));
    }

    fn begin(&mut self, writer: usize) {
        if self.healing {
            if self.writers.farewells[writer] == 0 {
                return;
            }
            self.writers.farewells[writer] -= 1;
        } else if self.facts.len() >= self.scenario.events_max {
            return;
        }
        let wanted = self.random.size(1, 3);
        let mut keys: Vec<u32> =
            (0..wanted).map(|_| self.random.index(self.scenario.keys as usize) as u32).collect();
        keys.retain(|key| self.writers.locked.insert(*key));
        let left = self.random.size(1, 5);
        let transaction = self.database.log.begin();
        self.writers.open[writer] = Some(Open { transaction, keys, left, facts: Vec::new() });
        self.write_again(writer, self.scenario.write_gap);
    }

    fn insert(&mut self, writer: usize, mut open: Open) {
        let key = if open.keys.is_empty() || self.random.permille(80) {
            None
        } else {
            Some(self.random.pick(&open.keys))
        };
        let before = open.facts.iter().filter(|fact| self.facts.get(**fact).key == key).count() as u32;
        let version = key.map_or(0, |key| self.writers.versions.get(&key).unwrap_or(&0) + before + 1);
        // Most events of a key go one way, some go another.
        let topic = match key {
            Some(key) if !self.random.permille(150) => key as usize % 5,
            _ => self.random.index(6),
        };
        let poison = self.poison();
        let event = self.event(key, version);
        let (id, expires) = (event.id, event.expires_at.is_some());
        let Some(position) = self.database.log.insert(open.transaction, event) else {
            return self.close(writer, &open);
        };
        let fact = Fact { position, key, version, topic, poison, expires, committed: None };
        if let Some(poison) = poison {
            self.destinations.iter_mut().for_each(|destination| destination.script.poison(id, poison));
        }
        open.facts.push(self.facts.add(fact));
        open.left -= 1;
        let late = open.left == 0 && self.random.permille(self.scenario.late_commit_permille);
        let gap = if late && !self.healing { Span::ms(50, 3000) } else { self.scenario.write_gap };
        self.tally_if(late, "late commit");
        self.writers.open[writer] = Some(open);
        self.write_again(writer, gap);
    }

    fn end(&mut self, writer: usize, open: Open) {
        if !self.healing && self.random.permille(self.scenario.rollback_permille) {
            self.database.log.rollback(open.transaction);
            self.tally.add("position rolled back", open.facts.len() as u64);
        } else if self.database.log.commit(open.transaction) {
            for fact in &open.facts {
                let now = self.now;
                let fact = self.facts.get_mut(*fact);
                fact.committed = Some(now);
                if let Some(key) = fact.key {
                    *self.writers.versions.entry(key).or_default() += 1;
                }
            }
            self.tally.add("event committed", open.facts.len() as u64);
            self.note(|world| {
                let facts: Vec<String> = open.facts.iter().map(|f| world.facts.get(*f).to_string()).collect();
                format!("w{writer} commits {}", facts.join(" "))
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
        event.id = self.facts.next_id();
        event.time = self.wall();
        // Some keys are texts of their own; others are aggregates, two of different types under each id.
        match key {
            Some(key) if key % 3 > 0 => {
                let kind = if key % 3 == 1 { "order" } else { "user" };
                event.aggregate = Some(Aggregate { kind: kind.to_owned(), id: (key / 3).to_string() });
            }
            own => event.key = own.map(|key| format!("k{key}")),
        }
        event.payload = format!("{key:?} {version}").into();
        if self.random.permille(50) {
            event.max_attempts = Some(self.random.between(1, 4) as u32);
        }
        if self.random.permille(self.scenario.expiry_permille) {
            let wait = self.random.time(Span::ms(0, 400));
            event.expires_at = Some(self.wall().after(wait));
        }
        event
    }

    fn poison(&mut self) -> Option<Poison> {
        if self.random.permille(self.scenario.deadly_permille) && self.deadly_left > 0 {
            self.deadly_left -= 1;
            return Some(Poison::Deadly);
        }
        let times = self.random.between(1, 3) as u32;
        let kind = self.random.pick(&[Poison::Rejected, Poison::Failing, Poison::FailingTimes(times)]);
        self.random.permille(self.scenario.poison_permille).then_some(kind)
    }

    /// No writer is active, and none will be.
    pub(crate) fn writers_rest(&self) -> bool {
        self.writers.open.iter().all(Option::is_none) && self.writers.farewells.iter().all(|left| *left == 0)
    }

    /// The calendar of everybody whose clock is right.
    pub(crate) fn wall(&self) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000).after(self.now)
    }
}
