//! Passwords and encryption.

use postrider::sink::Sink;
use postrider_sinks::rabbitmq::{RabbitMqConfig, Tls};
use postrider_testkit::conformance::sink::batch;
use postrider_testkit::servers::rabbitmq::{PASSWORD, USER, shared};

use super::queue::{CONFIRM, letters, name, open, texts};

#[tokio::test]
async fn tls_and_a_password_work() {
    let Some(server) = shared() else { return };
    let queue = name("secure");
    server.create_queue(&queue, &[]);
    let config = RabbitMqConfig::new(server.tls_url()).login(USER, PASSWORD).routing_key(&queue);
    let sink = open(&config.tls(Tls::default().ca(server.authority())));
    let messages: Vec<_> = (0..20).flat_map(|key| batch(&format!("key-{key}"), 0..1)).collect();
    let outcomes = sink.publish(&messages).await;
    assert_eq!(letters(&outcomes), "a".repeat(20), "{outcomes:?}");
    let bodies: Vec<_> = messages.iter().map(|m| String::from_utf8(m.body.to_vec()).unwrap()).collect();
    assert_eq!(texts(&server.read(&queue)), bodies);
}

#[tokio::test]
async fn a_wrong_password_and_an_untrusted_certificate_count_no_attempt_and_are_reported() {
    let Some(server) = shared() else { return };
    let plain = RabbitMqConfig::new(server.url()).login(USER, "canary");
    let untrusted = RabbitMqConfig::new(server.tls_url()).login(USER, "canary");
    for (config, said) in [(plain, "ACCESS_REFUSED"), (untrusted, "ertificate")] {
        let outcomes = open(&config.confirm_timeout(CONFIRM)).publish(&batch("a", 0..1)).await;
        assert_eq!(letters(&outcomes), "d", "{outcomes:?}");
        let reported = format!("{outcomes:?}");
        assert!(reported.contains(said) && !reported.contains("canary"), "{reported}");
        assert!(!reported.contains(PASSWORD), "{reported}");
    }
}
