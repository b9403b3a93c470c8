//! A viewer never receives a payload, a header of an event or a token: not in a page, not in the stream, not in the log.

use std::io;
use std::sync::{Arc, Mutex};

use postrider_dashboard::Role;
use tracing_subscriber::fmt::MakeWriter;

use crate::client::{Client, ROLES, serve, serve_with};
use crate::outbox::{TestOutbox, dead, order};

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

const PAGES: [&str; 12] = [
    "/",
    "/doctor",
    "/o/shop/events",
    "/o/shop/events?type=order.placed",
    "/o/shop/events/1",
    "/o/shop/dead",
    "/o/shop/waiting",
    "/o/shop/audit",
    "/o/shop/inbox",
    "/o/shop/handlers",
    "/o/shop/subscriptions/mail",
    "/o/shop/subscriptions/mail?span=day",
];

#[tokio::test]
async fn a_viewer_receives_no_payload_and_nobody_a_token() {
    let log = Log::default();
    let subscriber =
        tracing_subscriber::fmt().with_writer(log.clone()).with_max_level(tracing::Level::TRACE).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let outbox = TestOutbox::sqlite().await;
    outbox.park("mail", dead(3)).await;
    let served = serve(outbox.source()).await;
    let operator = Client::of(&served, Role::Operator).await;
    // What an operator does leaves no payload behind either.
    let shown = operator.post("/o/shop/events/1/payload", &[]).await;
    assert!(shown.body.contains("canary-payload") && shown.body.contains("canary-header"), "{}", shown.body);
    for role in [Role::Viewer, Role::Reader, Role::Operator] {
        let client = Client::of(&served, role).await;
        for path in PAGES {
            let page = client.page(path).await;
            assert!(!page.contains("canary"), "{path} {role:?}: {page}");
        }
        for path in ["/live", "/live?outbox=shop&subscription=mail"] {
            let stream = client.stream_until(path, "event: page").await;
            assert!(!stream.contains("canary"), "{path}: {stream}");
        }
    }
    let viewer = Client::of(&served, Role::Viewer).await;
    assert_eq!(viewer.post("/o/shop/events/1/payload", &[]).await.status, 403);
    // Who may not see payloads may not find them out by asking.
    let guess = "/o/shop/events?contains=%7B%22card%22%3A%22canary-payload%22%7D";
    assert_eq!(viewer.get(guess).await.status, 403);
    assert_eq!(Client::of(&served, Role::Reader).await.get(guess).await.status, 200);
    let failed = viewer.post("/login", &[("secret", "canary-wrong-token")]).await;
    assert_eq!(failed.status, 401);
    assert!(!failed.body.contains("canary"));
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("a login to the dashboard failed"), "{log}");
    assert!(!log.contains("canary"), "{log}");
    assert!(ROLES.iter().all(|(_, _, token)| token.starts_with("canary")));
}

#[tokio::test(flavor = "multi_thread")]
async fn looking_at_a_payload_is_in_the_audit_trail() {
    let outbox = TestOutbox::sqlite().await;
    outbox.park("mail", dead(1)).await;
    let served = serve(outbox.source()).await;
    let reader = Client::of(&served, Role::Reader).await;
    assert_eq!(reader.post("/o/shop/events/1/payload", &[]).await.status, 200);
    let audit = reader.page("/o/shop/audit").await;
    assert!(
        audit.contains("read-payload") && audit.contains("rita (dashboard)") && audit.contains("event 1"),
        "{audit}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn redacted_members_are_shown_to_nobody() {
    let outbox = TestOutbox::sqlite().await;
    outbox.write(vec![order(1), order(2).with_header("X-Other", "shown")]).await;
    let served = serve_with(outbox.source(), |dashboard| dashboard.redact(["CARD", "x-secret"])).await;
    let page = Client::of(&served, Role::Operator).await.post("/o/shop/events/2/payload", &[]).await.body;
    assert!(
        page.contains("[redacted]") && page.contains("9223372036854775808") && page.contains("shown"),
        "{page}"
    );
    assert!(!page.contains("canary"), "{page}");
}
