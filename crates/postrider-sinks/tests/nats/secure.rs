//! Passwords and encryption.

use postrider::sink::Sink;
use postrider_sinks::nats::{Login, NatsConfig, Tls};
use postrider_testkit::conformance::sink::batch;
use postrider_testkit::servers::nats::{PASSWORD, USER, shared};

use super::stream::{ACK, letters, name, open, texts};

fn login(password: &str) -> Login {
    Login::Password(USER.to_owned(), password.to_owned())
}

#[tokio::test]
async fn tls_and_a_password_work() {
    let Some(server) = shared() else { return };
    let stream = name("secure");
    server.create_stream(&stream, &stream, &[]);
    let config = NatsConfig::new(format!("tls://127.0.0.1:{}", server.port()), &stream).subject(&stream);
    let tls = Tls::default().required().ca(server.authority());
    let sink = open(&config.login(login(PASSWORD)).tls(tls));
    let messages: Vec<_> = (0..20).flat_map(|key| batch(&format!("key-{key}"), 0..1)).collect();
    let outcomes = sink.publish(&messages).await;
    assert_eq!(letters(&outcomes), "a".repeat(20), "{outcomes:?}");
    let bodies: Vec<_> = messages.iter().map(|m| String::from_utf8(m.body.to_vec()).unwrap()).collect();
    assert_eq!(texts(&server.read(&stream)), bodies);
}

#[tokio::test]
async fn a_wrong_password_and_an_untrusted_certificate_count_no_attempt_and_are_reported() {
    let Some(server) = shared() else { return };
    let config = |scheme: &str| NatsConfig::new(format!("{scheme}://127.0.0.1:{}", server.port()), "any");
    let plain = config("nats").subject("any").login(login("canary"));
    let untrusted = config("tls").subject("any").login(login("canary")).tls(Tls::default().required());
    for (config, said) in [(plain, "authorization"), (untrusted, "")] {
        let outcomes = open(&config.ack_timeout(ACK)).publish(&batch("a", 0..1)).await;
        assert_eq!(letters(&outcomes), "d", "{outcomes:?}");
        let reported = format!("{outcomes:?}");
        println!("{reported}");
        assert!(reported.contains(said) && !reported.contains("canary"), "{reported}");
        assert!(!reported.contains(PASSWORD), "{reported}");
    }
}
