//! One event: why it is where it is, its timeline, its fields, and its payload by role.

use askama::Template;
use postrider::operate::{
    AuditEntry, AuditRecord, AuditSearch, EventSelector, Explanation, ParkedFilter, ParkedItem,
};
use postrider::{Event, Timestamp};

use crate::payload::{Shown, shown};
use crate::request::{Cx, encoded};
use crate::respond::{Answer, Failure, PageContext, page};
use crate::words::{When, size};

/// Commands of operators in the timeline.
const HISTORY_MAX: usize = 100;

#[derive(Template)]
#[template(path = "event.html")]
struct EventPage {
    page: PageContext,
    row: String,
    title: String,
    path: String,
    absent: Option<String>,
    fields: Vec<(&'static str, String)>,
    trace: Option<String>,
    explanations: Vec<Explained>,
    timeline: Vec<Moment>,
    payload_size: Option<String>,
    content: Option<Content>,
}

/// What a subscription does with the event.
struct Explained {
    subscription: String,
    href: String,
    sentence: String,
    parked: Option<ParkedItem>,
    next: Option<When>,
}

/// An entry of the timeline.
struct Moment {
    at: Timestamp,
    when: When,
    what: String,
    detail: Option<String>,
    class: &'static str,
}

/// What only a reader sees.
struct Content {
    payload: Shown,
    headers: Vec<(String, String)>,
    action_params: Option<Shown>,
}

pub(crate) async fn show(cx: Cx) -> Answer {
    render(&cx, false).await
}

/// The same page with the payload. A POST, because it writes to the audit trail.
pub(crate) async fn payload(cx: Cx) -> Answer {
    render(&cx, true).await
}

async fn render(cx: &Cx, with_payload: bool) -> Answer {
    let outbox = cx.outbox()?;
    let sought = cx.param("event").to_owned();
    let operator = cx.operator(&outbox).await?;
    let (explained, event) = operator.show(EventSelector::Event(sought.clone())).await?;
    let now = explained.now;
    let context = cx.page_context();
    let row = explained.event.as_ref().map_or(sought.clone(), |of| of.row.clone());
    let mut content = None;
    if with_payload {
        let Some(event) = &event else {
            return Err(Failure::not_found("There is no such event, or it cannot be read."));
        };
        // First the note, then the payload: no person sees one without the other.
        let audit =
            AuditRecord::new(operator.name(), "read-payload", &format!("event {row}"), cx.form("reason"));
        operator.store().note_audit("dashboard", audit).await?;
        content = Some(contents(event, &cx.app.redacted));
    }
    let subscriptions: Vec<String> =
        explained.subscriptions.iter().map(|of| of.subscription.clone()).collect();
    let filter = ParkedFilter::default().events(vec![row.clone()]);
    let parked = match explained.event {
        Some(_) => operator.list(&subscriptions, &filter, subscriptions.len().max(1)).await?,
        None => Vec::new(),
    };
    let search = AuditSearch::default().rows(vec![row.clone()]).found_max(HISTORY_MAX);
    let history = match explained.event {
        Some(_) => operator.store().find_audit(search).await?,
        None => Vec::new(),
    };
    let created = explained.event.as_ref().and_then(|of| of.time);
    let explanations = explained.subscriptions.iter().map(|of| explain(&context, of, &parked, now)).collect();
    let event_type = explained.event.as_ref().and_then(|of| of.event_type.clone());
    page(&EventPage {
        title: event_type.unwrap_or_else(|| format!("Event {row}")),
        path: format!("{}/events/{}", context.outbox_path, encoded(&row)),
        page: context,
        absent: explained.absent.as_ref().map(ToString::to_string),
        fields: event.as_deref().map(|event| fields(&row, event)).unwrap_or_else(|| {
            explained.event.as_ref().map(|of| vec![("Row", of.row.clone())]).unwrap_or_default()
        }),
        trace: event.as_deref().and_then(trace_id),
        timeline: timeline(created, &parked, &history, now),
        payload_size: event.as_deref().map(|event| size(event.payload.len())),
        explanations,
        content,
        row,
    })
}

fn explain(page: &PageContext, of: &Explanation, parked: &[ParkedItem], now: Timestamp) -> Explained {
    let parked = parked.iter().find(|item| item.subscription == of.subscription).cloned();
    Explained {
        subscription: of.subscription.clone(),
        href: format!("{}/subscriptions/{}", page.outbox_path, encoded(&of.subscription)),
        sentence: sentence(of),
        next: parked.as_ref().and_then(|item| When::of(item.next_attempt_at, now)),
        parked,
    }
}

/// The sentence without the name of the subscription, which is above it.
fn sentence(of: &Explanation) -> String {
    let sentence = of.to_string();
    match sentence.strip_prefix(&format!("{}: ", of.subscription)) {
        Some(rest) => rest.to_owned(),
        None => sentence,
    }
}

/// The fields that every role sees.
fn fields(row: &str, event: &Event) -> Vec<(&'static str, String)> {
    let aggregate = event.aggregate.as_ref();
    let action = event.action.as_ref();
    let all = [
        ("Row", Some(row.to_owned())),
        ("Id", Some(event.id.to_string())),
        ("Type", Some(event.event_type.clone())),
        ("Key", event.ordering_key().map(|key| key.into_owned())),
        ("Aggregate", aggregate.map(|of| format!("{}:{}", of.kind, of.id))),
        ("Time", Some(event.time.to_string())),
        ("Topic", event.topic.clone()),
        ("Namespace", event.namespace.clone()),
        ("Producer", event.producer.clone()),
        ("Action", action.map(|of| format!("{} ({})", of.name, of.id))),
        ("Attempts at most", event.max_attempts.map(|max| max.to_string())),
        ("Expires", event.expires_at.map(|at| at.to_string())),
        ("Headers", Some(event.headers.len().to_string()).filter(|_| !event.headers.is_empty())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The trace that wrote the event: a number without content.
fn trace_id(event: &Event) -> Option<String> {
    let id = event.headers.get("traceparent")?.split('-').nth(1)?;
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

fn contents(event: &Event, redacted: &[String]) -> Content {
    let hidden = |name: &str| redacted.contains(&name.to_lowercase());
    let header = |(name, value): (&str, &str)| {
        let value = if hidden(name) { "[redacted]" } else { value };
        (name.to_owned(), value.to_owned())
    };
    Content {
        payload: shown(&event.payload, redacted),
        headers: event.headers.iter().map(header).collect(),
        action_params: event.action.as_ref().map(|action| shown(action.params.as_bytes(), redacted)),
    }
}

fn timeline(
    created: Option<Timestamp>,
    parked: &[ParkedItem],
    history: &[AuditEntry],
    now: Timestamp,
) -> Vec<Moment> {
    let moment =
        |at, what: String, detail, class| Moment { at, when: When::new(at, now), what, detail, class };
    let mut all: Vec<Moment> =
        created.map(|at| moment(at, "written".to_owned(), None, "ok")).into_iter().collect();
    for item in parked {
        let name = &item.subscription;
        if let Some(at) = item.parked_at {
            all.push(moment(at, format!("{name}: parked"), None, "warn"));
        }
        if let Some(at) = item.updated_at {
            let what = match item.attempts {
                0 => format!("{name}: {}", item.state),
                1 => format!("{name}: {} after 1 attempt", item.state),
                attempts => format!("{name}: {} after {attempts} attempts", item.state),
            };
            let class = if item.state == "dead" || item.state == "expired" { "bad" } else { "warn" };
            all.push(moment(at, what, item.last_error.clone(), class));
        }
        if let Some(at) = item.next_attempt_at {
            all.push(moment(at, format!("{name}: next attempt"), None, "off"));
        }
    }
    for entry in history {
        let on = entry.subscription.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        let what = format!("{on}{} by {}", entry.action, entry.made_by);
        all.push(moment(entry.made_at, what, entry.reason.clone(), "off"));
    }
    all.sort_by_key(|moment| moment.at);
    all
}
