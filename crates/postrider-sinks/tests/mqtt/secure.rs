//! Passwords and encryption.

use postrider::sink::Sink;
use postrider_sinks::mqtt::{Mqtt, MqttConfig, Tls};
use postrider_testkit::conformance::sink::letters;
use postrider_testkit::servers::mosquitto::{Listener, PASSWORD, USER, shared};

use super::topic::{name, open, payloads, to};

#[tokio::test]
async fn a_user_works_with_and_without_tls() {
    let Some(broker) = shared() else { return };
    let tls = Tls::default().ca(broker.certificate());
    for config in [
        MqttConfig::new(broker.address(Listener::Password)),
        MqttConfig::new(broker.address(Listener::Tls)).tls(tls),
    ] {
        let topic = name("secure");
        broker.subscribe(&topic, &topic);
        let sink = open(&config.user(USER, PASSWORD));
        let outcomes = sink.publish(&[to(&topic, "a", 0), to(&topic, "a", 1)]).await;
        assert_eq!(letters(&outcomes), "aa", "{sink:?} {outcomes:?}");
        assert_eq!(payloads(&broker.receive(&topic)), ["a 0", "a 1"]);
    }
}

#[tokio::test]
async fn a_wrong_password_and_an_untrusted_certificate_of_the_broker_count_no_attempt_and_are_reported() {
    let Some(broker) = shared() else { return };
    for (config, said) in [
        (MqttConfig::new(broker.address(Listener::Password)).user(USER, "canary"), "notauthorized"),
        (MqttConfig::new(broker.address(Listener::Password)), "notauthorized"),
        (
            MqttConfig::new(broker.address(Listener::Tls)).tls(Tls::default()).user(USER, "canary"),
            "certificate",
        ),
    ] {
        let outcomes = open(&config).publish(&[to("any", "a", 0)]).await;
        assert_eq!(letters(&outcomes), "d", "{outcomes:?}");
        let reported = format!("{outcomes:?}").to_lowercase();
        assert!(reported.contains(said) && !reported.contains("canary"), "{reported}");
    }
}

#[tokio::test]
async fn certificates_for_mqtt_that_cannot_be_read_are_reported_at_the_start() {
    let config = MqttConfig::new("127.0.0.1:1").tls(Tls::default().ca("/no/such/file.pem"));
    let error = Mqtt::open(&config).unwrap_err().report();
    assert!(error.starts_with("error[PR-0501]") && error.contains("/no/such/file.pem"), "{error}");
}
