//! Executes operations in the database.

use postrider::relay::brain::{Acquisition, Reply, RoutedClaim, RoutedFetch};
use postrider::store::{Acquired, Epoch, LeaseRequest, Settled, Settlement};
use postrider::{Code, Position};

use super::bug::Bug;
use super::event_queue::SimEvent;
use super::observation::{Observation, Owner};
use super::operation::{Operation, OperationId, Work};
use super::relay::{key_number, route};
use super::scenario::Fault;
use super::simulation::Simulation;
use crate::memory::Reading;

/// A fault of the database while it executes an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DatabaseFault {
    None,
    /// The operation is not executed, and the reply is this error.
    Refuses(Code),
    /// The operation is executed, but the reply is this error.
    AnswersWith(Code),
}

impl Simulation {
    /// An operation arrives at the database or the sink.
    pub(crate) fn perform(&mut self, id: OperationId) {
        let Some(mut operation) = self.operations.remove(&id) else { return };
        if matches!(operation.work, Work::Publish(_)) {
            return self.publish(id, operation);
        }
        let owner = operation.owner;
        let fault = self.database_fault(&operation);
        if !matches!(fault, DatabaseFault::Refuses(_)) {
            operation.reply = self.execute(owner, &mut operation.work);
            if operation.reply.is_none() {
                return;
            }
        }
        if let DatabaseFault::Refuses(code) | DatabaseFault::AnswersWith(code) = fault {
            self.note(|_| format!("{owner} {} fails with {code}", operation.work.name()));
            operation.reply = Some(operation.work.failed(code));
        }
        self.answer_after(id, operation);
    }

    pub(crate) fn answer_after(&mut self, id: OperationId, operation: Operation) {
        let at = self.now + self.delay(matches!(operation.work, Work::Publish(_)));
        self.operations.insert(id, operation);
        self.queue.push(at, SimEvent::Deliver(id));
    }

    fn database_fault(&mut self, operation: &Operation) -> DatabaseFault {
        if operation.connection != self.connection {
            return DatabaseFault::Refuses(Code::StoreFailed);
        }
        let spared = self.faults_stopped || matches!(operation.work, Work::Halt(..));
        if spared || !self.rng.permille(self.scenario.store_error_permille) {
            return DatabaseFault::None;
        }
        match self.rng.between(0, 3) {
            0 => self.counted("store busy", DatabaseFault::Refuses(Code::StoreBusy)),
            1 => self.counted("store failed", DatabaseFault::Refuses(Code::StoreFailed)),
            2 => self
                .counted("outcome unknown, nothing happened", DatabaseFault::Refuses(Code::OutcomeUnknown)),
            _ => {
                self.counted("outcome unknown, it happened", DatabaseFault::AnswersWith(Code::OutcomeUnknown))
            }
        }
    }

    fn counted(&mut self, what: &'static str, fault: DatabaseFault) -> DatabaseFault {
        self.tally.count(what);
        fault
    }

    /// Executes the operation. `None` if the relay no longer exists.
    fn execute(&mut self, owner: Owner, work: &mut Work) -> Option<Reply> {
        let plan = &self.scenario.subscriptions[owner.subscription()];
        let name = plan.name.clone();
        let lease = LeaseRequest {
            subscription: name.clone(),
            holder: self.relays[owner.relay()].name.clone(),
            duration: plan.policy.lease,
        };
        Some(match work {
            Work::Acquire => Reply::Acquired(self.acquire(owner, &lease)),
            Work::Renew(epoch) => {
                let renewed = self.database.renew(&lease, *epoch, self.now);
                Reply::Renewed(renewed.map_err(|error| error.code()))
            }
            Work::Release { epoch, clean } => {
                self.note(|_| format!("{owner} releases, clean {clean}"));
                self.database.release(&name, *epoch, *clean);
                Reply::Released
            }
            Work::Claim(budget) => {
                if !self.is_current(owner) {
                    return None;
                }
                let driver = &mut self.relays[owner.relay()].drivers[owner.subscription()];
                let reading = driver.cursor.as_mut()?.read(&self.database.log, *budget, self.bug);
                Reply::Claimed(Ok(self.claimed(owner, reading)))
            }
            Work::Fetch(positions, bytes_max) => {
                Reply::Fetched(Ok(self.fetched(owner, positions, *bytes_max)))
            }
            Work::Settle(settlement) => Reply::Settled(self.settle(owner, settlement)),
            Work::Halt(epoch, reason) => {
                let halted = self.database.halt(&name, self.right(&name, *epoch), reason);
                self.owner_stopped(owner, *epoch, halted, reason);
                return None;
            }
            Work::Pause(epoch, reason) => {
                let paused = self.database.pause_as_owner(&name, self.right(&name, *epoch), reason);
                self.owner_stopped(owner, *epoch, paused, reason);
                Reply::Paused
            }
            Work::Publish(_) => return None,
        })
    }

