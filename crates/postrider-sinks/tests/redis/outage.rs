//! The server stopped, killed and suspended.

use std::time::{Duration, Instant};

use postrider::sink::Sink;
use postrider_testkit::conformance::sink::letters;
use postrider_testkit::servers::redis::Redis;

use super::stream::{bodies, config, name, open, to};

type Change = fn(&Redis);
const OUTAGES: [(&str, Change, Change); 3] = [
    ("stopped", Redis::stop, Redis::start),
    ("killed", Redis::kill, Redis::start),
    ("frozen", Redis::pause, Redis::resume),
];

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_counts_against_no_message_and_the_sink_recovers_with_the_server() {
    let Some(redis) = Redis::private() else { return };
    let stream = name("outage");
    let sink = open(&config(&redis).timeout(Duration::from_secs(1)));
    let mut expected = Vec::new();
    for (number, (how, down, up)) in OUTAGES.into_iter().enumerate() {
        let first = number * 10;
        assert_eq!(letters(&sink.publish(&[to(&stream, "a", first)]).await), "a", "{how}");
        down(&redis);
        let batch = [to(&stream, "a", first + 1), to(&stream, "b", 0), to(&stream, "a", first + 2)];
        let outcomes = sink.publish(&batch).await;
        assert!(["DDD", "ddd"].contains(&&*letters(&outcomes)), "{how}: {outcomes:?}");
        up(&redis);
        let back = Instant::now();
        loop {
            let outcomes = sink.publish(&[to(&stream, "a", first + 1)]).await;
            match &*letters(&outcomes) {
                "a" => break,
                "D" | "d" => assert!(back.elapsed() < Duration::from_secs(60), "{how}: {outcomes:?}"),
                _ => panic!("{how}: {outcomes:?}"),
            }
        }
        expected.extend([first, first + 1].map(|number| format!("a {number}")));
        println!("{how}: acknowledged {:?} after it was back", back.elapsed());
    }
    let mut seen = bodies(&redis.read(&stream));
    // What was sent to the suspended server may be added when it resumes.
    seen.retain(|body| expected.contains(body));
    seen.dedup();
    for body in &expected {
        assert!(seen.contains(body), "{body} is missing in {seen:?}");
    }
}

/// A server that forgets its streams, or that refuses everything for a while.
#[tokio::test]
async fn a_server_that_accepts_no_writes_is_down_and_counts_no_attempt() {
    let Some(redis) = Redis::private() else { return };
    let stream = name("refusing");
    let sink = open(&config(&redis));
    let batch = || [to(&stream, "a", 0), to(&stream, "a", 1), to(&stream, "b", 0)];
    for (on, off) in [
        (&["CONFIG", "SET", "maxmemory", "1"][..], &["CONFIG", "SET", "maxmemory", "0"][..]),
        (&["REPLICAOF", "127.0.0.1", "1"], &["REPLICAOF", "NO", "ONE"]),
        (&["CONFIG", "SET", "min-replicas-to-write", "1"], &["CONFIG", "SET", "min-replicas-to-write", "0"]),
        (&["ACL", "SETUSER", "default", "-xadd"], &["ACL", "SETUSER", "default", "+xadd"]),
        (&["ACL", "SETUSER", "default", "-eval"], &["ACL", "SETUSER", "default", "+eval"]),
    ] {
        redis.command(on);
        let outcomes = sink.publish(&batch()).await;
        redis.command(off);
        let letters = letters(&outcomes);
        // In a script each key stops at its first error.
        assert!(["ddd", "d-d"].contains(&&*letters), "{on:?}: {outcomes:?}");
        assert_eq!(redis.read(&stream).len(), 0, "{on:?}");
    }
    assert_eq!(letters(&sink.publish(&batch()).await), "aaa");
    redis.command(&["FLUSHALL"]);
    assert_eq!(letters(&sink.publish(&batch()).await), "aaa");
    assert_eq!(bodies(&redis.read(&stream)), ["a 0", "a 1", "b 0"]);
}
