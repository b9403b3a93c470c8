//! The driver of a brain: steps it, starts calls for its effects, and returns their replies.

use std::time::Duration;

use postrider::relay::brain::{Acquisition, Brain, Effect, Input, Reply, RoutedClaim, Setup};
use postrider::sink::{Failure, Outcome};
use postrider::{Now, Timestamp};

use super::bug::Bug;
use super::claimer::SimClaimer;
use super::event_queue::{DriverId, SimEvent};
use super::observation::{Observation, Owner, ReportedOutcome, positions};
use super::operation::{Operation, OperationId, PublishCall, Work};
use super::relay::{Driver, State};
use super::rng::Span;
use super::simulation::Simulation;
use super::written::WrittenEvents;

impl Simulation {
    /// Starts a relay that is down.
    pub(crate) fn start(&mut self, relay: usize) {
        if self.relays[relay].state != State::Down {
            return;
        }
        let same_name = self.rng.coin();
        let process = &mut self.relays[relay];
        process.incarnation += 1;
        process.state = State::Up;
        if !same_name {
            process.name = format!("r{relay}.{}", process.incarnation);
        }
        process.drivers.clear();
        for plan in &self.scenario.subscriptions {
            let mut policy = plan.policy.clone();
            if self.bug == Some(Bug::WideWindow) {
                policy.window_events_max *= 2;
            }
            let setup = Setup {
                subscription: plan.name.clone(),
                policy,
                prefix_safe: plan.prefix_safe,
                in_flight_max: plan.in_flight_max,
                counts_expired: true,
                seed: self.rng.next(),
            };
            self.relays[relay].drivers.push(Driver::new(Brain::new(setup)));
        }
        self.note(|sim| format!("{} starts", sim.relays[relay].name));
        let incarnation = self.relays[relay].incarnation;
        for subscription in 0..self.scenario.subscriptions.len() {
            self.step_brain(DriverId { relay, incarnation, subscription }, Input::Tick);
        }
    }

    /// Whether this incarnation of the relay still exists, frozen or not.
    pub(crate) fn is_alive(&self, id: DriverId) -> bool {
        let relay = &self.relays[id.relay];
        relay.state != State::Down && relay.incarnation == id.incarnation
    }

    pub(crate) fn driver(&mut self, id: DriverId) -> &mut Driver {
        &mut self.relays[id.relay].drivers[id.subscription]
    }

    /// Whether this term is the driver's current one.
    pub(crate) fn is_current(&self, owner: Owner) -> bool {
        self.is_alive(owner.driver)
            && self.relays[owner.relay()].drivers[owner.subscription()].term == owner.term
    }

    /// Whether the relay is running, and this term is its current one.
    pub(crate) fn is_up(&self, owner: Owner) -> bool {
        self.is_current(owner) && self.relays[owner.relay()].state == State::Up
    }

    /// Whether the relay can receive this event now. While it is frozen, its events are queued.
    fn can_receive(&mut self, id: DriverId, event: SimEvent) -> bool {
        if !self.is_alive(id) {
            return false;
        }
        let relay = &mut self.relays[id.relay];
        if relay.state == State::Frozen {
            relay.waiting.push(event);
        }
        relay.state == State::Up
    }

    pub(crate) fn tick(&mut self, id: DriverId, alarm: u64) {
        if self.can_receive(id, SimEvent::Tick(id, alarm)) && self.driver(id).alarm == alarm {
            self.step_brain(id, Input::Tick);
        }
    }

    /// Wakes running relays because there may be new events. Each relay misses the hint half of the time.
    pub(crate) fn wake_relays(&mut self) {
        for id in self.driver_ids() {
            if self.relays[id.relay].state == State::Up && self.rng.coin() {
                self.step_brain(id, Input::Wake);
            }
        }
    }

    /// The drivers of all relays that are not down.
    pub(crate) fn driver_ids(&self) -> Vec<DriverId> {
        let all = self.relays.iter().enumerate().filter(|(_, relay)| relay.state != State::Down);
        all.flat_map(|(number, relay)| {
            (0..relay.drivers.len()).map(move |subscription| DriverId {
                relay: number,
                incarnation: relay.incarnation,
                subscription,
            })
        })
        .collect()
    }

