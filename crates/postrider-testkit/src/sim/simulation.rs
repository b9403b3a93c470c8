//! The world: everything there is, and the loop that lets it happen.

use std::collections::BTreeMap;
use std::time::Duration;

use super::agenda::{Agenda, Happening};
use super::bug::Bug;
use super::check::{Checks, View, unsettled};
use super::facts::Facts;
use super::operation::{Operation, OperationId};
use super::random::{Random, Span};
use super::relay::Relay;
use super::scenario::{Kind, Scenario};
use super::seen::{Owner, Seen};
use super::tally::Tally;
use super::trace::Trace;
use super::writers::Writers;
use crate::memory::MemoryDatabase;
use crate::sink::Destination;
use postrider::store::Start;

/// How long after the faults the world may take to become quiet.
const QUIET_WITHIN: Duration = Duration::from_secs(600);

/// More happenings than any correct history has: something loops.
const HAPPENINGS_MAX: u64 = 400_000;

/// One history in the making.
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) bug: Option<Bug>,
    pub(crate) random: Random,
    pub(crate) now: Duration,
    pub(crate) agenda: Agenda,
    pub(crate) database: MemoryDatabase,
    /// Counts the restores of the whole database: connections from before are dead.
    pub(crate) connection: u64,
    pub(crate) backup: Option<MemoryDatabase>,
    pub(crate) facts: Facts,
    pub(crate) writers: Writers,
    pub(crate) deadly_left: u32,
    pub(crate) relays: Vec<Relay>,
    pub(crate) destinations: Vec<Destination>,
    pub(crate) operations: BTreeMap<OperationId, Operation>,
    pub(crate) operation_count: OperationId,
    /// The next settle of the subscription takes longer than its lease.
    pub(crate) stick_settle: Vec<bool>,
    pub(crate) delivered: Vec<Vec<u32>>,
    /// Who was given the lease last.
    pub(crate) leaders: Vec<Option<Owner>>,
    /// Subscriptions whose leader reads nothing new because a limit is reached.
    pub(crate) full: Vec<bool>,
    pub(crate) healing: bool,
    pub(crate) checks: Checks,
    pub(crate) tally: Tally,
    pub(crate) trace: Trace,
}

/// What the checkers can read, without borrowing the checkers.
macro_rules! view {
    ($world:expr) => {
        View {
            now: $world.now,
            scenario: &$world.scenario,
            facts: &$world.facts,
            database: &$world.database,
            delivered: &$world.delivered,
            full: &$world.full,
        }
    };
}

impl World {
    pub(crate) fn new(seed: u64, bug: Option<Bug>, trace: Trace) -> Self {
        // Neighbouring seeds must not make similar worlds.
        let mut random = Random::new(seed.wrapping_mul(0xd134_2543_de82_ef95) ^ 0x5eed);
        let scenario = Scenario::new(&mut random);
        let subscriptions = scenario.subscriptions.len();
        let mut world = Self {
            bug,
            now: Duration::ZERO,
            agenda: Agenda::default(),
            database: MemoryDatabase::default(),
            connection: 0,
            backup: None,
            facts: Facts::default(),
            writers: Writers::new(scenario.writers),
            deadly_left: 2,
            relays: (0..scenario.relays).map(Relay::new).collect(),
            destinations: Vec::new(),
            operations: BTreeMap::new(),
            operation_count: 0,
            stick_settle: vec![false; subscriptions],
            delivered: vec![Vec::new(); subscriptions],
            leaders: vec![None; subscriptions],
            full: vec![false; subscriptions],
            healing: false,
            checks: Checks::new(&scenario),
            tally: Tally::default(),
            trace,
            random,
            scenario,
        };
        world.set_out();
        world
    }

    fn set_out(&mut self) {
        self.note(|world| format!("{:#?}", world.scenario));
        for plan in &self.scenario.subscriptions {
            let prefix_safe = plan.prefix_safe && self.bug != Some(Bug::FalsePrefix);
            self.destinations.extend(plan.destinations.iter().map(|_| Destination::new(prefix_safe)));
            self.database.subscribe(&plan.name, Start::Beginning);
        }
        for relay in 0..self.relays.len() {
            let at = self.random.time(Span::ms(0, 50));
            self.agenda.plan(at, Happening::Start(relay));
        }
        for writer in 0..self.scenario.writers {
            let at = self.random.time(self.scenario.write_gap);
            self.agenda.plan(at, Happening::Write(writer));
        }
        self.plan_fault();
        self.agenda.plan(self.scenario.busy, Happening::Heal);
    }

    /// Lets everything happen until the world is quiet, or should have been.
    pub(crate) fn run(&mut self) {
        let end = self.scenario.busy + QUIET_WITHIN;
        let mut happenings = 0;
        while let Some((at, happening)) = self.agenda.next() {
            happenings += 1;
            if at > end || happenings > HAPPENINGS_MAX {
                break;
            }
            self.now = at;
            self.happen(happening);
            // Being quiet can only begin with something that reached the database.
            if self.healing && matches!(happening, Happening::Perform(_)) && self.is_quiet() {
                break;
            }
        }
        for seat in self.seats() {
            self.note(|world| {
                let mind = &world.relays[seat.relay].minds[seat.subscription];
                format!("{seat:?} due {:?} {:?}", mind.brain.due(), mind.brain.snapshot())
            });
        }
        let view = view!(self);
        self.checks.finish(&view);
        self.tally.add("happening", happenings);
        self.tally.add("simulated second", self.now.as_secs());
        match self.scenario.kind {
            Kind::Calm => self.tally.count("history: calm"),
            Kind::Isolation => self.tally.count("history: isolation"),
            Kind::Storm => self.tally.count("history: storm"),
        }
    }

    fn is_quiet(&self) -> bool {
        let view = view!(self);
        self.writers_rest()
            && view.subscriptions().all(|subscription| unsettled(&view, subscription).is_none())
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Write(writer) => self.write(writer),
            Happening::Fault => self.fault(),
            Happening::Heal => self.heal(),
            Happening::Tick(seat, alarm) => self.tick(seat, alarm),
            Happening::Perform(operation) => self.perform(operation),
            Happening::Deliver(operation) => self.deliver(operation),
            Happening::TimeOut(operation) => self.time_out(operation),
            Happening::Start(relay) => self.start(relay),
            Happening::Thaw(relay) => self.thaw(relay),
            Happening::EndOutage(destination) => self.end_outage(destination),
            Happening::Resume(subscription) => self.resume(subscription),
            Happening::Accept(subscription) => self.accept(subscription),
        }
    }

    /// Tells the checkers.
    pub(crate) fn saw(&mut self, seen: &Seen<'_>) {
        let known = self.checks.broken.len();
        let view = view!(self);
        self.checks.observe(&view, seen);
        if self.checks.broken.len() > known {
            self.note(|world| format!("BROKEN {:?}", world.checks.broken));
        }
    }

    /// Writes a line of the trace, if it is enabled.
    pub(crate) fn note(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.trace.is_on() {
            let line = line(self);
            self.trace.line(self.now, &line);
        }
    }

    pub(crate) fn tally_if(&mut self, happened: bool, what: &'static str) {
        if happened {
            self.tally.count(what);
        }
    }
}
