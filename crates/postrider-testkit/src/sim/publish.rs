//! A batch arrives at the sink, message by message.

use postrider::relay::brain::{BatchId, Input, Reply};

use super::agenda::Happening;
use super::facts::Facts;
use super::operation::{Operation, OperationId, Shipment, Work};
use super::scenario::Way;
use super::seen::{Answer, Owner, Seen};
use super::world::World;
use crate::sink::{Fate, Offer, Taken};

/// What may go wrong with a single message.
const MISHAPS: [Fate; 10] = [
    Fate::Reject,
    Fate::Fail,
    Fate::Retry,
    Fate::Retry,
    Fate::Stop,
    Fate::TakeSilently,
    Fate::TakeSilently,
    Fate::DropSilently,
    Fate::Hang,
    Fate::TakeAndHang,
];

impl World {
    /// Some messages of a batch reach the destination; the rest does so a little later.
    pub(crate) fn ship(&mut self, id: OperationId, mut operation: Operation) {
        let owner = operation.owner;
        let Work::Publish(shipment) = &mut operation.work else { return };
        let left = shipment.messages.len() - shipment.answers.len();
        let now = if self.random.permille(700) { left } else { self.random.size(0, left) };
        for _ in 0..now {
            match self.offer(owner, shipment) {
                Taken::Answer(_) => {}
                Taken::Silence => {
                    // It stays, to be timed out; nothing more is written.
                    self.operations.insert(id, operation);
                    return;
                }
                Taken::Death => {
                    if self.is_alive(owner.seat) {
                        self.tally.count("process killed by an event");
                        self.crash(owner.seat.relay);
                    }
                    return;
                }
            }
        }
        if shipment.is_complete() {
            operation.reply = Some(Reply::Published(
                shipment.batch,
                shipment.outcomes(owner.seat.subscription.is_multiple_of(2)),
            ));
            self.answer_after(id, operation);
        } else {
            let at = self.now + self.delay(true);
            let early = self.reports_early(owner).then(|| (shipment.batch, shipment.report_early()));
            self.operations.insert(id, operation);
            self.agenda.plan(at, Happening::Perform(id));
            if let Some((batch, answers)) = early {
                self.answer_early(owner, batch, answers);
            }
        }
    }

    /// Whether the sink reports outcomes now, before its batch is done, and the relay takes them.
    fn reports_early(&mut self, owner: Owner) -> bool {
        let plan = &self.scenario.subscriptions[owner.seat.subscription];
        plan.in_flight_max.is_some() && self.is_up(owner) && self.random.coin()
    }

    fn answer_early(&mut self, owner: Owner, batch: BatchId, answers: Vec<(usize, Answer)>) {
        if answers.is_empty() {
            return;
        }
        self.tally.count("outcomes reported early");
        let outcomes = answers.iter().map(|(place, answer)| (*place, answer.outcome.clone())).collect();
        self.answer(owner, &answers.into_iter().map(|(_, answer)| answer).collect::<Vec<_>>());
        self.think(owner.seat, Input::Reply(owner.term, Reply::PublishedEarly(batch, outcomes)));
    }

    /// Offers the next message of a batch to its destination.
    fn offer(&mut self, owner: Owner, shipment: &mut Shipment) -> Taken {
        let subscription = owner.seat.subscription;
        let message = &shipment.messages[shipment.answers.len()];
        let fact = Facts::number(&message.event);
        let Way::To(number) = self.scenario.subscriptions[subscription].ways[self.facts.get(fact).topic]
        else {
            return Taken::Silence;
        };
        if !self.healing && self.random.permille(self.scenario.mishap_permille) {
            let fate = self.random.pick(&MISHAPS);
            self.tally.count("mishap at the sink");
            self.destinations[number].script.mishap(fate);
        }
        let destination = &mut self.destinations[number];
        let outage = destination.script.outage.is_some();
        let written = destination.writes().len();
        let key = message.event.ordering_key();
        let offer = Offer {
            event: message.event.id,
            position: message.position,
            key: key.as_deref(),
            writer: u64::from(owner.seat.life) << 32 | owner.seat.relay as u64,
        };
        let taken = destination.offer(&mut shipment.passage, offer);
        if destination.writes().len() > written {
            self.written(owner, fact);
        }
        match &taken {
            Taken::Answer(outcome) => {
                shipment.answers.push(Answer { fact, outcome: outcome.clone(), outage });
            }
            Taken::Silence => shipment.silent = Some(outage),
            Taken::Death => {}
        }
        taken
    }

    fn written(&mut self, owner: Owner, fact: usize) {
        let subscription = owner.seat.subscription;
        let delivered = &mut self.delivered[subscription];
        if delivered.len() <= fact {
            delivered.resize(fact + 1, 0);
        }
        delivered[fact] += 1;
        let again = delivered[fact] > 1;
        self.tally.count("message delivered");
        self.tally_if(again, "duplicate delivered");
        self.note(|world| {
            format!("s{subscription} gets {}{}", world.facts.get(fact), if again { " again" } else { "" })
        });
        self.saw(&Seen::Written { owner, fact });
    }
}