    /// Runs one step of a brain, and starts a call for each of its effects.
    pub(crate) fn step_brain(&mut self, id: DriverId, input: Input) {
        if self.driver(id).stopped {
            return;
        }
        let now = self.relay_now(id.relay);
        let connection = self.connection;
        let driver = self.driver(id);
        let step = driver.brain.step(now, input);
        let due = driver.brain.due();
        let snapshot = driver.brain.snapshot();
        driver.alarm += 1;
        let alarm = driver.alarm;
        if driver.term != step.term {
            driver.term = step.term;
            driver.cursor = None;
            driver.connection = connection;
            self.drop_publish_calls(id);
        }
        let owner = Owner { driver: id, term: step.term };
        self.observe(&Observation::Stepped { owner, snapshot: &snapshot });
        for effect in step.effects {
            self.send(owner, effect);
        }
        if let Some(due) = due {
            // At least one microsecond, so that time advances even if the brain is always due.
            let at = (due + self.relays[id.relay].lag).max(self.now + Duration::from_micros(1));
            self.queue.push(at, SimEvent::Tick(id, alarm));
        }
    }

    /// The two clocks of a relay.
    fn relay_now(&self, relay: usize) -> Now {
        let relay = &self.relays[relay];
        let wall = Timestamp::from_micros(self.wall().as_micros() + relay.wall_offset_us);
        Now { elapsed: self.now.saturating_sub(relay.lag), wall }
    }

    /// Drops the publish calls of an ended term. Some of them still reach the destination.
    fn drop_publish_calls(&mut self, id: DriverId) {
        let dropped: Vec<OperationId> = self
            .operations
            .iter()
            .filter(|(_, operation)| {
                operation.owner.driver == id && matches!(operation.work, Work::Publish(_))
            })
            .map(|(id, _)| *id)
            .collect();
        for id in dropped {
            if self.rng.coin() {
                self.operations.remove(&id);
            }
        }
    }

    fn send(&mut self, owner: Owner, effect: Effect) {
        let work = match effect {
            Effect::Report(report) => return self.report(owner, &report),
            Effect::Stop => {
                self.driver(owner.driver).stopped = true;
                return self.stopped(owner.relay());
            }
            Effect::Acquire => {
                let connection = self.connection;
                self.driver(owner.driver).connection = connection;
                Work::Acquire
            }
            Effect::Renew(epoch) => Work::Renew(epoch),
            Effect::Release { epoch, clean } => Work::Release { epoch, clean },
            Effect::Claim(budget) => Work::Claim(budget),
            Effect::Fetch(positions, bytes_max) => Work::Fetch(positions, bytes_max),
            Effect::Settle(settlement) => Work::Settle(settlement),
            Effect::Halt { epoch, reason } => Work::Halt(epoch, reason),
            Effect::Pause { epoch, reason } => Work::Pause(epoch, reason),
            Effect::Publish(batch, messages) => {
                self.note(|_| format!("{owner} publishes {:?}", positions(&messages)));
                self.observe(&Observation::Publishing { owner, messages: &messages });
                if self.bug == Some(Bug::PublishTwice) {
                    self.start_call(owner, Work::Publish(PublishCall::new(batch, messages.clone())));
                }
                Work::Publish(PublishCall::new(batch, messages))
            }
        };
        self.start_call(owner, work);
    }

    fn start_call(&mut self, owner: Owner, work: Work) {
        self.operation_count += 1;
        let id = self.operation_count;
        let at = self.now + self.delay_there(owner.subscription(), &work);
        self.queue.push(at, SimEvent::Perform(id));
        if matches!(work, Work::Publish(_)) {
            let timeout = self.scenario.subscriptions[owner.subscription()].policy.publish_timeout;
            self.queue.push(self.now + timeout, SimEvent::TimeOut(id));
        }
        let connection = self.driver(owner.driver).connection;
        self.operations.insert(id, Operation { owner, work, connection, reply: None });
    }

