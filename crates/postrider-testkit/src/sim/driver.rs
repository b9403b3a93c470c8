//! The relay's shell: asks the brain, sends its work out, brings the answers back.

use std::time::Duration;

use postrider::relay::brain::{Acquisition, Brain, Effect, Input, Reply, RoutedClaim, Setup};
use postrider::sink::{Failure, Outcome};
use postrider::{Now, Timestamp};

use super::agenda::{Happening, Seat};
use super::bug::Bug;
use super::cursor::Cursor;
use super::facts::Facts;
use super::operation::{Operation, OperationId, Shipment, Work};
use super::random::Span;
use super::relay::{Mind, State};
use super::seen::{Answer, Owner, Seen, positions};
use super::world::World;

impl World {
    /// Starts a relay that is down.
    pub(crate) fn start(&mut self, relay: usize) {
        if self.relays[relay].state != State::Down {
            return;
        }
        let same_name = self.random.coin();
        let process = &mut self.relays[relay];
        process.life += 1;
        process.state = State::Up;
        if !same_name {
            process.name = format!("r{relay}.{}", process.life);
        }
        process.minds.clear();
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
                seed: self.random.next(),
            };
            self.relays[relay].minds.push(Mind::new(Brain::new(setup)));
        }
        self.note(|world| format!("{} starts", world.relays[relay].name));
        let life = self.relays[relay].life;
        for subscription in 0..self.scenario.subscriptions.len() {
            self.think(Seat { relay, life, subscription }, Input::Tick);
        }
    }

    /// Whether this life of the relay is still going on, frozen or not.
    pub(crate) fn is_alive(&self, seat: Seat) -> bool {
        let relay = &self.relays[seat.relay];
        relay.state != State::Down && relay.life == seat.life
    }

    pub(crate) fn mind(&mut self, seat: Seat) -> &mut Mind {
        &mut self.relays[seat.relay].minds[seat.subscription]
    }

    /// Whether this term is the seat's current one.
    pub(crate) fn is_current(&self, owner: Owner) -> bool {
        self.is_alive(owner.seat)
            && self.relays[owner.seat.relay].minds[owner.seat.subscription].term == owner.term
    }

    /// Whether the relay is running, and this term is its current one.
    pub(crate) fn is_up(&self, owner: Owner) -> bool {
        self.is_current(owner) && self.relays[owner.seat.relay].state == State::Up
    }

    /// Whether the relay can take this in now. What cannot be taken in while it is frozen waits.
    fn can_hear(&mut self, seat: Seat, happening: Happening) -> bool {
        if !self.is_alive(seat) {
            return false;
        }
        let relay = &mut self.relays[seat.relay];
        if relay.state == State::Frozen {
            relay.waiting.push(happening);
        }
        relay.state == State::Up
    }

    pub(crate) fn tick(&mut self, seat: Seat, alarm: u64) {
        if self.can_hear(seat, Happening::Tick(seat, alarm)) && self.mind(seat).alarm == alarm {
            self.think(seat, Input::Tick);
        }
    }

    /// Wakes running relays because there may be new events; sometimes it does not.
    pub(crate) fn wake_relays(&mut self) {
        for seat in self.seats() {
            if self.relays[seat.relay].state == State::Up && self.random.coin() {
                self.think(seat, Input::Wake);
            }
        }
    }

    /// Every brain that lives.
    pub(crate) fn seats(&self) -> Vec<Seat> {
        let all = self.relays.iter().enumerate().filter(|(_, relay)| relay.state != State::Down);
        all.flat_map(|(number, relay)| {
            (0..relay.minds.len()).map(move |subscription| Seat {
                relay: number,
                life: relay.life,
                subscription,
            })
        })
        .collect()
    }

    /// One step of a brain, and everything it wants done.
    pub(crate) fn think(&mut self, seat: Seat, input: Input) {
        if self.mind(seat).stopped {
            return;
        }
        let now = self.relay_now(seat.relay);
        let connection = self.connection;
        let mind = self.mind(seat);
        let step = mind.brain.step(now, input);
        let due = mind.brain.due();
        let snapshot = mind.brain.snapshot();
        mind.alarm += 1;
        let alarm = mind.alarm;
        if mind.term != step.term {
            mind.term = step.term;
            mind.cursor = None;
            mind.connection = connection;
            self.drop_shipments(seat);
        }
        let owner = Owner { seat, term: step.term };
        self.saw(&Seen::Stepped { owner, snapshot: &snapshot });
        for effect in step.effects {
            self.send(owner, effect);
        }
        if let Some(due) = due {
            // At least a moment passes, so that a brain that is always due does not stop time.
            let at = (due + self.relays[seat.relay].lag).max(self.now + Duration::from_micros(1));
            self.agenda.plan(at, Happening::Tick(seat, alarm));
        }
    }

    /// The two clocks of a relay.
    fn relay_now(&self, relay: usize) -> Now {
        let relay = &self.relays[relay];
        let wall = Timestamp::from_micros(self.wall().as_micros() + relay.wall_offset_us);
        Now { elapsed: self.now.saturating_sub(relay.lag), wall }
    }

    /// The shell drops what an ended term had at the sink. It may be written all the same.
    fn drop_shipments(&mut self, seat: Seat) {
        let dropped: Vec<OperationId> = self
            .operations
            .iter()
            .filter(|(_, operation)| {
                operation.owner.seat == seat && matches!(operation.work, Work::Publish(_))
            })
            .map(|(id, _)| *id)
            .collect();
        for id in dropped {
            if self.random.coin() {
                self.operations.remove(&id);
            }
        }
    }

    fn send(&mut self, owner: Owner, effect: Effect) {
        let work = match effect {
            Effect::Report(report) => return self.report(owner, &report),
            Effect::Stop => {
                self.mind(owner.seat).stopped = true;
                return self.stopped(owner.seat.relay);
            }
            Effect::Acquire => {
                let connection = self.connection;
                self.mind(owner.seat).connection = connection;
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
                self.saw(&Seen::Publishing { owner, messages: &messages });
                if self.bug == Some(Bug::PublishTwice) {
                    self.hand_out(owner, Work::Publish(Shipment::new(batch, messages.clone())));
                }
                Work::Publish(Shipment::new(batch, messages))
            }
        };
        self.hand_out(owner, work);
    }

    fn hand_out(&mut self, owner: Owner, work: Work) {
        self.operation_count += 1;
        let id = self.operation_count;
        let at = self.now + self.way_there(owner.seat.subscription, &work);
        self.agenda.plan(at, Happening::Perform(id));
        if matches!(work, Work::Publish(_)) {
            let timeout = self.scenario.subscriptions[owner.seat.subscription].policy.publish_timeout;
            self.agenda.plan(self.now + timeout, Happening::TimeOut(id));
        }
        let connection = self.mind(owner.seat).connection;
        self.operations.insert(id, Operation { owner, work, connection, reply: None });
    }

    /// How long work takes to get where it is done.
    fn way_there(&mut self, subscription: usize, work: &Work) -> Duration {
        let lease = self.scenario.subscriptions[subscription].policy.lease;
        if matches!(work, Work::Settle(_)) && std::mem::take(&mut self.stick_settle[subscription]) {
            self.tally.count("settle stuck");
            return lease + self.random.time(Span::ms(0, 1000));
        }
        self.delay(matches!(work, Work::Publish(_)))
    }

    /// One way to the database or the sink.
    pub(crate) fn delay(&mut self, sink: bool) -> Duration {
        let span = if sink { self.scenario.sink_delay } else { self.scenario.database_delay };
        let slow = !self.healing && self.random.permille(self.scenario.slow_permille);
        self.tally_if(slow, "slow call");
        self.random.time(span) * if slow { 50 } else { 1 }
    }

    /// An answer reaches its relay.
    pub(crate) fn deliver(&mut self, id: OperationId) {
        let Some(owner) = self.operations.get(&id).map(|operation| operation.owner) else { return };
        if !self.can_hear(owner.seat, Happening::Deliver(id)) {
            return;
        }
        let Some(Operation { work, reply: Some(reply), .. }) = self.operations.remove(&id) else { return };
        if self.bug == Some(Bug::LoseReply) && matches!(reply, Reply::Claimed(_)) && self.random.permille(20)
        {
            return;
        }
        if self.is_current(owner) {
            match (&reply, work) {
                (Reply::Acquired(Ok(Acquisition::Granted { loaded, .. })), _) => {
                    self.mind(owner.seat).cursor = Some(Cursor::new(&loaded.progress));
                }
                (Reply::Claimed(Ok(RoutedClaim::Page { events, .. })), _) => {
                    self.saw(&Seen::Known { owner, events })
                }
                (Reply::Fetched(Ok(fetch)), _) => {
                    self.saw(&Seen::Known { owner, events: &fetch.events });
                }
                (Reply::Published(..), Work::Publish(shipment)) if !shipment.answered => {
                    self.answer(owner, &shipment.answers[shipment.early..]);
                }
                (Reply::Published(..), _) => return,
                _ => {}
            }
        }
        self.think(owner.seat, Input::Reply(owner.term, reply));
    }

    /// The relay hears these answers.
    pub(crate) fn answer(&mut self, owner: Owner, answers: &[Answer]) {
        self.note(|world| {
            let one = |answer: &Answer| {
                let text = format!("{:?}", answer.outcome);
                let word = text.split('(').next().unwrap_or_default().to_owned();
                format!("{}={word}", world.facts.get(answer.fact).position)
            };
            format!("{owner} hears {}", answers.iter().map(one).collect::<Vec<_>>().join(" "))
        });
        self.saw(&Seen::Answered { owner, answers });
    }

    /// The relay has waited long enough for the sink: whatever was in the batch may have been written.
    pub(crate) fn time_out(&mut self, id: OperationId) {
        let Some(operation) = self.operations.get(&id) else { return };
        let owner = operation.owner;
        if !self.can_hear(owner.seat, Happening::TimeOut(id)) || !self.is_current(owner) {
            return;
        }
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let Work::Publish(shipment) = &mut operation.work else { return };
        if std::mem::replace(&mut shipment.answered, true) {
            return;
        }
        let outage = shipment.silent.unwrap_or(false);
        let ambiguous = || Outcome::Ambiguous(Failure::new("publish timed out"));
        let answers: Vec<Answer> = shipment
            .messages
            .iter()
            .map(|m| Answer { fact: Facts::number(&m.event), outcome: ambiguous(), outage })
            .collect();
        let (batch, early) = (shipment.batch, shipment.early);
        self.tally.count("publish timed out");
        if self.random.coin() {
            self.operations.remove(&id);
        }
        self.answer(owner, &answers[early..]);
        let outcomes = answers.into_iter().map(|answer| answer.outcome).collect();
        self.think(owner.seat, Input::Reply(owner.term, Reply::Published(batch, outcomes)));
    }
}
