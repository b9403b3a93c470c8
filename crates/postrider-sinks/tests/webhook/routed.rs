//! The URLs of requests, chosen by routing rules and events.

use std::sync::Arc;
use std::time::Duration;

use postrider::encode::Plain;
use postrider::relay::{Policy, Relay, Subscription};
use postrider::route::{Router, Rule};
use postrider::sink::{Outcome, Sink};
use postrider::store::sqlite::SqliteStore;
use postrider::store::{Start, Store};
use postrider::write::Outbox;
use postrider::{Code, Event, Result};
use postrider_sinks::webhook::{Webhook, WebhookConfig};
use postrider_testkit::conformance::sink::message;
use postrider_testkit::eventually;
use tempfile::TempDir;

use super::server::{Answer, Server};

/// An outbox in a new file, and a sink without a URL.
struct Shop {
    folder: TempDir,
    config: WebhookConfig,
}

impl Shop {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        SqliteStore::migrate(folder.path().join("shop.db")).unwrap();
        let mut config = WebhookConfig::routed();
        config.allow_networks = vec!["127.0.0.0/8".into()];
        config.authorization = Some("Bearer T0KEN".into());
        Self { folder, config }
    }

    fn allowing(mut self, hosts: &[&str]) -> Self {
        self.config.allow_hosts = hosts.iter().map(|&host| host.to_owned()).collect();
        self
    }

    fn connect(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.folder.path().join("shop.db")).unwrap()
    }

    /// An event as plain SQL can write it: with any aggregate id, header `tenant` and topic.
    fn write(&self, id: &str, tenant: &str, topic: Option<&str>) {
        let event =
            Event::new("order.placed", "").with_aggregate("Order", "1").with_key(id.len().to_string());
        let connection = self.connect();
        Outbox::new().write(&connection, event).unwrap();
        let headers = serde_json::json!({ "tenant": tenant }).to_string();
        let last = "position = (SELECT max(position) FROM postrider_events)";
        let set = "aggregate_id = ?1, headers = ?2, topic = ?3";
        let update = format!("UPDATE postrider_events SET {set} WHERE {last}");
        connection.execute(&update, (id, headers, topic)).unwrap();
    }

    async fn relay(&self, rules: impl IntoIterator<Item = Rule>) -> Result<Relay> {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(self.folder.path().join("shop.db")).unwrap());
        let subscription = Subscription::new("hooks", Webhook::open(&self.config).unwrap())
            .start(Start::Beginning)
            .router(Router::by_topic().first_match(rules).unwrap())
            .encoder(Plain)
            .policy(Policy::default().lease(Duration::from_secs(2)));
        Relay::builder().outbox(store, [subscription]).spawn().await
    }

    /// The errors of the dead events, once there are this many.
    async fn dead(&self, count: usize) -> Vec<String> {
        let query = "SELECT last_error FROM postrider_parked WHERE state = 'dead' ORDER BY position";
        eventually(&format!("{count} events are dead"), async || {
            let connection = self.connect();
            let mut statement = connection.prepare(query).unwrap();
            let dead: rusqlite::Result<Vec<String>> =
                statement.query_map([], |row| row.get(0)).unwrap().collect();
            dead.ok().filter(|dead| dead.len() >= count)
        })
        .await
    }
}

fn targets(server: &Server) -> Vec<String> {
    let target = |line: &str| line.split(' ').nth(1).unwrap().to_owned();
    let mut targets: Vec<String> = server.requests().iter().map(|request| target(&request.line)).collect();
    targets.sort_unstable();
    targets
}

