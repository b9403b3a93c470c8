//! Passwords and encryption.

use postrider::sink::Sink;
use postrider_sinks::kafka::{Compression, KafkaConfig, Sasl, Tls};
use postrider_testkit::conformance::sink::batch;
use postrider_testkit::servers::kafka::{Listener, PASSWORD, USER, shared};

use super::topic::{DELIVERY, committed, letters, name, open, texts};

fn sasl(mechanism: &str, password: &str) -> Option<Sasl> {
    Some(Sasl::new(mechanism, USER, password))
}

#[tokio::test]
async fn sasl_works_with_and_without_tls() {
    let Some(kafka) = shared() else { return };
    let tls = || Some(Tls::default().ca(kafka.certificate()));
    for (listener, sasl, tls, compression) in [
        (Listener::Sasl, sasl("PLAIN", PASSWORD), None, Compression::Gzip),
        (Listener::Sasl, sasl("SCRAM-SHA-256", PASSWORD), None, Compression::Lz4),
        (Listener::Tls, None, tls(), Compression::Zstd),
        (Listener::SaslTls, sasl("SCRAM-SHA-256", PASSWORD), tls(), Compression::None),
    ] {
        let topic = name("secure");
        kafka.create_topic(&topic, 1, &[]);
        let mut config = KafkaConfig::new(kafka.brokers_of(listener)).topic(&topic);
        (config.sasl, config.tls, config.compression) = (sasl, tls, compression);
        let sink = open(&config).await;
        let messages: Vec<_> = (0..20).flat_map(|key| batch(&format!("key-{key}"), 0..1)).collect();
        let outcomes = sink.publish(&messages).await;
        assert_eq!(letters(&outcomes), "a".repeat(20), "{listener:?} {outcomes:?}");
        let bodies: Vec<_> = messages.iter().map(|m| String::from_utf8(m.body.to_vec()).unwrap()).collect();
        assert_eq!(texts(&committed(kafka, &topic)), bodies, "{listener:?}");
    }
}

#[tokio::test]
async fn a_wrong_password_and_an_untrusted_certificate_count_no_attempt_and_are_reported() {
    let Some(kafka) = shared() else { return };
    for (listener, sasl, tls, said) in [
        (Listener::Sasl, sasl("PLAIN", "canary"), None, "uthentication failed"),
        (Listener::Tls, None, Some(Tls::default()), "certificate verify failed"),
    ] {
        let mut config = KafkaConfig::new(kafka.brokers_of(listener)).topic("any");
        (config.sasl, config.tls) = (sasl, tls);
        let sink = open(&config.delivery_timeout(DELIVERY)).await;
        let outcomes = sink.publish(&batch("a", 0..1)).await;
        assert_eq!(letters(&outcomes), "D", "{outcomes:?}");
        let reported = format!("{outcomes:?}");
        assert!(reported.contains(said) && !reported.contains("canary"), "{reported}");
    }
}

#[tokio::test]
async fn a_client_property_that_guarantees_depend_on_is_refused() {
    for name in ["acks", "enable.idempotence", "transactional.id", "sasl.password"] {
        let mut config = KafkaConfig::new("127.0.0.1:1");
        config.properties.insert(name.into(), "canary".into());
        let error = postrider_sinks::kafka::Kafka::open(&config).unwrap_err().report();
        assert!(error.starts_with("error[PR-0501]") && error.contains(name), "{error}");
        assert!(!error.contains("canary"), "{error}");
    }
}
