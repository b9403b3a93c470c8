//! The faults, and how each ends.

use std::time::Duration;

use postrider::operate::{AuditRecord, ParkedAction, ReplayBatch, ReplayFilter};
use postrider::relay::brain::Input;
use postrider::store::{ParkedState, Purge, Start};
use postrider::{Position, Timestamp};

use super::bug::Bug;
use super::event_queue::SimEvent;
use super::observation::Observation;
use super::operation::OperationId;
use super::relay::State;
use super::rng::Span;
use super::scenario::{Fault, Kind};
use super::simulation::Simulation;
use super::written::WrittenEvents;
use crate::sink::Outage;

impl Simulation {
    pub(crate) fn schedule_fault(&mut self) {
        if !self.scenario.faults.is_empty() {
            let at = self.now + self.rng.time(self.scenario.fault_gap);
            self.queue.push(at, SimEvent::Fault);
        }
    }

    /// Injects one fault and schedules the next.
    pub(crate) fn inject_fault(&mut self) {
        if self.faults_stopped {
            return;
        }
        let relay = self.rng.index(self.relays.len());
        let subscription = self.rng.index(self.scenario.subscriptions.len());
        match self.rng.pick(&self.scenario.faults) {
            Fault::Crash => self.crash(relay),
            Fault::Freeze => self.freeze(relay),
            Fault::LoseLease => self.lose_lease(subscription),
            Fault::JumpWallClock => self.jump_wall_clock(relay),
            Fault::Outage(kind) => self.begin_outage(kind),
            Fault::Backup => self.backup = Some(self.database.clone()),
            Fault::Restore => self.restore(true),
            Fault::RestoreEvents => self.restore(false),
            Fault::Pause => self.pause(subscription),
            Fault::Operate => self.operate(subscription, None),
            Fault::Replay => self.replay(subscription),
            Fault::Shutdown => self.shutdown(relay),
            Fault::StallSettle => self.stall_settle[subscription] = true,
        }
        self.purge();
        // One failed destination is enough to see whether it affects the others.
        if self.scenario.kind != Kind::Isolation {
            self.schedule_fault();
        }
    }

    /// Runs retention after every fault, except in scenarios with a backup: there, writers take their versions from the
    /// events that they find after a restore.
    fn purge(&mut self) {
        if self.scenario.faults.contains(&Fault::Backup) {
            return;
        }
        let purge = Purge::new(Duration::from_millis(50), 20);
        let deleted = self.database.purge(&purge, self.wall()).deleted;
        self.tally.add("delivered event deleted", deleted);
        self.note(|_| format!("{deleted} delivered events are deleted"));
    }

    /// The process is killed. Replies to it are lost; half of its calls are still executed.
    pub(crate) fn crash(&mut self, relay: usize) {
        if self.relays[relay].state == State::Down {
            return;
        }
        self.note(|sim| format!("{} crashes", sim.relays[relay].name));
        self.tally.count("crash");
        if self.rng.coin() {
            self.end_leases_of(relay);
        }
        self.go_down(relay);
        let lost: Vec<OperationId> =
            self.operations.iter().filter(|(_, o)| o.owner.relay() == relay).map(|(id, _)| *id).collect();
        for id in lost {
            if self.rng.coin() {
                let acknowledged = self.operations.remove(&id).is_some_and(|o| o.reply.is_some());
                self.tally_if(acknowledged, "answer lost");
            }
        }
    }

    /// The database sees that the session of the relay is gone, and its leases are free. If the session of a relay that
    /// still runs is cut, the effect is that of [`Fault::LoseLease`].
    fn end_leases_of(&mut self, relay: usize) {
        let holder = self.relays[relay].name.clone();
        for plan in &self.scenario.subscriptions {
            if let Ok(rows) = self.database.subscription_mut(&plan.name)
                && let Some(lease) = &mut rows.lease
                && lease.holder == holder
            {
                lease.until = Duration::ZERO;
                self.tally.count("lease ended with its session");
            }
        }
    }

    fn go_down(&mut self, relay: usize) {
        let process = &mut self.relays[relay];
        process.state = State::Down;
        process.waiting.clear();
        let at = self.now + self.rng.time(Span::ms(1, 800));
        self.queue.push(at, SimEvent::Start(relay));
    }

    /// A relay whose brains have all stopped is down. It is started again later.
    pub(crate) fn stopped(&mut self, relay: usize) {
        if self.relays[relay].drivers.iter().all(|driver| driver.stopped) {
            self.note(|sim| format!("{} has stopped", sim.relays[relay].name));
            self.tally.count("graceful shutdown");
            self.go_down(relay);
        }
    }

