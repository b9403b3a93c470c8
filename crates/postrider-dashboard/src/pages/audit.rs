//! Who changed what, and why.

use askama::Template;
use postrider::Timestamp;
use postrider::operate::{AuditEntry, AuditQuery};

use crate::request::{Cx, query_of};
use crate::respond::{Answer, Failure, PageContext, page};
use crate::words::{When, grouped};

const PAGE_ROWS: usize = 50;

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    page: PageContext,
    subscriptions: Vec<String>,
    subscription: String,
    rows: Vec<Row>,
    next: Option<String>,
    is_first: bool,
}

struct Row {
    entry: AuditEntry,
    when: When,
    events: String,
}

pub(crate) async fn list(cx: Cx) -> Answer {
    let outbox = cx.outbox()?;
    let store = outbox.store().await?;
    let before = match cx.query("before") {
        None => None,
        Some(text) => {
            Some(text.parse().map_err(|_| Failure::wrong("before: this is not the id of a command."))?)
        }
    };
    let subscription = cx.query("subscription").unwrap_or_default().to_owned();
    let query = AuditQuery::default()
        .subscription(Some(subscription.clone()).filter(|name| !name.is_empty()))
        .before(before)
        .commands_max(PAGE_ROWS + 1);
    let mut found = store.list_audit(query).await?;
    let has_more = found.len() > PAGE_ROWS;
    found.truncate(PAGE_ROWS);
    let context = cx.page_context();
    let next = found.last().filter(|_| has_more).map(|last| {
        let command = last.command.to_string();
        let query = query_of(&[("subscription", &subscription), ("before", &command)]);
        format!("{}/audit?{query}", context.outbox_path)
    });
    let now = Timestamp::now();
    let row =
        |entry: AuditEntry| Row { when: When::new(entry.made_at, now), events: grouped(entry.events), entry };
    page(&AuditPage {
        page: context,
        subscriptions: store.subscription_names().await?,
        subscription,
        rows: found.into_iter().map(row).collect(),
        next,
        is_first: before.is_none(),
    })
}