    /// The time until a call reaches the database or the sink.
    fn delay_there(&mut self, subscription: usize, work: &Work) -> Duration {
        let lease = self.scenario.subscriptions[subscription].policy.lease;
        if matches!(work, Work::Settle(_)) && std::mem::take(&mut self.stall_settle[subscription]) {
            self.tally.count("settle stalled");
            return lease + self.rng.time(Span::ms(0, 1000));
        }
        self.delay(matches!(work, Work::Publish(_)))
    }

    /// The delay in one direction.
    pub(crate) fn delay(&mut self, sink: bool) -> Duration {
        let span = if sink { self.scenario.sink_delay } else { self.scenario.database_delay };
        let slow = !self.faults_stopped && self.rng.permille(self.scenario.slow_permille);
        self.tally_if(slow, "slow call");
        self.rng.time(span) * if slow { 50 } else { 1 }
    }

    /// A reply arrives at the relay.
    pub(crate) fn deliver(&mut self, id: OperationId) {
        let Some(owner) = self.operations.get(&id).map(|operation| operation.owner) else { return };
        if !self.can_receive(owner.driver, SimEvent::Deliver(id)) {
            return;
        }
        let Some(Operation { work, reply: Some(reply), .. }) = self.operations.remove(&id) else { return };
        if self.bug == Some(Bug::LoseReply) && matches!(reply, Reply::Claimed(_)) && self.rng.permille(20) {
            return;
        }
        if self.is_current(owner) {
            match (&reply, work) {
                (Reply::Acquired(Ok(Acquisition::Granted { loaded, .. })), _) => {
                    self.driver(owner.driver).cursor = Some(SimClaimer::new(&loaded.progress));
                }
                (Reply::Claimed(Ok(RoutedClaim::Page { events, .. })), _) => {
                    self.observe(&Observation::Known { owner, events })
                }
                (Reply::Fetched(Ok(fetch)), _) => {
                    self.observe(&Observation::Known { owner, events: &fetch.events });
                }
                (Reply::Published(..), Work::Publish(call)) if !call.answered => {
                    self.answer(owner, &call.answers[call.early..]);
                }
                (Reply::Published(..), _) => return,
                _ => {}
            }
        }
        self.step_brain(owner.driver, Input::Reply(owner.term, reply));
    }

    /// The relay receives these answers of a sink.
    pub(crate) fn answer(&mut self, owner: Owner, answers: &[ReportedOutcome]) {
        self.note(|sim| {
            let one = |answer: &ReportedOutcome| {
                let text = format!("{:?}", answer.outcome);
                let word = text.split('(').next().unwrap_or_default().to_owned();
                format!("{}={word}", sim.written_events.get(answer.written).position)
            };
            format!("{owner} hears {}", answers.iter().map(one).collect::<Vec<_>>().join(" "))
        });
        self.observe(&Observation::Answered { owner, answers });
    }

    /// The publish timeout of the relay has passed: any message of the batch may have been written.
    pub(crate) fn time_out(&mut self, id: OperationId) {
        let Some(operation) = self.operations.get(&id) else { return };
        let owner = operation.owner;
        if !self.can_receive(owner.driver, SimEvent::TimeOut(id)) || !self.is_current(owner) {
            return;
        }
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let Work::Publish(call) = &mut operation.work else { return };
        if std::mem::replace(&mut call.answered, true) {
            return;
        }
        let outage = call.silent.unwrap_or(false);
        let ambiguous = || Outcome::Ambiguous(Failure::new("publish timed out"));
        let answers: Vec<ReportedOutcome> = call
            .messages
            .iter()
            .map(|m| ReportedOutcome {
                written: WrittenEvents::number(&m.event),
                outcome: ambiguous(),
                outage,
            })
            .collect();
        let (batch, early) = (call.batch, call.early);
        self.tally.count("publish timed out");
        if self.rng.coin() {
            self.operations.remove(&id);
        }
        self.answer(owner, &answers[early..]);
        let outcomes = answers.into_iter().map(|answer| answer.outcome).collect();
        self.step_brain(owner.driver, Input::Reply(owner.term, Reply::Published(batch, outcomes)));
    }
}
