//! Messages that are sent in a request each, because a batch with them was refused.

use std::collections::BTreeMap;

use postrider::sink::{Failure, Message, Outcome};
use rdkafka::error::RDKafkaErrorCode as ErrorCode;
use rdkafka::producer::Producer as _;

use super::delivery::{Deliveries, Delivery};
use super::error::{self, Meaning, meaning};
use super::message::record;
use super::plain::topic_of;
use super::renewable::Renewable;
use super::unknown::UnknownOutcomes;

/// Sends each of these messages of the batch in its own request, then waits for their delivery reports. `Err` is the code
/// with which the broker refused it.
pub(super) async fn send_alone(
    client: &Renewable,
    batch: &[Message],
    indices: &[usize],
    topic: Option<&str>,
) -> Vec<Result<Outcome, ErrorCode>> {
    let generation = match client.get() {
        Ok(generation) => generation,
        Err(error) => {
            return vec![Ok(Outcome::Down(Failure::new(error.to_string()))); indices.len()];
        }
    };
    let Some(client) = generation.client() else { return Vec::new() };
    let error_count = client.context().error_count();
    let deliveries = Deliveries::of(indices.len());
    for (index, &at) in indices.iter().enumerate() {
        let record = record(topic_of(&batch[at], topic), &batch[at], deliveries.slot(index));
        if let Err((error, record)) = client.send(record) {
            let code = error.rdkafka_error_code().unwrap_or(ErrorCode::InvalidArgument);
            record.delivery_opaque.fill(Delivery::Failed(code));
        }
    }
    let reported = deliveries.complete().await;
    let mut unknown =
        UnknownOutcomes { producer: &generation.producer, error_count, topics: BTreeMap::new() };
    let mut outcomes = Vec::with_capacity(reported.len());
    for (&at, delivery) in indices.iter().zip(reported) {
        let topic = topic_of(&batch[at], topic);
        outcomes.push(match delivery {
            Delivery::Written { partition, offset } => Ok(error::acknowledged(partition, offset)),
            Delivery::Failed(code) => match meaning(code) {
                Meaning::RefusedTogether => Err(code),
                Meaning::Unknown | Meaning::NotAllowedYet => Ok(unknown.outcome(topic, code).await),
                Meaning::Refused | Meaning::NotSent | Meaning::Fenced => Ok(error::outcome(topic, code)),
            },
        });
    }
    outcomes
}
