//! What goes wrong, and how it ends.

use std::time::Duration;

use postrider::relay::brain::Input;
use postrider::store::{Purge, Start};

use super::agenda::Happening;
use super::bug::Bug;
use super::operation::OperationId;
use super::random::Span;
use super::relay::State;
use super::scenario::{Fault, Kind};
use super::seen::Seen;
use super::world::World;
use crate::sink::Outage;

impl World {
    pub(crate) fn plan_fault(&mut self) {
        if !self.scenario.faults.is_empty() {
            let at = self.now + self.random.time(self.scenario.fault_gap);
            self.agenda.plan(at, Happening::Fault);
        }
    }

    /// One fault, and the next is planned.
    pub(crate) fn fault(&mut self) {
        if self.healing {
            return;
        }
        let relay = self.random.index(self.relays.len());
        let subscription = self.random.index(self.scenario.subscriptions.len());
        match self.random.pick(&self.scenario.faults) {
            Fault::Crash => self.crash(relay),
            Fault::Freeze => self.freeze(relay),
            Fault::LoseLease => self.lose_lease(subscription),
            Fault::JumpWall => self.jump_wall(relay),
            Fault::Outage(kind) => self.begin_outage(kind),
            Fault::Backup => self.backup = Some(self.database.clone()),
            Fault::Restore => self.restore(true),
            Fault::RestoreEvents => self.restore(false),
            Fault::Pause => self.pause(subscription),
            Fault::Shutdown => self.shutdown(relay),
            Fault::StickSettle => self.stick_settle[subscription] = true,
        }
        self.purge();
        // One ill destination is enough to see whether the others stay well.
        if self.scenario.kind != Kind::Isolation {
            self.plan_fault();
        }
    }

    /// Runs retention, whatever fault occurred, except in scenarios with a backup: there, writers take their versions
    /// from the events that they find after a restore.
    fn purge(&mut self) {
        if self.scenario.faults.contains(&Fault::Backup) {
            return;
        }
        let purge = Purge::new(Duration::from_millis(50), 20);
        let deleted = self.database.purge(&purge, self.wall()).deleted;
        self.tally.add("delivered event deleted", deleted);
        self.note(|_| format!("{deleted} delivered events are deleted"));
    }

    /// The process is gone: answers are lost, work on its way may still be done.
    pub(crate) fn crash(&mut self, relay: usize) {
        if self.relays[relay].state == State::Down {
            return;
        }
        self.note(|world| format!("{} crashes", world.relays[relay].name));
        self.tally.count("crash");
        self.go_down(relay);
        let lost: Vec<OperationId> =
            self.operations.iter().filter(|(_, o)| o.owner.seat.relay == relay).map(|(id, _)| *id).collect();
        for id in lost {
            if self.random.coin() {
                let acknowledged = self.operations.remove(&id).is_some_and(|o| o.reply.is_some());
                self.tally_if(acknowledged, "answer lost");
            }
        }
    }

    fn go_down(&mut self, relay: usize) {
        let process = &mut self.relays[relay];
        process.state = State::Down;
        process.waiting.clear();
        let at = self.now + self.random.time(Span::ms(1, 800));
        self.agenda.plan(at, Happening::Start(relay));
    }

    /// A relay whose brains have all stopped is down; it is started again later.
    pub(crate) fn stopped(&mut self, relay: usize) {
        if self.relays[relay].minds.iter().all(|mind| mind.stopped) {
            self.note(|world| format!("{} has stopped", world.relays[relay].name));
            self.tally.count("graceful shutdown");
            self.go_down(relay);
        }
    }

    fn shutdown(&mut self, relay: usize) {
        if self.relays[relay].state != State::Up {
            return;
        }
        self.note(|world| format!("{} is asked to stop", world.relays[relay].name));
        for seat in self.seats().into_iter().filter(|seat| seat.relay == relay) {
            if self.is_alive(seat) {
                self.think(seat, Input::Shutdown);
            }
        }
    }

    /// Nothing reaches the relay until it thaws. What it handed out goes on without it.
    fn freeze(&mut self, relay: usize) {
        if self.relays[relay].state != State::Up {
            return;
        }
        self.note(|world| format!("{} freezes", world.relays[relay].name));
        self.relays[relay].state = State::Frozen;
        self.relays[relay].frozen_at = self.now;
        let at = self.now + self.random.time(Span::ms(10, 4000));
        self.agenda.plan(at, Happening::Thaw(relay));
    }

    /// Everything that waited arrives at once. Sometimes the relay's clock slept as well.
    pub(crate) fn thaw(&mut self, relay: usize) {
        if self.relays[relay].state != State::Frozen {
            return;
        }
        let slept = self.random.coin();
        let process = &mut self.relays[relay];
        process.state = State::Up;
        if slept {
            process.lag += self.now - process.frozen_at;
        }
        let waiting = std::mem::take(&mut process.waiting);
        self.note(|world| format!("{} thaws, its clock slept: {slept}", world.relays[relay].name));
        self.tally.count("zombie woken");
        self.saw(&Seen::Thawed);
        for (number, happening) in waiting.into_iter().enumerate() {
            self.agenda.plan(self.now + Duration::from_micros(number as u64), happening);
        }
    }