    fn shutdown(&mut self, relay: usize) {
        if self.relays[relay].state != State::Up {
            return;
        }
        self.note(|sim| format!("{} is asked to stop", sim.relays[relay].name));
        for id in self.driver_ids().into_iter().filter(|id| id.relay == relay) {
            if self.is_alive(id) {
                self.step_brain(id, Input::Shutdown);
            }
        }
    }

    /// Nothing reaches the relay until it thaws. Its calls continue.
    fn freeze(&mut self, relay: usize) {
        if self.relays[relay].state != State::Up {
            return;
        }
        self.note(|sim| format!("{} freezes", sim.relays[relay].name));
        self.relays[relay].state = State::Frozen;
        self.relays[relay].frozen_at = self.now;
        let at = self.now + self.rng.time(Span::ms(10, 4000));
        self.queue.push(at, SimEvent::Thaw(relay));
    }

    /// Everything that was queued arrives at once. Sometimes the relay's monotonic clock has stopped as well.
    pub(crate) fn thaw(&mut self, relay: usize) {
        if self.relays[relay].state != State::Frozen {
            return;
        }
        let slept = self.rng.coin();
        let process = &mut self.relays[relay];
        process.state = State::Up;
        if slept {
            process.lag += self.now - process.frozen_at;
        }
        let waiting = std::mem::take(&mut process.waiting);
        self.note(|sim| format!("{} thaws, its clock slept: {slept}", sim.relays[relay].name));
        self.tally.count("zombie woken");
        self.observe(&Observation::Thawed);
        for (number, event) in waiting.into_iter().enumerate() {
            self.queue.push(self.now + Duration::from_micros(number as u64), event);
        }
    }

    /// The lease ends early: the database's clock jumped, or an operator removed the lease.
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

    fn jump_wall_clock(&mut self, relay: usize) {
        let jump = self.rng.between(0, 20_000_000) as i64 - 10_000_000;
        self.relays[relay].wall_offset_us = jump;
        self.tally.count(if jump < 0 { "wall clock jumped back" } else { "wall clock jumped forward" });
    }

    fn begin_outage(&mut self, kind: Outage) {
        let destination = self.rng.index(self.destinations.len());
        let script = &mut self.destinations[destination].script;
        if script.outage.is_some() {
            return;
        }
        let kind = if self.bug == Some(Bug::BlameMessage) { Outage::Blaming } else { kind };
        script.outage = Some(kind);
        self.tally.count(match kind {
            Outage::Reported => "outage, reported",
            Outage::Failing => "outage, failing",
            Outage::Silent => "outage, silent",
            Outage::Blaming => "outage, blaming",
        });
        self.note(|_| format!("d{destination} goes down: {kind:?}"));
        let long = self.scenario.kind == Kind::Isolation;
        let span = if long { Span::ms(10_000, 25_000) } else { Span::ms(20, 3000) };
        let at = self.now + self.rng.time(span);
        self.queue.push(at, SimEvent::EndOutage(destination));
        self.observe(&Observation::OutageBegan { destination });
    }

    pub(crate) fn end_outage(&mut self, destination: usize) {
        if self.destinations[destination].script.outage.take().is_some() {
            self.note(|_| format!("d{destination} is up again"));
        }
    }

