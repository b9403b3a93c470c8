use std::io;
use std::net::IpAddr;
use std::sync::Mutex;

use postrider::Event;
use postrider::encode::Plain;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// Resolves to the next address at each lookup, and then always to the last one.
struct Changing(Mutex<Vec<&'static str>>);

impl Lookup for Changing {
    fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let mut answers = self.0.lock().unwrap();
        let next = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
        Box::pin(std::future::ready(Ok(vec![next.parse().unwrap()])))
    }
}

/// A server that answers every connection once and closes it. Counts them.
async fn server(address: &str) -> (u16, Arc<Mutex<usize>>) {
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    let (port, count) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(0)));
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            *counted.lock().unwrap() += 1;
            let mut head = vec![0; 4096];
            let _ = stream.read(&mut head).await;
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    (port, count)
}

fn sink(port: u16, answers: &[&'static str]) -> Webhook {
    let mut config = WebhookConfig::new(format!("http://hooks.example:{port}/"));
    config.allow_http = true;
    // In place of the public internet.
    config.allow_networks = vec!["127.0.0.1".into()];
    let lookup = Arc::new(Changing(Mutex::new(answers.to_vec())));
    Webhook::open_with(&config, Arc::new(SystemClock::new()), lookup).unwrap()
}

async fn publish(sink: &Webhook) -> Outcome {
    let encoder: Arc<dyn postrider::encode::Encoder> = Arc::new(Plain);
    let event = Arc::new(Event::new("a", "{}"));
    let message = Message::encode(&encoder, postrider::Position::new(1), event, "d".into()).unwrap();
    sink.publish(&[message]).await.remove(0)
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_checked_at_every_connection() {
    let (port, connections) = server("127.0.0.1").await;
    let sink = sink(port, &["127.0.0.1", "127.0.0.2"]);
    assert!(matches!(publish(&sink).await, Outcome::Acknowledged(_)));
    let Outcome::Down(failure) = publish(&sink).await else { panic!() };
    assert!(
        failure.message.starts_with("hooks.example resolves to 127.0.0.2, a loopback"),
        "{}",
        failure.message
    );
    assert_eq!(*connections.lock().unwrap(), 1);
}

#[tokio::test]
async fn the_address_that_was_checked_is_the_one_connected_to() {
    // A second lookup would return the other address, where no server listens.
    let (port, connections) = server("127.0.0.1").await;
    let sink = sink(port, &["127.0.0.1", "127.0.0.3"]);
    assert!(matches!(publish(&sink).await, Outcome::Acknowledged(_)));
    assert_eq!(*connections.lock().unwrap(), 1);
}

#[tokio::test]
async fn probing_an_endpoint_applies_the_address_guard() {
    let (port, connections) = server("127.0.0.1").await;
    let reached = sink(port, &["127.0.0.1"]).probe().await.unwrap().unwrap();
    assert!(reached.contains(&format!("at 127.0.0.1:{port}")), "{reached}");
    let error = sink(port, &["127.0.0.2"]).probe().await.unwrap_err();
    assert!(error.message().contains("127.0.0.2, a loopback"), "{error}");
    while *connections.lock().unwrap() < 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(*connections.lock().unwrap(), 1);
    assert_eq!(Webhook::open(&WebhookConfig::routed()).unwrap().probe().await.unwrap(), None);
}

#[test]
fn invalid_settings_are_refused() {
    let refused = |change: fn(&mut WebhookConfig)| {
        let mut config = WebhookConfig::new("https://hooks.example/T0KEN");
        change(&mut config);
        let error = Webhook::open(&config).unwrap_err().report();
        assert!(!error.contains("T0KEN"), "{error}");
        error
    };
    assert!(refused(|c| c.url = Some("ftp://hooks.example/T0KEN".into())).contains("scheme"));
    assert!(refused(|c| c.allow_networks = vec!["10/8".into()]).contains("network"));
    assert!(refused(|c| c.headers = [("Host".into(), "a".into())].into()).contains("set by the sink"));
    assert!(
        refused(|c| c.headers = [("a b".into(), "a".into())].into())
            .contains("name that is not valid in HTTP")
    );
    assert!(refused(|c| c.authorization = Some("T0KEN\n".into())).contains("authorization"));
    assert!(refused(|c| c.ca_file = Some("/nowhere.pem".into())).contains("/nowhere.pem"));
    assert!(Webhook::open(&WebhookConfig::new("https://hooks.example/")).is_ok());
}
