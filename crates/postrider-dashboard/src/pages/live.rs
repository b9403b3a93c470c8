//! What open pages receive: the part of the page that changes, whenever there is something new.

use std::convert::Infallible;

use askama::Template;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream;

use super::{overview, subscription};
use crate::outboxes::Viewer;
use crate::request::Cx;
use crate::respond::Answer;
use std::sync::Arc;
use tokio::sync::watch;

/// A stream ends after this many messages, and the browser connects again: by then its session may have ended.
const MESSAGES_MAX: usize = 900;

struct Page {
    cx: Cx,
    changed: watch::Receiver<u64>,
    sent: usize,
    last: Option<Arc<str>>,
    _viewer: Viewer,
}

pub(crate) async fn stream(cx: Cx) -> Answer {
    let (viewer, changed) = cx.app.outboxes.open_page();
    let page = Page { cx, changed, sent: 0, last: None, _viewer: viewer };
    let messages = stream::unfold(page, |mut page| async move {
        loop {
            if page.sent >= MESSAGES_MAX || page.changed.changed().await.is_err() {
                return None;
            }
            // A person who logged out, or whose session ended, sees nothing more.
            page.cx.cookie.as_deref().and_then(|cookie| page.cx.app.sessions.person(cookie))?;
            page.sent += 1;
            let fragment = page.fragment().await;
            if let Some(fragment) =
                fragment.filter(|fragment| page.last.as_deref() != Some(fragment.as_str()))
            {
                page.last = Some(fragment.as_str().into());
                let message = Event::default().event("page").data(fragment);
                return Some((Ok::<_, Infallible>(message), page));
            }
        }
    });
    Ok(Sse::new(messages).keep_alive(KeepAlive::default()).into_response())
}

impl Page {
    async fn fragment(&self) -> Option<String> {
        let app = &self.cx.app;
        match (self.cx.query("outbox"), self.cx.query("subscription")) {
            (Some(outbox), Some(subscription)) => {
                let outbox = app.outboxes.get(outbox)?;
                let day = self.cx.query("span") == Some("day");
                subscription::Live::new(&app.prefix, &outbox, &outbox.seen(), subscription, day)?
                    .render()
                    .ok()
            }
            _ => overview::Live::new(app, &app.outboxes.seen().await).render().ok(),
        }
    }
}
