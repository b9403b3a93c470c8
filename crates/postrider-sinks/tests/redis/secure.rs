//! Passwords and encryption.

use postrider::sink::Sink;
use postrider_sinks::redis::{Redis as RedisSink, RedisConfig, Tls};
use postrider_testkit::conformance::sink::letters;
use postrider_testkit::servers::redis::{PASSWORD, USER, shared};

use super::stream::{bodies, name, open, to};

#[tokio::test]
async fn a_user_and_tls_work_alone_and_together() {
    let Some(redis) = shared() else { return };
    let tls = || Tls::default().ca(redis.certificate());
    for config in [
        RedisConfig::new(redis.address()).user(USER, PASSWORD),
        RedisConfig::new(redis.tls_address()).tls(tls()),
        RedisConfig::new(redis.tls_address()).tls(tls()).user(USER, PASSWORD).database(0),
    ] {
        let stream = name("secure");
        let outcomes = open(&config).publish(&[to(&stream, "a", 0), to(&stream, "a", 1)]).await;
        assert_eq!(letters(&outcomes), "aa", "{config:?} {outcomes:?}");
        assert_eq!(bodies(&redis.read(&stream)), ["a 0", "a 1"]);
    }
}

#[tokio::test]
async fn a_wrong_password_and_an_untrusted_certificate_count_no_attempt_and_are_reported() {
    let Some(redis) = shared() else { return };
    for (config, said) in [
        (RedisConfig::new(redis.address()).user(USER, "canary"), "authentication failed"),
        (RedisConfig::new(redis.tls_address()).tls(Tls::default()), "certificate"),
    ] {
        let outcomes = open(&config).publish(&[to("any", "a", 0)]).await;
        assert_eq!(letters(&outcomes), "d", "{outcomes:?}");
        let reported = format!("{outcomes:?}");
        assert!(reported.to_lowercase().contains(&said.to_lowercase()), "{reported}");
        assert!(!reported.contains("canary"), "{reported}");
    }
}

#[tokio::test]
async fn certificates_that_cannot_be_read_are_reported_at_the_start() {
    let config = RedisConfig::new("127.0.0.1:1").tls(Tls::default().ca("/no/such/file.pem"));
    let error = RedisSink::open(&config).unwrap_err().report();
    assert!(error.starts_with("error[PR-0501]") && error.contains("/no/such/file.pem"), "{error}");
}
