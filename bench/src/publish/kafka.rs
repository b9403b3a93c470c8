//! To Kafka, with and without transactions.

use super::Publish;
use crate::drain::rates;
use crate::kafka::{Alone, Mode, Topic, relay};
use crate::postgres::Fixture;
use crate::workload::Workload;
use crate::{Error, Report, Row};

/// Runs it from a new schema of a server to topics of a Kafka cluster. `progress` is called with each next step.
///
/// # Errors
/// An error of the server, the cluster or the relay, or if a topic does not contain each event once.
pub async fn postgres_to_kafka(
    url: &str,
    brokers: &str,
    publish: Publish,
    progress: impl Fn(&str),
) -> Result<Report, Error> {
    let Publish { events, payload_bytes, keys, repetitions } = publish;
    progress(&format!("writing {events} events of {payload_bytes} bytes"));
    let workload = Workload { events, payload_bytes, keys };
    let fixture = Fixture::fill(url, "publish", &workload).await?;
    let alone = Alone::new(&workload)?;
    let (mut limit, mut plain, mut transactional) = (Vec::new(), Vec::new(), Vec::new());
    let mut one_per_key = Vec::new();
    for run in 1..=repetitions {
        progress(&format!("run {run} of {repetitions}"));
        let topic = Topic::create(brokers, &format!("alone-{run}")).await?;
        limit.push(tokio::task::block_in_place(|| alone.publish(&topic))?);
        holds_each_once(topic, events).await?;

        let topic = Topic::create(brokers, &format!("plain-{run}")).await?;
        plain.push(relay(&fixture, &format!("plain-{run}"), &topic, Mode::Plain, events).await?);
        holds_each_once(topic, events).await?;

        // With a key each, a batch has one event of a key anyway.
        if keys > 0 {
            let name = format!("one-per-key-{run}");
            let topic = Topic::create(brokers, &name).await?;
            one_per_key.push(relay(&fixture, &name, &topic, Mode::OnePerKey, events).await?);
            holds_each_once(topic, events).await?;
        }

        let name = format!("transactional-{run}");
        let topic = Topic::create(brokers, &name).await?;
        transactional.push(relay(&fixture, &name, &topic, Mode::Transactional, events).await?);
        topic.delete().await?;
    }
    fixture.close().await?;
    let mut report = Report {
        title: format!("PostgreSQL to Kafka: {}", publish.describe()),
        rows: vec![
            Row::of_runs("rdkafka alone (the limit)", events, &limit),
            Row::of_runs("postrider", events, &plain),
            Row::of_runs("postrider, transactional", events, &transactional),
        ],
        ratios: vec![
            rates("postrider / rdkafka alone", (&plain, events), (&limit, events)),
            rates("transactional / rdkafka alone", (&transactional, events), (&limit, events)),
        ],
    };
    if keys > 0 {
        report.rows.insert(2, Row::of_runs("postrider, one event per key", events, &one_per_key));
        let ratio = rates("one event per key / rdkafka alone", (&one_per_key, events), (&limit, events));
        report.ratios.insert(1, ratio);
    }
    Ok(report)
}

/// Checks that every run did the same work. Deletes the topic, because the next run needs the disk space.
pub(super) async fn holds_each_once(topic: Topic, events: u64) -> Result<(), Error> {
    let records = tokio::task::block_in_place(|| topic.offsets())?;
    let name = topic.name.clone();
    topic.delete().await?;
    if records == events { Ok(()) } else { Err(format!("{name} holds {records} of {events} events").into()) }
}