    fn acquire(&mut self, owner: Owner, lease: &LeaseRequest) -> Result<Acquisition, Code> {
        let acquired = self.database.acquire(lease, self.now).map_err(|error| error.code())?;
        let mut acquired = acquired;
        if self.bug == Some(Bug::DropMark)
            && let Acquired::Granted(loaded) = &mut acquired
        {
            loaded.parked.iter_mut().for_each(|row| row.redelivery = None);
        }
        if let Acquired::Granted(loaded) = &acquired {
            // A reload because of an operator ends with everything settled, unless settling fails.
            let settles = self.scenario.store_error_permille == 0
                && !self.scenario.faults.contains(&Fault::StallSettle);
            let reload = self.reloads[owner.subscription()].take() == Some(owner.driver) && settles;
            let (epoch, clean) = (loaded.epoch, loaded.clean || reload);
            self.note(|_| {
                let done = &loaded.progress.done;
                format!("{owner} is given epoch {}, clean {clean}, done {done}", epoch.0)
            });
            self.tally_if(epoch.0 > 1, "takeover");
            self.leaders[owner.subscription()] = Some(owner);
            self.full[owner.subscription()] = false;
            self.observe(&Observation::Granted { owner, epoch, clean });
        }
        let plan = &self.scenario.subscriptions[owner.subscription()];
        let key =
            |row: &postrider::ledger::ParkedRow| key_number(plan, self.bug, row.key.as_deref(), row.position);
        Ok(Acquisition::from_store(acquired, key))
    }

    /// The epoch that the database compares with when a subscription is stopped.
    fn right(&self, name: &str, epoch: Epoch) -> Epoch {
        let last = self.database.subscription(name).map_or(epoch, |rows| rows.epoch);
        if self.bug == Some(Bug::IgnoreEpoch) { last } else { epoch }
    }

    /// A relay has halted or paused its subscription, or the database refused that.
    fn owner_stopped(
        &mut self,
        owner: Owner,
        epoch: Epoch,
        stopped: postrider::Result<Settled>,
        reason: &str,
    ) {
        self.note(|_| format!("{owner} stops with epoch {}: {stopped:?}: {reason}", epoch.0));
        match stopped {
            Ok(Settled::Done) => self.observe(&Observation::Stopped { owner, epoch }),
            _ => self.tally.count("stop fenced"),
        }
    }

    fn claimed(&mut self, owner: Owner, reading: Result<Reading, String>) -> RoutedClaim {
        let Reading { events, empty_positions, damaged, more } = match reading {
            Ok(reading) => reading,
            Err(reason) => return RoutedClaim::HistoryChanged(reason),
        };
        let count = empty_positions.iter().map(|(start, end)| end.get() - start.get() + 1).sum::<i64>();
        self.tally.add("hole proven empty", count.unsigned_abs());
        if !events.is_empty() || !empty_positions.is_empty() {
            self.note(|_| {
                let read: Vec<i64> = events.iter().map(|(position, _)| position.get()).collect();
                format!("{owner} reads {read:?} empty {empty_positions:?}")
            });
        }
        let plan = &self.scenario.subscriptions[owner.subscription()];
        let events = events
            .into_iter()
            .map(|(position, event)| route(plan, &self.written_events, self.bug, position, event))
            .collect();
        RoutedClaim::Page { events, empty_positions, damaged, more_at_once: more, has_unread: more }
    }

    fn fetched(&self, owner: Owner, positions: &[Position], bytes_max: usize) -> RoutedFetch {
        let plan = &self.scenario.subscriptions[owner.subscription()];
        let found = self.database.fetch(positions, bytes_max);
        let events =
            found.events.into_iter().map(|(p, event)| route(plan, &self.written_events, self.bug, p, event));
        RoutedFetch { events: events.collect(), gone: found.gone, ..RoutedFetch::default() }
    }

    fn settle(&mut self, owner: Owner, settlement: &Settlement) -> Result<Settled, Code> {
        let subscription = owner.subscription();
        // The worst moment for a change: just before the relay records what it did with the same events.
        if !self.faults_stopped && self.scenario.faults.contains(&Fault::Operate) && self.rng.permille(200) {
            let rows =
                settlement.park.iter().map(|row| row.position).chain(settlement.unpark.iter().copied());
            let rows: Vec<Position> = rows.collect();
            self.operate(subscription, Some(&rows));
        }
        let mut applied = settlement.clone();
        match self.bug {
            Some(Bug::IgnoreEpoch) => {
                let name = &self.scenario.subscriptions[subscription].name;
                applied.epoch = self.database.subscription(name).map_err(|error| error.code())?.epoch;
            }
            Some(Bug::DropParked) => applied.park.clear(),
            Some(Bug::KeepDelivered) => {
                let name = &self.scenario.subscriptions[subscription].name;
                let rows = self.database.subscription(name).map_err(|error| error.code())?;
                applied.unpark.retain(|position| rows.is_as_known(*position, settlement.epoch));
            }
            _ => {}
        }
        let settled = if self.bug == Some(Bug::ForgetSettle) && self.rng.permille(100) {
            Settled::Done
        } else {
            self.database.settle(applied).map_err(|error| error.code())?
        };
        self.note(|_| {
            let Settlement { epoch, done, park, unpark, trial, .. } = settlement;
            let rows: Vec<String> =
                park.iter().map(|r| format!("{}={}/{}", r.position, r.state.as_str(), r.attempts)).collect();
            format!("{owner} settles {done} park {rows:?} unpark {unpark:?} trial {trial:?} epoch {}: {settled:?}", epoch.0)
        });
        match settled {
            Settled::Done | Settled::ParkedChanged => {
                self.tally_if(settled == Settled::ParkedChanged, "settle finds changed rows");
                self.observe(&Observation::Settled { owner, settlement });
            }
            Settled::Fenced => self.tally.count("settle fenced"),
        }
        match settled {
            Settled::ParkedChanged if self.bug == Some(Bug::HideChange) => Ok(Settled::Done),
            settled => Ok(settled),
        }
    }
}
