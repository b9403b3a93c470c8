//! The state of a simulation, and its main loop.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::bug::Bug;
use super::check::{Checks, View, unsettled};
use super::event_queue::{DriverId, EventQueue, SimEvent};
use super::observation::{Observation, Owner};
use super::operation::{Operation, OperationId};
use super::relay::Relay;
use super::rng::{Rng, Span};
use super::scenario::{Kind, Scenario};
use super::tally::Tally;
use super::trace::Trace;
use super::writers::Writers;
use super::written::WrittenEvents;
use crate::memory::MemoryOutbox;
use crate::sink::Destination;
use postrider::store::Start;

/// The time after the last fault within which the relays must become idle.
const IDLE_WITHIN: Duration = Duration::from_secs(600);

/// No correct history has this many steps: something loops.
const STEPS_MAX: u64 = 400_000;

/// One simulation.
pub(crate) struct Simulation {
    pub(crate) scenario: Scenario,
    pub(crate) bug: Option<Bug>,
    pub(crate) rng: Rng,
    pub(crate) now: Duration,
    pub(crate) queue: EventQueue,
    pub(crate) database: MemoryOutbox,
    /// The number of restores of the whole database. Connections opened before the last one are closed.
    pub(crate) connection: u64,
    pub(crate) backup: Option<MemoryOutbox>,
    pub(crate) written_events: WrittenEvents,
    pub(crate) writers: Writers,
    pub(crate) deadly_events_left: u32,
    pub(crate) relays: Vec<Relay>,
    pub(crate) destinations: Vec<Destination>,
    pub(crate) operations: BTreeMap<OperationId, Operation>,
    pub(crate) operation_count: OperationId,
    /// The next settle of the subscription takes longer than its lease.
    pub(crate) stall_settle: Vec<bool>,
    pub(crate) delivered: Vec<Vec<u32>>,
    /// The last owner of each subscription.
    pub(crate) leaders: Vec<Option<Owner>>,
    /// Events that an operator skipped or discarded, by subscription.
    pub(crate) forgotten: Vec<BTreeSet<usize>>,
    /// The driver that loads a subscription again because an operator changed it, with everything settled.
    pub(crate) reloads: Vec<Option<DriverId>>,
    /// Subscriptions whose leader reads nothing new because a limit is reached.
    pub(crate) full: Vec<bool>,
    pub(crate) faults_stopped: bool,
    pub(crate) checks: Checks,
    pub(crate) tally: Tally,
    pub(crate) trace: Trace,
}

/// What the checkers can read, without borrowing the checkers.
macro_rules! view {
    ($sim:expr) => {
        View {
            now: $sim.now,
            scenario: &$sim.scenario,
            written_events: &$sim.written_events,
            database: &$sim.database,
            delivered: &$sim.delivered,
            forgotten: &$sim.forgotten,
            full: &$sim.full,
        }
    };
}

impl Simulation {
    pub(crate) fn new(seed: u64, bug: Option<Bug>, trace: Trace) -> Self {
        // Neighbouring seeds must not give similar scenarios.
        let mut rng = Rng::new(seed.wrapping_mul(0xd134_2543_de82_ef95) ^ 0x5eed);
        // With separate numbers, so that the other histories stay the same.
        let mut operator = Rng::new(seed ^ 0x0be7a7e);
        let scenario = Scenario::new(&mut rng).with_operator(&mut operator);
        let subscriptions = scenario.subscriptions.len();
        let mut sim = Self {
            bug,
            now: Duration::ZERO,
            queue: EventQueue::default(),
            database: MemoryOutbox::default(),
            connection: 0,
            backup: None,
            written_events: WrittenEvents::default(),
            writers: Writers::new(scenario.writers),
            deadly_events_left: 2,
            relays: (0..scenario.relays).map(Relay::new).collect(),
            destinations: Vec::new(),
            operations: BTreeMap::new(),
            operation_count: 0,
            stall_settle: vec![false; subscriptions],
            delivered: vec![Vec::new(); subscriptions],
            leaders: vec![None; subscriptions],
            forgotten: vec![BTreeSet::new(); subscriptions],
            reloads: vec![None; subscriptions],
            full: vec![false; subscriptions],
            faults_stopped: false,
            checks: Checks::new(&scenario),
            tally: Tally::default(),
            trace,
            rng,
            scenario,
        };
        sim.schedule_start();
        sim
    }