    /// The database's clock jumps, or an operator takes the lease away.
    fn lose_lease(&mut self, subscription: usize) {
        let name = &self.scenario.subscriptions[subscription].name;
        if let Ok(rows) = self.database.subscription_mut(name)
            && let Some(lease) = &mut rows.lease
        {
            lease.until = Duration::ZERO;
            self.tally.count("lease taken away");
            self.note(|_| format!("the lease of s{subscription} is over"));
        }
    }

    fn jump_wall(&mut self, relay: usize) {
        let jump = self.random.between(0, 20_000_000) as i64 - 10_000_000;
        self.relays[relay].wall_offset_us = jump;
        self.tally.count(if jump < 0 { "wall clock jumped back" } else { "wall clock jumped forward" });
    }

    fn begin_outage(&mut self, kind: Outage) {
        let destination = self.random.index(self.destinations.len());
        let script = &mut self.destinations[destination].script;
        if script.outage.is_some() {
            return;
        }
        let kind = if self.bug == Some(Bug::BlameMessage) { Outage::Blaming } else { kind };
        script.outage = Some(kind);
        self.tally.count(match kind {
            Outage::Said => "outage, said",
            Outage::Failing => "outage, failing",
            Outage::Silent => "outage, silent",
            Outage::Blaming => "outage, blaming",
        });
        self.note(|_| format!("d{destination} goes down: {kind:?}"));
        let long = self.scenario.kind == Kind::Isolation;
        let span = if long { Span::ms(10_000, 25_000) } else { Span::ms(20, 3000) };
        let at = self.now + self.random.time(span);
        self.agenda.plan(at, Happening::EndOutage(destination));
        self.saw(&Seen::OutageBegan { destination });
    }

    pub(crate) fn end_outage(&mut self, destination: usize) {
        if self.destinations[destination].script.outage.take().is_some() {
            self.note(|_| format!("d{destination} is up again"));
        }
    }

    /// The database becomes what it was at the last backup: all of it, or only the events.
    fn restore(&mut self, whole: bool) {
        let Some(backup) = self.backup.clone() else { return };
        if whole {
            self.database.restore(&backup);
            self.connection += 1;
            self.tally.count("restore of everything");
        } else {
            self.database.log.restore(&backup.log);
            self.tally.count("restore of the events");
        }
        self.writers.reload(self.database.log.visible().map(|(_, event)| &**event), &self.facts);
        self.note(|world| format!("restore, whole {whole}, sequence {}", world.database.log.sequence()));
        self.saw(&Seen::Restored { whole });
    }

    fn pause(&mut self, subscription: usize) {
        self.set_pause(subscription, Some("operator".to_owned()));
        self.tally.count("pause");
        let at = self.now + self.random.time(Span::ms(10, 2000));
        self.agenda.plan(at, Happening::Resume(subscription));
    }

    pub(crate) fn resume(&mut self, subscription: usize) {
        self.set_pause(subscription, None);
    }

    /// In the database; half the time the relays learn it at once instead of at the next renewal.
    fn set_pause(&mut self, subscription: usize, reason: Option<String>) {
        let name = &self.scenario.subscriptions[subscription].name;
        if let Ok(rows) = self.database.subscription_mut(name) {
            rows.paused.clone_from(&reason);
        }
        for seat in self.seats() {
            if seat.subscription == subscription
                && self.relays[seat.relay].state == State::Up
                && self.random.coin()
            {
                self.think(seat, Input::Pause(reason.clone()));
            }
        }
    }

    /// The operator inspects a halted subscription and accepts the database as it is.
    pub(crate) fn accept(&mut self, subscription: usize) {
        let name = self.scenario.subscriptions[subscription].name.clone();
        let halted = self.database.subscription(&name).is_ok_and(|rows| rows.halted.is_some());
        if halted && self.database.accept_history(&name, Start::Beginning).is_ok() {
            self.note(|_| format!("the operator accepts the history of s{subscription}"));
            self.tally.count("history accepted");
            self.saw(&Seen::Accepted { subscription });
        }
    }

    /// All faults end. Poison stays: the relay has to cope with it by itself.
    pub(crate) fn heal(&mut self) {
        self.note(|_| "faults end".to_owned());
        self.healing = true;
        self.stick_settle.iter_mut().for_each(|stuck| *stuck = false);
        for destination in 0..self.destinations.len() {
            self.destinations[destination].script.clear_mishaps();
            self.end_outage(destination);
        }
        for relay in 0..self.relays.len() {
            self.thaw(relay);
        }
        for subscription in 0..self.scenario.subscriptions.len() {
            self.resume(subscription);
            if self.random.coin() {
                let at = self.now + self.random.time(Span::ms(0, 20_000));
                self.agenda.plan(at, Happening::Accept(subscription));
            }
        }
        for writer in 0..self.scenario.writers {
            let at = self.now + self.random.time(Span::ms(0, 200));
            self.agenda.plan(at, Happening::Write(writer));
        }
    }
}
