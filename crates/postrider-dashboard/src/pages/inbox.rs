//! What consumers have processed.

use askama::Template;
use postrider::Timestamp;
use postrider::operate::InboxQuery;

use crate::filters::time;
use crate::request::{Cx, query_of};
use crate::respond::{Answer, Failure, PageContext, page};
use crate::words::When;

const PAGE_ROWS: usize = 50;

#[derive(Template)]
#[template(path = "inbox.html")]
struct InboxPage {
    page: PageContext,
    consumer: String,
    since: String,
    until: String,
    rows: Vec<Row>,
    next: Option<String>,
    is_first: bool,
}

struct Row {
    consumer: String,
    id: String,
    table: &'static str,
    processed: When,
    expires: When,
}

pub(crate) async fn list(cx: Cx) -> Answer {
    let outbox = cx.outbox()?;
    let operator = cx.operator(&outbox).await?;
    let text = |name| cx.query(name).unwrap_or_default().to_owned();
    let (consumer, since, until) = (text("consumer"), text("since"), text("until"));
    let now = Timestamp::now();
    let after = match cx.query("after") {
        None => None,
        Some(text) => {
            Some(text.parse().map_err(|_| Failure::wrong("after: this is not a place in the list."))?)
        }
    };
    let is_first = after.is_none();
    let query = InboxQuery::default()
        .consumer(Some(consumer.clone()).filter(|name| !name.is_empty()))
        .since(time("since", &since, now)?)
        .until(time("until", &until, now)?)
        .after(after)
        .rows_max(PAGE_ROWS);
    let found = operator.list_inbox(&query).await?;
    let context = cx.page_context();
    let next = found.next.map(|cursor| {
        let pairs = [
            ("consumer", consumer.as_str()),
            ("since", &since),
            ("until", &until),
            ("after", &cursor.to_string()),
        ];
        format!("{}/inbox?{}", context.outbox_path, query_of(&pairs))
    });
    let rows = found.items.into_iter().map(|item| Row {
        consumer: item.consumer,
        id: item.id.to_string(),
        table: item.table.as_str(),
        processed: When::new(item.processed_at, now),
        expires: When::new(item.expires_at, now),
    });
    page(&InboxPage { page: context, consumer, since, until, rows: rows.collect(), next, is_first })
}