    fn schedule_start(&mut self) {
        self.note(|sim| format!("{:#?}", sim.scenario));
        for plan in &self.scenario.subscriptions {
            let prefix_safe = plan.prefix_safe && self.bug != Some(Bug::FalsePrefix);
            self.destinations.extend(plan.destinations.iter().map(|_| Destination::new(prefix_safe)));
            self.database.subscribe(&plan.name, Start::Beginning);
        }
        for relay in 0..self.relays.len() {
            let at = self.rng.time(Span::ms(0, 50));
            self.queue.push(at, SimEvent::Start(relay));
        }
        for writer in 0..self.scenario.writers {
            let at = self.rng.time(self.scenario.write_gap);
            self.queue.push(at, SimEvent::Write(writer));
        }
        self.schedule_fault();
        self.queue.push(self.scenario.busy, SimEvent::StopFaults);
    }

    /// Processes events until all relays are idle, or should be.
    pub(crate) fn run(&mut self) {
        let end = self.scenario.busy + IDLE_WITHIN;
        let mut steps = 0;
        while let Some((at, event)) = self.queue.pop() {
            steps += 1;
            if at > end || steps > STEPS_MAX {
                break;
            }
            self.now = at;
            self.process(event);
            // Only a call to the database can make the last relay idle.
            if self.faults_stopped && matches!(event, SimEvent::Perform(_)) && self.is_idle() {
                break;
            }
        }
        for id in self.driver_ids() {
            self.note(|sim| {
                let driver = &sim.relays[id.relay].drivers[id.subscription];
                format!("{id:?} due {:?} {:?}", driver.brain.due(), driver.brain.snapshot())
            });
        }
        let view = view!(self);
        self.checks.finish(&view);
        self.tally.add("event", steps);
        self.tally.add("simulated second", self.now.as_secs());
        match self.scenario.kind {
            Kind::Calm => self.tally.count("history: calm"),
            Kind::Isolation => self.tally.count("history: isolation"),
            Kind::Storm => self.tally.count("history: storm"),
        }
    }

    fn is_idle(&self) -> bool {
        let view = view!(self);
        self.writers_are_done()
            && view.subscriptions().all(|subscription| unsettled(&view, subscription).is_none())
    }

    fn process(&mut self, event: SimEvent) {
        match event {
            SimEvent::Write(writer) => self.write(writer),
            SimEvent::Fault => self.inject_fault(),
            SimEvent::StopFaults => self.stop_faults(),
            SimEvent::Tick(id, alarm) => self.tick(id, alarm),
            SimEvent::Perform(operation) => self.perform(operation),
            SimEvent::Deliver(operation) => self.deliver(operation),
            SimEvent::TimeOut(operation) => self.time_out(operation),
            SimEvent::Start(relay) => self.start(relay),
            SimEvent::Thaw(relay) => self.thaw(relay),
            SimEvent::EndOutage(destination) => self.end_outage(destination),
            SimEvent::Resume(subscription) => self.resume(subscription),
            SimEvent::Accept(subscription) => self.accept(subscription),
        }
    }

    /// Passes an observation to the checkers.
    pub(crate) fn observe(&mut self, observed: &Observation<'_>) {
        let known = self.checks.broken.len();
        let view = view!(self);
        self.checks.observe(&view, observed);
        if self.checks.broken.len() > known {
            self.note(|sim| format!("BROKEN {:?}", sim.checks.broken));
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
