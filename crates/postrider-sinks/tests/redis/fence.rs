//! With a fence, a sink whose successor has taken over adds nothing.

use postrider::Code;
use postrider::sink::Sink;
use postrider_sinks::redis::RedisConfig;
use postrider_testkit::conformance::sink::{batch, letters};
use postrider_testkit::servers::redis::shared;

use super::stream::{LEASE, bodies, config, name, open, to};

#[tokio::test(flavor = "multi_thread")]
async fn with_a_fence_nothing_of_a_zombie_is_added_after_the_takeover() {
    let Some(redis) = shared() else { return };
    let (stream, fence) = (name("zombie"), name("fence"));
    let config = config(redis).fence(&fence);
    let old = open(&config);
    assert_eq!(letters(&old.publish(&[to(&stream, "a", 0)]).await), "x", "before its first term");
    old.take_over(LEASE).await.unwrap();
    assert_eq!(letters(&old.publish(&[to(&stream, "a", 0)]).await), "a");

    let new = open(&config);
    new.take_over(LEASE).await.unwrap();
    assert_eq!(letters(&old.publish(&[to(&stream, "a", 1), to(&stream, "b", 1)]).await), "xx");
    assert_eq!(letters(&new.publish(&[to(&stream, "a", 2)]).await), "a");
    assert_eq!(letters(&old.publish(&[to(&stream, "a", 1)]).await), "x", "it stays fenced");
    assert_eq!(bodies(&redis.read(&stream)), ["a 0", "a 2"]);
    // It may publish again with a new lease.
    old.take_over(LEASE).await.unwrap();
    assert_eq!(letters(&old.publish(&[to(&stream, "a", 3)]).await), "a");
    assert_eq!(letters(&new.publish(&[to(&stream, "a", 4)]).await), "x");
}

#[tokio::test]
async fn a_server_that_lost_the_fence_fences_every_relay_until_one_takes_over() {
    let Some(redis) = shared() else { return };
    let (stream, fence) = (name("lost"), name("fence"));
    let sink = open(&config(redis).fence(&fence));
    sink.take_over(LEASE).await.unwrap();
    redis.command(&["DEL", &fence]);
    assert_eq!(letters(&sink.publish(&[to(&stream, "a", 0)]).await), "x");
    sink.take_over(LEASE).await.unwrap();
    assert_eq!(letters(&sink.publish(&[to(&stream, "a", 0)]).await), "a");
}

/// The result of the first test if nothing fenced.
#[tokio::test]
async fn without_a_fence_a_zombie_adds_after_the_takeover() {
    let Some(redis) = shared() else { return };
    let stream = name("free");
    let (old, new) = (open(&config(redis)), open(&config(redis)));
    for sink in [&old, &new, &old] {
        sink.take_over(LEASE).await.unwrap();
        assert_eq!(letters(&sink.publish(&[to(&stream, "a", 0)]).await), "a");
    }
    assert_eq!(letters(&old.publish(&[to(&stream, "a", 1)]).await), "a");
}

#[tokio::test]
async fn a_sink_that_cannot_take_over_reports_why_and_publishes_nothing() {
    let sink = open(&RedisConfig::new("127.0.0.1:1").fence("fence"));
    let error = sink.take_over(LEASE).await.unwrap_err();
    assert_eq!(error.code(), Code::SinkFailed);
    assert!(error.report().contains("127.0.0.1:1"), "{error}");
    assert_eq!(letters(&sink.publish(&batch("a", 0..1)).await), "x");
}