#[tokio::test(flavor = "multi_thread")]
async fn event_values_cannot_change_path_query_or_host() {
    let server = Server::start(|_| Answer::status(200)).await;
    let shop = Shop::new();
    let hostile = [
        ("../../admin/delete?all=1#", "..%2F..%2Fadmin%2Fdelete%3Fall%3D1%23"),
        ("%2e%2e", "%252e%252e"),
        ("@evil.example", "%40evil.example"),
        ("1\r\nhost: evil", "1%0D%0Ahost%3A%20evil"),
        ("1&admin=1", "1%26admin%3D1"),
        ("Grüße", "Gr%C3%BC%C3%9Fe"),
    ];
    for (id, _) in hostile {
        shop.write(id, "blue", None);
    }
    // Both would be a parent folder, in every notation.
    shop.write("..", "blue", None);
    shop.write(".", "blue", None);
    let rule = Rule::to(format!("http://{}/orders/{{aggregate_id}}?q={{aggregate_id}}", server.address));
    let relay = shop.relay([rule]).await.unwrap();
    let dead = shop.dead(2).await;
    server.wait_for(hostile.len()).await;
    relay.shutdown().await.unwrap();
    let mut expected: Vec<String> =
        hostile.iter().map(|(_, encoded)| format!("/orders/{encoded}?q={encoded}")).collect();
    expected.sort_unstable();
    assert_eq!(targets(&server), expected);
    assert!(dead.iter().all(|why| why.contains("segment that is . or ..")), "{dead:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_or_topic_that_lets_events_choose_the_host_requires_an_allow_list() {
    let shop = Shop::new();
    let by_tenant = || Rule::to("https://{header.tenant}/orders");
    for rules in [vec![], vec![Rule::new()], vec![by_tenant()], vec![Rule::to("{topic}")]] {
        let error = shop.relay(rules).await.unwrap_err();
        assert_eq!(error.code(), Code::DestinationHost, "{error}");
    }
    let shop = shop.allowing(&["hooks.example"]);
    shop.relay([by_tenant()]).await.unwrap().shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_reaches_only_hosts_in_the_allow_list() {
    let ours = Server::start(|_| Answer::status(200)).await;
    let evil = Server::start(|_| Answer::status(200)).await;
    let (ours_at, evil_at) = (ours.address.to_string(), evil.address.to_string());
    let shop = Shop::new().allowing(&[&ours_at]);
    shop.write("1", "x", Some(&format!("http://{ours_at}/by-topic")));
    shop.write("12", "x", Some(&format!("http://{evil_at}/by-topic")));
    shop.write("123", "x", Some(&format!("http://{ours_at}@{evil_at}/by-topic")));
    shop.write("1234", "x", Some(&format!("http://{evil_at}\\@{ours_at}/by-topic")));
    shop.write("12345", "x", Some(&format!("http://{ours_at}/a/%2e%2E/admin")));
    shop.write("123456", &format!("{evil_at}/x?"), None);
    shop.write("1234567", &evil_at, None);
    shop.write("12345678", "127.0.0.1", None);
    let by_tenant = format!("http://{{header.tenant}}:{}/by-tenant", ours.address.port());
    let relay = shop.relay([Rule::to("{topic}"), Rule::to(by_tenant)]).await.unwrap();
    let dead = shop.dead(6).await;
    ours.wait_for(2).await;
    relay.shutdown().await.unwrap();
    assert_eq!(targets(&ours), ["/by-tenant", "/by-topic"]);
    assert!(evil.requests().is_empty());
    assert!(dead[0].contains("which is not in `allow_hosts` of the sink"), "{dead:?}");
    assert!(dead.iter().all(|why| !why.contains("T0KEN")), "{dead:?}");
}

#[tokio::test]
async fn a_message_that_was_not_routed_by_url_rules_also_requires_the_allow_list() {
    let server = Server::start(|_| Answer::status(200)).await;
    let shop = Shop::new();
    let publish = async |config: &WebhookConfig| {
        let mut message = message("a", 0);
        message.destination = server.url().into();
        Webhook::open(config).unwrap().publish(&[message]).await.remove(0)
    };
    assert!(matches!(publish(&shop.config).await, Outcome::Rejected(_)));
    let shop = shop.allowing(&[&server.address.to_string()]);
    assert!(matches!(publish(&shop.config).await, Outcome::Acknowledged(_)));
}

#[tokio::test]
async fn a_request_without_a_body_has_a_length() {
    let server = Server::start(|_| Answer::status(200)).await;
    let shop = Shop::new();
    shop.write("1", "blue", None);
    let relay = shop.relay([Rule::to(server.url())]).await.unwrap();
    server.wait_for(1).await;
    relay.shutdown().await.unwrap();
    let request = server.requests().remove(0);
    assert!(request.body.is_empty());
    assert_eq!(request.headers["content-length"], "0");
}
