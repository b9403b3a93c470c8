//! The first page: a row per subscription.

use askama::Template;

use super::state::{Row, Totals};
use crate::App;
use crate::outboxes::Seen;
use crate::request::Cx;
use crate::respond::{Answer, PageContext, page};

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    page: PageContext,
    live: Live,
}

/// The part that changes while the page is open.
#[derive(Template)]
#[template(path = "overview_live.html")]
pub(super) struct Live {
    rows: Vec<Row>,
    totals: Totals,
    /// Databases that do not answer.
    missing: Vec<(String, String)>,
    several: bool,
}

impl Live {
    pub(super) fn new(app: &App, seen: &[Seen]) -> Self {
        let mut rows = Vec::new();
        for (outbox, seen) in app.outboxes.all().iter().zip(seen) {
            if let Some(overview) = &seen.overview {
                let of = overview.subscriptions.iter();
                rows.extend(of.map(|of| Row::new(&app.prefix, outbox, of, overview.now)));
            }
        }
        let missing = seen.iter().filter_map(|seen| Some((seen.name.clone(), seen.error.clone()?))).collect();
        Self { totals: Totals::of(seen, &rows), rows, missing, several: seen.len() > 1 }
    }
}

pub(crate) async fn show(cx: Cx) -> Answer {
    let seen = cx.app.outboxes.seen().await;
    page(&OverviewPage { page: cx.page_context(), live: Live::new(&cx.app, &seen) })
}
