//! `WAIT`: acknowledged is what replicas have.

use std::time::Duration;

use postrider::sink::Sink;
use postrider_sinks::redis::Replicas;
use postrider_testkit::conformance::sink::letters;
use postrider_testkit::eventually;
use postrider_testkit::servers::redis::Redis;

use super::stream::{bodies, config, name, open, to};

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_acknowledged_only_when_the_replica_has_it() {
    let (Some(primary), Some(replica)) = (Redis::private(), Redis::private()) else { return };
    let stream = name("replicated");
    replica.command(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    eventually("the replica follows", async || primary.command(&["INFO", "replication"]).contains("online"))
        .await;
    let sink = open(&config(&primary).replicas(Replicas::new(1, Duration::from_millis(1_500))));
    let outcomes = sink.publish(&[to(&stream, "a", 0), to(&stream, "a", 1)]).await;
    assert_eq!(letters(&outcomes), "aa", "{outcomes:?}");
    assert_eq!(bodies(&replica.read(&stream)), ["a 0", "a 1"]);

    replica.pause();
    let sink = open(&config(&primary).replicas(Replicas::new(1, Duration::from_millis(50))));
    let outcomes = sink.publish(&[to(&stream, "a", 2), to(&stream, "a", 3)]).await;
    assert_eq!(letters(&outcomes), "DD", "{outcomes:?}");
    assert!(format!("{outcomes:?}").contains("0 of 1 replica"), "{outcomes:?}");
    replica.resume();
    let sink = open(
        &config(&primary)
            .replicas(Replicas::new(1, Duration::from_secs(30)))
            .timeout(Duration::from_secs(60)),
    );
    assert_eq!(letters(&sink.publish(&[to(&stream, "a", 2)]).await), "a");
    assert_eq!(bodies(&replica.read(&stream)), ["a 0", "a 1", "a 2", "a 3", "a 2"]);
}
