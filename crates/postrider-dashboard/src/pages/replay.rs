//! Delivering finished events of a subscription again.

use askama::Template;
use postrider::Timestamp;
use postrider::operate::ReplayFilter;

use crate::filters::{position, time};
use crate::plans::Work;
use crate::request::{Cx, encoded};
use crate::respond::{Answer, Failure, PageContext, page, see_other};

#[derive(Template)]
#[template(path = "replay.html")]
struct ReplayPage {
    page: PageContext,
    subscription: String,
    path: String,
}

pub(crate) async fn form(cx: Cx) -> Answer {
    let outbox = cx.outbox()?;
    let context = cx.page_context();
    let subscription = cx.param("subscription").to_owned();
    if !cx.operator(&outbox).await?.store().subscription_names().await?.contains(&subscription) {
        return Err(Failure::not_found("There is no such subscription."));
    }
    let path = format!("{}/subscriptions/{}", context.outbox_path, encoded(&subscription));
    page(&ReplayPage { page: context, subscription, path })
}

pub(crate) async fn count(cx: Cx) -> Answer {
    let outbox = cx.outbox()?;
    let subscription = cx.param("subscription").to_owned();
    let now = Timestamp::now();
    let text = |name| cx.form(name).unwrap_or_default();
    let filter = ReplayFilter::default()
        .since(time("since", text("since"), now)?)
        .until(time("until", text("until"), now)?)
        .from(position("from", text("from"))?)
        .to(position("to", text("to"))?)
        .event_type(cx.form("type").map(str::to_owned))
        .key(cx.form("key").map(str::to_owned));
    if filter == ReplayFilter::default() && cx.form("all").is_none() {
        return Err(Failure::wrong("No event is selected. Fill in a filter, or tick all finished events."));
    }
    let events_per_second = match cx.form("events_per_second") {
        None => None,
        Some(text) => {
            let rate = text.parse().ok().filter(|rate| *rate > 0);
            Some(rate.ok_or_else(|| Failure::wrong("Events per second: use a number from 1 on."))?)
        }
    };
    let planned = cx.operator(&outbox).await?.plan_replay(&subscription, &filter).await?;
    let back = format!("/subscriptions/{}", encoded(&subscription));
    let work = Work::Replay { subscription, filter, planned, events_per_second };
    let plan = cx.app.plans.add(&outbox.name, cx.audit_name(), work, back);
    Ok(see_other(&format!("{}/changes/{}", cx.page_context().outbox_path, plan.id)))
}
