//! Delivers a batch to the sink, message by message.

use postrider::relay::brain::{BatchId, Input, Reply};

use super::event_queue::SimEvent;
use super::observation::{Observation, Owner, ReportedOutcome};
use super::operation::{Operation, OperationId, PublishCall, Work};
use super::scenario::TopicRoute;
use super::simulation::Simulation;
use super::written::WrittenEvents;
use crate::sink::{Offer, Offered, Response};

/// What can go wrong with a single message.
const SINK_FAULTS: [Response; 10] = [
    Response::Reject,
    Response::Fail,
    Response::Retry,
    Response::Retry,
    Response::RetryAndStop,
    Response::AcceptUnacknowledged,
    Response::AcceptUnacknowledged,
    Response::DropUnacknowledged,
    Response::Hang,
    Response::AcceptAndHang,
];

impl Simulation {
    /// Some messages of a batch reach the destination; the others follow later.
    pub(crate) fn publish(&mut self, id: OperationId, mut operation: Operation) {
        let owner = operation.owner;
        let Work::Publish(call) = &mut operation.work else { return };
        let left = call.messages.len() - call.answers.len();
        let now = if self.rng.permille(700) { left } else { self.rng.size(0, left) };
        for _ in 0..now {
            match self.offer(owner, call) {
                Offered::Answer(_) => {}
                Offered::NoAnswer => {
                    // The call stays until the relay's timeout; nothing more is written.
                    self.operations.insert(id, operation);
                    return;
                }
                Offered::ProcessDied => {
                    if self.is_alive(owner.driver) {
                        self.tally.count("process killed by an event");
                        self.crash(owner.relay());
                    }
                    return;
                }
            }
        }
        if call.is_complete() {
            operation.reply =
                Some(Reply::Published(call.batch, call.outcomes(owner.subscription().is_multiple_of(2))));
            self.answer_after(id, operation);
        } else {
            let at = self.now + self.delay(true);
            // After its timeout the relay no longer listens to the call.
            let early =
                (!call.answered && self.reports_early(owner)).then(|| (call.batch, call.report_early()));
            self.operations.insert(id, operation);
            self.queue.push(at, SimEvent::Perform(id));
            if let Some((batch, answers)) = early {
                self.answer_early(owner, batch, answers);
            }
        }
    }

    /// Whether the sink reports outcomes before the batch ends, and the relay receives them.
    fn reports_early(&mut self, owner: Owner) -> bool {
        let plan = &self.scenario.subscriptions[owner.subscription()];
        plan.in_flight_max.is_some() && self.is_up(owner) && self.rng.coin()
    }

    fn answer_early(&mut self, owner: Owner, batch: BatchId, answers: Vec<(usize, ReportedOutcome)>) {
        if answers.is_empty() {
            return;
        }
        self.tally.count("outcomes reported early");
        let outcomes = answers.iter().map(|(index, answer)| (*index, answer.outcome.clone())).collect();
        self.answer(owner, &answers.into_iter().map(|(_, answer)| answer).collect::<Vec<_>>());
        self.step_brain(owner.driver, Input::Reply(owner.term, Reply::PublishedEarly(batch, outcomes)));
    }

    /// Offers the next message of a batch to its destination.
    fn offer(&mut self, owner: Owner, call: &mut PublishCall) -> Offered {
        let subscription = owner.subscription();
        let message = &call.messages[call.answers.len()];
        let written = WrittenEvents::number(&message.event);
        let TopicRoute::To(number) =
            self.scenario.subscriptions[subscription].routes[self.written_events.get(written).topic]
        else {
            return Offered::NoAnswer;
        };
        if !self.faults_stopped && self.rng.permille(self.scenario.sink_fault_permille) {
            let response = self.rng.pick(&SINK_FAULTS);
            self.tally.count("sink fault");
            self.destinations[number].script.fault_next(response);
        }
        let destination = &mut self.destinations[number];
        let outage = destination.script.outage.is_some();
        let visible_before = destination.writes().len();
        let key = message.event.ordering_key();
        let offer = Offer {
            event: message.event.id,
            position: message.position,
            key: key.as_deref(),
            writer: u64::from(owner.driver.incarnation) << 32 | owner.relay() as u64,
        };
        let taken = destination.offer(&mut call.state, offer);
        if destination.writes().len() > visible_before {
            self.written(owner, written);
        }
        match &taken {
            Offered::Answer(outcome) => {
                call.answers.push(ReportedOutcome { written, outcome: outcome.clone(), outage });
            }
            Offered::NoAnswer => call.silent = Some(outage),
            Offered::ProcessDied => {}
        }
        taken
    }

    fn written(&mut self, owner: Owner, written: usize) {
        let subscription = owner.subscription();
        let delivered = &mut self.delivered[subscription];
        if delivered.len() <= written {
            delivered.resize(written + 1, 0);
        }
        delivered[written] += 1;
        let again = delivered[written] > 1;
        self.tally.count("message delivered");
        self.tally_if(again, "duplicate delivered");
        self.note(|sim| {
            format!(
                "s{subscription} gets {}{}",
                sim.written_events.get(written),
                if again { " again" } else { "" }
            )
        });
        self.observe(&Observation::Delivered { owner, written });
    }
}