    /// Restores the last backup: the whole database, or only the events.
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
        self.writers.reload(self.database.log.visible().map(|(_, event)| &**event), &self.written_events);
        self.note(|sim| format!("restore, whole {whole}, sequence {}", sim.database.log.sequence()));
        self.observe(&Observation::Restored { whole });
    }

    fn pause(&mut self, subscription: usize) {
        self.set_pause(subscription, Some("operator".to_owned()));
        self.tally.count("pause");
        let at = self.now + self.rng.time(Span::ms(10, 2000));
        self.queue.push(at, SimEvent::Resume(subscription));
    }

    /// An operator retries, discards, skips or gives up some parked events, of all or of these, whatever the relay is
    /// doing with them.
    pub(crate) fn operate(&mut self, subscription: usize, of: Option<&[Position]>) {
        let name = self.scenario.subscriptions[subscription].name.clone();
        let Ok(rows) = self.database.subscription(&name) else { return };
        let parked: Vec<(Position, ParkedState)> =
            rows.parked.values().map(|row| (row.position, row.state)).collect();
        let parked = parked.into_iter().filter(|(at, _)| of.is_none_or(|of| of.contains(at)));
        let parked: Vec<_> = parked.collect();
        for (position, state) in parked {
            let actions = [
                ParkedAction::Retry,
                ParkedAction::Retry,
                ParkedAction::Discard,
                ParkedAction::Skip,
                ParkedAction::Kill,
            ];
            let action = self.rng.pick(&actions);
            if !action.applies_to(state) || self.rng.coin() {
                continue;
            }
            self.note(|_| {
                format!("the operator: {} #{position} of s{subscription}, {state:?}", action.as_str())
            });
            self.tally.count(match action {
                ParkedAction::Retry if state == ParkedState::Dead => "operator retries a dead event",
                ParkedAction::Retry => "operator retries",
                ParkedAction::Discard => "operator discards",
                ParkedAction::Skip => "operator skips",
                _ => "operator gives up",
            });
            if matches!(action, ParkedAction::Discard | ParkedAction::Skip)
                && let Some(event) = self.database.log.get(position)
            {
                self.forgotten[subscription].insert(WrittenEvents::number(event));
            }
            if let Ok(rows) = self.database.subscription_mut(&name) {
                rows.operate(position, action);
            }
        }
        self.observe(&Observation::Operated { subscription });
    }

    /// An operator replays some finished events, whatever the relay is doing.
    fn replay(&mut self, subscription: usize) {
        let newest = u64::try_from(self.database.log.sequence().get()).unwrap_or_default();
        let from = Position::new(self.rng.between(1, newest.max(1)).cast_signed());
        let batch = ReplayBatch {
            subscription: self.scenario.subscriptions[subscription].name.clone(),
            filter: ReplayFilter::default(),
            after: from.previous(),
            last: None,
            events_max: usize::try_from(self.rng.between(1, 12)).unwrap_or(1),
            audit: Some(AuditRecord::new("operator", "replay", "", None)),
        };
        // A halted subscription is not replayed.
        let Ok(replayed) = self.database.replay(&batch, Timestamp::from_micros(0)) else { return };
        self.note(|_| format!("the operator: replay of s{subscription} from #{from}: {replayed:?}"));
        let events = replayed.counts.replayed;
        if events > 0 {
            self.tally.count("operator replays");
        }
        self.observe(&Observation::Operated { subscription });
        self.observe(&Observation::Replayed { subscription, events });
    }

    pub(crate) fn resume(&mut self, subscription: usize) {
        self.set_pause(subscription, None);
    }

    /// Changes the pause in the database. Half of the relays are notified immediately, the others read it at the next
    /// renewal.
    fn set_pause(&mut self, subscription: usize, reason: Option<String>) {
        let name = &self.scenario.subscriptions[subscription].name;
        if let Ok(rows) = self.database.subscription_mut(name) {
            rows.paused.clone_from(&reason);
        }
        for id in self.driver_ids() {
            if id.subscription == subscription && self.relays[id.relay].state == State::Up && self.rng.coin()
            {
                self.step_brain(id, Input::Pause(reason.clone()));
            }
        }
    }

    /// The operator accepts the history of a halted subscription.
    pub(crate) fn accept(&mut self, subscription: usize) {
        let name = self.scenario.subscriptions[subscription].name.clone();
        let halted = self.database.subscription(&name).is_ok_and(|rows| rows.halted.is_some());
        if halted && self.database.accept_history(&name, Start::Beginning).is_ok() {
            self.note(|_| format!("the operator accepts the history of s{subscription}"));
            self.tally.count("history accepted");
            self.observe(&Observation::Accepted { subscription });
        }
    }

    /// All faults end. Poisoned events stay: the relay has to handle them without help.
    pub(crate) fn stop_faults(&mut self) {
        self.note(|_| "faults end".to_owned());
        self.faults_stopped = true;
        self.stall_settle.iter_mut().for_each(|stuck| *stuck = false);
        for destination in 0..self.destinations.len() {
            self.destinations[destination].script.clear_faults();
            self.end_outage(destination);
        }
        for relay in 0..self.relays.len() {
            self.thaw(relay);
        }
        for subscription in 0..self.scenario.subscriptions.len() {
            self.resume(subscription);
            if self.rng.coin() {
                let at = self.now + self.rng.time(Span::ms(0, 20_000));
                self.queue.push(at, SimEvent::Accept(subscription));
            }
        }
        for writer in 0..self.scenario.writers {
            let at = self.now + self.rng.time(Span::ms(0, 200));
            self.queue.push(at, SimEvent::Write(writer));
        }
    }
}
