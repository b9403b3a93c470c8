//! What pages show, on both kinds of databases.

use postrider::Event;
use postrider::ledger::ParkedState;
use postrider_dashboard::Role;

use crate::client::{Client, serve, serve_with};
use crate::outbox::{TestOutbox, dead, order};

async fn every_page_tells_its_part(outbox: TestOutbox) {
    let events =
        vec![(order(1), ParkedState::Dead), (order(2), ParkedState::Retry), (order(3), ParkedState::Held)];
    outbox.park("mail", events).await;
    let served = serve(outbox.source()).await;
    let client = Client::of(&served, Role::Operator).await;
    let overview = client.page("/").await;
    for text in ["mail", "No relay", "/o/shop/dead?subscription=mail", "said &#60;b&#62;no&#60;/b&#62;"] {
        assert!(overview.contains(text), "{text}: {overview}");
    }
    let subscription = client.page("/o/shop/subscriptions/mail").await;
    for text in ["given up; an operator decides", "their destination is down", "Pause", "replay", "<svg"] {
        assert!(subscription.contains(text), "{text}: {subscription}");
    }
    let dead = client.page("/o/shop/dead").await;
    assert!(
        dead.contains("1 event matches") && dead.contains("Order/1") && !dead.contains("Order/2"),
        "{dead}"
    );
    let waiting = client.page("/o/shop/waiting?state=held").await;
    assert!(waiting.contains("Order/3") && !waiting.contains("Order/2"), "{waiting}");
    let event = client.page("/o/shop/events/1").await;
    for text in ["dead: given up", "order.placed", "after 3 attempts", "written", "Show payload"] {
        assert!(event.contains(text), "{text}: {event}");
    }
    let events = client.page("/o/shop/events?key=Order%2F2").await;
    assert!(events.contains("/o/shop/events/2") && !events.contains("/o/shop/events/1\""), "{events}");
    for (path, empty) in [
        ("/o/shop/audit", "No change yet"),
        ("/o/shop/inbox", "No message"),
        ("/o/shop/handlers", "No list of handlers"),
        ("/doctor", "No checks"),
        ("/o/shop/events?type=other", "No event matches"),
        ("/o/shop/dead?key=other", "None matches this filter"),
        ("/o/shop/events/4711", "4711"),
    ] {
        assert!(client.page(path).await.contains(empty), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_tells_its_part_on_sqlite() {
    every_page_tells_its_part(TestOutbox::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_tells_its_part_on_postgres() {
    let Some(outbox) = TestOutbox::postgres("dashboard_pages").await else { return };
    every_page_tells_its_part(outbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_outbox_says_what_to_do_next() {
    let served = serve(TestOutbox::sqlite().await.source()).await;
    let page = Client::of(&served, Role::Viewer).await.page("/").await;
    assert!(page.contains("No subscription yet") && page.contains("postrider relay"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_and_payloads_are_shown_exactly_and_do_nothing() {
    let hostile = "<script>alert('x')</script>\"'&";
    let large = format!("{{\"text\":\"{}\",\"n\":9223372036854775808}}", "ä".repeat(500_000));
    let outbox = TestOutbox::sqlite().await;
    let events = vec![
        (Event::new(hostile, "</pre><script>alert(1)</script>").with_key(hostile), ParkedState::Dead),
        (Event::new("large", large.clone()), ParkedState::Dead),
        (Event::new("bytes", vec![0xff_u8, 0x00, 0x1b]), ParkedState::Dead),
    ];
    outbox.park("ma/il <b>&\"'", events).await;
    let served = serve(outbox.source()).await;
    let client = Client::of(&served, Role::Operator).await;
    let subscription = "/o/shop/subscriptions/ma%2Fil%20%3Cb%3E%26%22%27";
    for path in ["/", "/o/shop/dead", "/o/shop/events", "/o/shop/events/1", subscription] {
        let page = client.page(path).await;
        assert!(!page.contains("<script>alert") && !page.contains("<b>&"), "{path}: {page}");
        assert!(page.contains("&#60;b&#62;") || page.contains("&#60;script&#62;"), "{path}: {page}");
    }
    let page = client.post("/o/shop/events/1/payload", &[]).await.body;
    assert!(page.contains("&#60;/pre&#62;&#60;script&#62;alert(1)"), "{page}");
    let page = client.post("/o/shop/events/2/payload", &[]).await.body;
    assert!(page.contains(&"ä".repeat(500_000)) && page.contains("9223372036854775808"), "1 MiB is shown");
    let page = client.post("/o/shop/events/3/payload", &[]).await.body;
    assert!(page.contains("ff 00 1b"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dashboard_under_a_prefix_has_links_and_cookies_of_that_prefix() {
    let outbox = TestOutbox::sqlite().await;
    outbox.park("mail", dead(1)).await;
    let served = crate::client::serve_nested(outbox.source(), "/ops/events").await;
    let client = Client::new(&served);
    let answer = client
        .post("/ops/events/login", &[("secret", crate::client::ROLES[2].2), ("next", "/o/shop/dead")])
        .await;
    assert_eq!((answer.status, answer.location()), (303, "/ops/events/o/shop/dead"));
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.contains("; Path=/ops/events;"), "{cookie}");
    let client = Client { cookie: Some(cookie.split(';').next().unwrap().to_owned()), ..client };
    for path in ["/ops/events", "/ops/events/o/shop/dead", "/ops/events/o/shop/events/1"] {
        let page = client.page(path).await;
        let links = page.split("href=\"").skip(1).chain(page.split("action=\"").skip(1));
        for link in links.map(|rest| rest.split('"').next().unwrap()).filter(|link| !link.starts_with('#')) {
            assert!(link == "/ops/events" || link.starts_with("/ops/events/"), "{path}: {link}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_gone_is_reported_and_the_page_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let admin = postrider::store::admin::SqliteAdmin::new(folder.path().join("none.db"), None).unwrap();
    let served = serve_with(admin, |dashboard| dashboard).await;
    let client = Client::of(&served, Role::Viewer).await;
    let page = client.page("/").await;
    assert!(page.contains("role=\"alert\"") && page.contains("shop"), "{page}");
    assert_eq!(client.get("/o/shop/dead").await.status, 503);
}
