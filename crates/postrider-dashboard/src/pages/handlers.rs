//! The handlers that programs have registered in the database.

use askama::Template;
use postrider::operate::HandlerEntry;
use postrider::{Code, Timestamp};

use crate::request::Cx;
use crate::respond::{Answer, PageContext, page};
use crate::words::When;

#[derive(Template)]
#[template(path = "handlers.html")]
struct HandlersPage {
    page: PageContext,
    rows: Vec<Row>,
    /// Layouts other than `eventlog` register no handlers.
    has_handlers: bool,
}

struct Row {
    handler: String,
    aliases: String,
    event_type: String,
    registered: When,
    since: Option<When>,
}

pub(crate) async fn list(cx: Cx) -> Answer {
    let outbox = cx.outbox()?;
    let found = match outbox.store().await?.handlers().await {
        Err(error) if error.code() == Code::LayoutDiffers => None,
        found => Some(found?),
    };
    let now = Timestamp::now();
    let row = |of: HandlerEntry| Row {
        aliases: of.aliases.join(", "),
        registered: When::new(of.registered_at, now),
        since: When::of(of.since, now),
        handler: of.handler,
        event_type: of.event_type,
    };
    page(&HandlersPage {
        page: cx.page_context(),
        has_handlers: found.is_some(),
        rows: found.unwrap_or_default().into_iter().map(row).collect(),
    })
}
