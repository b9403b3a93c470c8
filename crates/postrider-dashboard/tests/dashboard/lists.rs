//! Pages of lists.

use postrider_dashboard::Role;

use crate::client::{Client, attribute, serve};
use crate::outbox::{TestOutbox, dead};

/// Follows the links to the next page, and returns every event that was listed.
async fn all(client: &Client, first: &str) -> Vec<String> {
    let mut path = first.to_owned();
    let mut found = Vec::new();
    loop {
        let page = client.page(&path).await;
        let rows = page.split("<th scope=\"row\"><a href=\"").skip(1);
        found.extend(rows.map(|rest| rest.split('"').next().unwrap().to_owned()));
        match attribute(&page, "rel=\"next\" href=\"") {
            Some(next) => path = next.replace("&#38;", "&"),
            None => return found,
        }
    }
}

async fn every_event_is_on_one_page(outbox: TestOutbox) {
    outbox.park("mail", dead(120)).await;
    outbox.park("web", dead(30)).await;
    let served = serve(outbox.source()).await;
    let client = Client::of(&served, Role::Viewer).await;
    for (path, expected) in
        [("/o/shop/dead?", 150), ("/o/shop/dead?subscription=mail&", 120), ("/o/shop/events?", 150)]
    {
        let found = all(&client, path.trim_end_matches(['?', '&'])).await;
        assert_eq!(found.len(), expected, "{path}");
        if path.contains("events") || path.contains("mail") {
            let mut unique = found.clone();
            unique.sort();
            unique.dedup();
            assert_eq!(unique.len(), expected, "{path}: each once");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_is_on_one_page_on_sqlite() {
    every_event_is_on_one_page(TestOutbox::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_is_on_one_page_on_postgres() {
    let Some(outbox) = TestOutbox::postgres("dashboard_lists").await else { return };
    every_event_is_on_one_page(outbox).await;
}
