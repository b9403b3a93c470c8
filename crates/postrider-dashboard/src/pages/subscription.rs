//! One subscription: its state, its charts, what it has parked, its relays, and the pause.

use std::time::Duration;

use askama::Template;
use postrider::store::{ParkedState, SubscriptionOverview};

use super::state::{RelayRow, Row, leader};
use crate::chart::Chart;
use crate::filters::Kind;
use crate::login::Role;
use crate::outboxes::{Outbox, Seen};
use crate::request::{Cx, encoded};
use crate::respond::{Answer, Failure, PageContext, page, see_other};
use crate::words::{age, grouped, per_second};

#[derive(Template)]
#[template(path = "subscription.html")]
struct SubscriptionPage {
    page: PageContext,
    live: Live,
    name: String,
    path: String,
    live_query: String,
    audit_query: String,
    day: bool,
    is_paused: bool,
    /// Layouts without positions have no replay.
    can_replay: bool,
}

/// The part that changes while the page is open.
#[derive(Template)]
#[template(path = "subscription_live.html")]
pub(super) struct Live {
    row: Row,
    floor: Option<String>,
    last: String,
    in_flight: Option<String>,
    states: Vec<StateCount>,
    behind: Vec<String>,
    errors: Vec<String>,
    relays: Vec<RelayRow>,
    charts: Vec<String>,
    limits: Option<String>,
    error: Option<String>,
}

/// How many events are in a state.
struct StateCount {
    state: &'static str,
    meaning: &'static str,
    count: String,
    href: String,
}

const fn meaning(state: ParkedState) -> &'static str {
    match state {
        ParkedState::Retry => "failed, tried again later",
        ParkedState::Behind => "wait for an earlier event with their key",
        ParkedState::Held => "their destination is down",
        ParkedState::Dead => "given up; an operator decides",
        ParkedState::Expired => "expired before they could be delivered",
        ParkedState::Unrouted => "no route matches",
        _ => "see the documentation",
    }
}

impl Live {
    /// `None` if there is no such subscription.
    pub(super) fn new(base: &str, outbox: &Outbox, seen: &Seen, name: &str, day: bool) -> Option<Self> {
        let overview = seen.overview.as_deref()?;
        let of = overview.subscriptions.iter().find(|of| of.name == name)?;
        let now = overview.now;
        let relay = leader(of, now);
        let limits = relay.and_then(|relay| {
            let events = relay.facts.events_per_second_max.map(|max| format!("{} events/s", grouped(max)));
            let bytes = relay.facts.bytes_per_second_max.map(|max| format!("{} bytes/s", grouped(max)));
            let limits: Vec<String> = [events, bytes].into_iter().flatten().collect();
            (!limits.is_empty()).then(|| limits.join(" and "))
        });
        let has_positions = outbox.source.admin().layout().is_none();
        let number =
            |position: postrider::Position| grouped(u64::try_from(position.get()).unwrap_or_default());
        let behind =
            [(of.parked.behind_dead, "a dead event"), (of.parked.behind_unrouted, "an unrouted event")];
        Some(Self {
            row: Row::new(base, outbox, of, now),
            floor: has_positions.then(|| number(of.floor)),
            last: number(overview.last),
            in_flight: relay.map(|relay| grouped(relay.facts.in_flight)),
            states: states(base, outbox, of),
            behind: behind
                .into_iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("{} of them wait for {what} of their key.", grouped(count)))
                .collect(),
            errors: of.parked.errors.clone(),
            relays: RelayRow::all(of, now),
            charts: charts(outbox, name, day),
            limits,
            error: seen.error.clone(),
        })
    }
}

fn states(base: &str, outbox: &Outbox, of: &SubscriptionOverview) -> Vec<StateCount> {
    let count = |state: &ParkedState| {
        let count = of.parked.count(*state);
        let kind = if Kind::Dead.states().contains(state) { Kind::Dead } else { Kind::Waiting };
        (count > 0).then(|| StateCount {
            state: state.as_str(),
            meaning: meaning(*state),
            count: grouped(count),
            href: format!(
                "{base}/o/{}/{}?subscription={}&state={}",
                encoded(&outbox.name),
                kind.as_str(),
                encoded(&of.name),
                state.as_str()
            ),
        })
    };
    ParkedState::ALL.iter().filter_map(count).collect()
}

fn charts(outbox: &Outbox, name: &str, day: bool) -> Vec<String> {
    let samples = outbox.history(name, |history| history.samples(day)).unwrap_or_default();
    let span = Duration::from_secs(if day { 24 * 3_600 } else { 3_600 });
    let count = |value: f64| grouped(value.max(0.0) as u64);
    let all = [
        Chart { title: "Delivered per second", value: |of| of.rate, text: per_second },
        Chart {
            title: "Age of the oldest event",
            value: |of| Some(of.oldest),
            text: |seconds| age(Duration::try_from_secs_f64(seconds).unwrap_or_default()),
        },
        Chart { title: "Backlog", value: |of| Some(of.backlog as f64), text: count },
        Chart { title: "Waiting and dead", value: |of| Some(of.parked as f64), text: count },
    ];
    all.iter().map(|chart| chart.figure(&samples, span)).collect()
}

pub(crate) async fn show(cx: Cx) -> Answer {
    let (outbox, name) = (cx.outbox()?, cx.param("subscription").to_owned());
    cx.app.outboxes.seen().await;
    let day = cx.query("span") == Some("day");
    let seen = outbox.seen();
    let Some(live) = Live::new(&cx.app.prefix, &outbox, &seen, &name, day) else {
        return Err(match seen.error {
            Some(error) if seen.overview.is_none() => Failure::wrong(error),
            _ => Failure::not_found("There is no such subscription."),
        });
    };
    let is_paused = live.row.badge.text == "Paused";
    let span = if day { "&span=day" } else { "" };
    page(&SubscriptionPage {
        path: live.row.href.clone(),
        audit_query: format!("subscription={}", encoded(&name)),
        live_query: format!("outbox={}&subscription={}{span}", encoded(&outbox.name), encoded(&name)),
        page: cx.page_context(),
        live,
        name,
        day,
        is_paused,
        can_replay: cx.is(Role::Operator) && outbox.source.admin().layout().is_none(),
    })
}

pub(crate) async fn pause(cx: Cx) -> Answer {
    let (outbox, name) = (cx.outbox()?, cx.param("subscription").to_owned());
    let reason =
        cx.form("reason").ok_or_else(|| Failure::wrong("Write down a reason: others will see it."))?;
    cx.operator(&outbox).await?.pause(&name, reason).await?;
    changed(&cx, &outbox, &name).await
}

pub(crate) async fn resume(cx: Cx) -> Answer {
    let (outbox, name) = (cx.outbox()?, cx.param("subscription").to_owned());
    cx.operator(&outbox).await?.resume(&name).await?;
    changed(&cx, &outbox, &name).await
}

/// Back to the page, which shows the new state.
async fn changed(cx: &Cx, outbox: &Outbox, name: &str) -> Answer {
    outbox.read_now().await?;
    Ok(see_other(&format!("{}/o/{}/subscriptions/{}", cx.app.prefix, encoded(&outbox.name), encoded(name))))
}
