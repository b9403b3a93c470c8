//! The broker stopped, killed and suspended.

use std::time::{Duration, Instant};

use postrider::sink::Sink;
use postrider_testkit::conformance::sink::letters;
use postrider_testkit::servers::mosquitto::Mosquitto;

use super::topic::{config, name, open, to};

type Change = fn(&Mosquitto);
const OUTAGES: [(&str, Change, Change); 3] = [
    ("stopped", Mosquitto::stop, Mosquitto::start),
    ("killed", Mosquitto::kill, Mosquitto::start),
    ("frozen", Mosquitto::pause, Mosquitto::resume),
];

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_broker_counts_against_no_message_and_the_sink_recovers_with_it() {
    let Some(broker) = Mosquitto::private() else { return };
    let topic = name("outage");
    let sink = open(&config(&broker).timeout(Duration::from_secs(1)));
    for (number, (how, down, up)) in OUTAGES.into_iter().enumerate() {
        // A broker that was killed has lost the session.
        broker.subscribe(&topic, &topic);
        let first = number * 10;
        assert_eq!(letters(&sink.publish(&[to(&topic, "a", first)]).await), "a", "{how}");
        down(&broker);
        let batch = [to(&topic, "a", first + 1), to(&topic, "b", 0), to(&topic, "a", first + 2)];
        let outcomes = sink.publish(&batch).await;
        // A key stops at its first message without a confirmation.
        assert!(["DD-", "ddd", "dd-"].contains(&&*letters(&outcomes)), "{how}: {outcomes:?}");
        up(&broker);
        broker.subscribe(&topic, &topic);
        let back = Instant::now();
        loop {
            let outcomes = sink.publish(&[to(&topic, "a", first + 1)]).await;
            match &*letters(&outcomes) {
                "a" => break,
                "D" | "d" => assert!(back.elapsed() < Duration::from_secs(60), "{how}: {outcomes:?}"),
                _ => panic!("{how}: {outcomes:?}"),
            }
        }
        println!("{how}: acknowledged {:?} after it was back", back.elapsed());
    }
}
