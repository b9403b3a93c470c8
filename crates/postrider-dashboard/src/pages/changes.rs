//! A change of parked events: count, reason, confirmation, progress, result.

use std::collections::BTreeMap;

use askama::Template;
use axum::http::header::{HeaderName, HeaderValue};
use postrider::Timestamp;
use postrider::operate::{ParkedAction, ParkedCount, ParkedFilter};

use crate::filters::{Kind, ParkedForm};
use crate::pages::parked::selected;
use crate::plans::{self, Outcome, Part, Plan, Stage, Work};
use crate::request::Cx;
use crate::respond::{Answer, Failure, PageContext, page, see_other};
use crate::words::{counted, grouped};

/// Counting stops here, as in the command line.
const COUNT_MAX: u64 = 100_000;

const ACTIONS: [(ParkedAction, &str, &str); 4] = [
    (ParkedAction::Retry, "Retry", "retried"),
    (ParkedAction::Skip, "Skip", "skipped"),
    (ParkedAction::Discard, "Discard", "discarded"),
    (ParkedAction::Kill, "Give up", "given up"),
];

#[derive(Template)]
#[template(path = "change.html")]
struct ChangePage {
    page: PageContext,
    verb: &'static str,
    done: &'static str,
    what_happens: &'static str,
    path: String,
    back: String,
    /// To confirm.
    parts: Vec<(String, String, String)>,
    is_counted: bool,
    nothing: bool,
    is_running: bool,
    is_done: bool,
    outcomes: Vec<Shown>,
    failed: bool,
    out_of_order: bool,
}

/// The result in one subscription, with the differences to what was counted.
struct Shown {
    subscription: String,
    counted: String,
    changed: String,
    notes: Vec<String>,
    error: Option<String>,
    /// Of what was counted, in percent.
    percent: u64,
}

/// What was selected: `action`, and ticked rows or the whole filter.
pub(crate) async fn count(cx: Cx) -> Answer {
    let outbox = cx.outbox()?;
    let kind =
        cx.form("kind").and_then(Kind::from_word).ok_or_else(|| Failure::wrong("The form is incomplete."))?;
    let action =
        cx.form("action").and_then(|word| ACTIONS.iter().find(|(action, ..)| action.as_str() == word));
    let (action, ..) = *action.ok_or_else(|| Failure::wrong("The form is incomplete."))?;
    let operator = cx.operator(&outbox).await?;
    let known = operator.store().subscription_names().await?;
    let form = ParkedForm::read(&cx.form);
    let ticked = cx.form_all("row");
    let selections: Vec<(String, ParkedFilter)> = match cx.form("scope") {
        Some("all") => {
            let filter = form.filter(kind, Timestamp::now())?;
            selected(&known, &form.subscription)?.into_iter().map(|name| (name, filter.clone())).collect()
        }
        _ if ticked.is_empty() => {
            return Err(Failure::wrong("No event is selected. Tick some, or choose all that match."));
        }
        _ => {
            let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for (row, name) in ticked.iter().filter_map(|value| value.split_once('/')) {
                rows.entry(name.to_owned()).or_default().push(row.to_owned());
            }
            let filter = |rows| ParkedFilter::default().states(kind.states().to_vec()).events(rows);
            rows.into_iter()
                .filter(|(name, _)| known.contains(name))
                .map(|(name, rows)| (name, filter(rows)))
                .collect()
        }
    };
    let mut parts = Vec::new();
    for (subscription, filter) in selections {
        let counted = operator.count(std::slice::from_ref(&subscription), &filter, COUNT_MAX).await?;
        if counted.events > 0 {
            parts.push(Part { subscription, filter, counted });
        }
    }
    let back = format!("/{}?{}", kind.as_str(), form.query());
    let out_of_order = cx.form("out_of_order").is_some();
    let work = Work::Parked { action, out_of_order, parts };
    let plan = cx.app.plans.add(&outbox.name, cx.audit_name(), work, back);
    Ok(see_other(&path(&cx.page_context(), &plan)))
}

fn path(page: &PageContext, plan: &Plan) -> String {
    format!("{}/changes/{}", page.outbox_path, plan.id)
}

fn plan_of(cx: &Cx) -> Result<std::sync::Arc<Plan>, Failure> {
    let plan = cx.app.plans.get(cx.param("outbox"), cx.param("change"), &cx.audit_name());
    plan.ok_or_else(|| Failure::not_found("This change is not known: it is old, or another person's."))
}

pub(crate) async fn confirm(cx: Cx) -> Answer {
    let (outbox, plan) = (cx.outbox()?, plan_of(&cx)?);
    let reason = cx
        .form("reason")
        .ok_or_else(|| Failure::wrong("Write down a reason: it is kept in the audit trail."))?;
    plans::confirm(&plan, outbox, reason.to_owned())?;
    Ok(see_other(&path(&cx.page_context(), &plan)))
}

pub(crate) async fn show(cx: Cx) -> Answer {
    let plan = plan_of(&cx)?;
    let context = cx.page_context();
    let stage = plan.stage();
    let (verb, done, what_happens, out_of_order) = match &plan.work {
        Work::Parked { action, out_of_order, .. } => {
            let words = ACTIONS.iter().find(|(known, ..)| known == action);
            let (_, verb, done) = words.copied().unwrap_or((*action, "Change", "changed"));
            (verb, done, consequence(*action), *out_of_order)
        }
        Work::Replay { .. } => (
            "Replay",
            "replayed",
            "They are delivered again, in order per key, and their messages have the header postrider-redelivery: replay.",
            false,
        ),
    };
    let parts: Vec<(String, String, String)> = match &plan.work {
        Work::Parked { parts, .. } => {
            let part =
                |part: &Part| (part.subscription.clone(), counted(part.counted), part.filter.description());
            parts.iter().map(part).collect()
        }
        Work::Replay { subscription, filter, planned, .. } => match planned.events() {
            ParkedCount { events: 0, at_least: false, .. } => Vec::new(),
            events => vec![(subscription.clone(), counted(events), filter.description())],
        },
    };
    let (is_running, outcomes) = match &stage {
        Stage::Counted { .. } => (false, Vec::new()),
        Stage::Running { outcomes } => (true, outcomes.clone()),
        Stage::Done { outcomes } => (false, outcomes.clone()),
    };
    let mut response = page(&ChangePage {
        path: path(&context, &plan),
        back: format!("{}{}", context.outbox_path, plan.back),
        page: context,
        verb,
        done,
        what_happens,
        nothing: parts.is_empty(),
        parts,
        is_counted: matches!(stage, Stage::Counted { .. }),
        is_running,
        is_done: matches!(stage, Stage::Done { .. }),
        failed: outcomes.iter().any(|outcome| outcome.error.is_some()),
        outcomes: outcomes.iter().map(|outcome| shown(outcome, done, is_running)).collect(),
        out_of_order,
    })?;
    if is_running {
        // Works without JavaScript.
        response.headers_mut().insert(HeaderName::from_static("refresh"), HeaderValue::from_static("1"));
    }
    Ok(response)
}

/// What the change means for the events, before it is confirmed.
const fn consequence(action: ParkedAction) -> &'static str {
    match action {
        ParkedAction::Retry => "They are delivered as soon as possible, with all their attempts again.",
        ParkedAction::Skip => "This subscription never delivers them. Later events with their keys continue.",
        ParkedAction::Discard => {
            "This subscription never delivers them. Other subscriptions are not affected."
        }
        _ => "They are dead until an operator retries or discards them.",
    }
}

fn shown(outcome: &Outcome, done: &str, is_running: bool) -> Shown {
    let changed = outcome.changed;
    let mut notes = Vec::new();
    if outcome.is_waiting {
        notes.push("It waits until a relay has delivered what was added. More follow then.".to_owned());
    }
    if changed.moved_on > 0 {
        notes.push(format!(
            "{} were not {done}: later events with their key may have been delivered. Select them again with \"also out of \
             order\" to deliver them anyway.",
            grouped(changed.moved_on)
        ));
    }
    if changed.not_applicable > 0 {
        notes.push(format!(
            "{} were not {done}: their state does not allow it, or another person or the relay changed them meanwhile.",
            grouped(changed.not_applicable)
        ));
    }
    let touched = changed.changed + changed.moved_on + changed.not_applicable;
    if !is_running
        && outcome.error.is_none()
        && !outcome.counted.at_least
        && touched != outcome.counted.events
    {
        notes.push(format!(
            "{} were counted before; {} still matched when the change ran.",
            grouped(outcome.counted.events),
            grouped(touched)
        ));
    }
    Shown {
        subscription: outcome.subscription.clone(),
        counted: counted(outcome.counted),
        changed: grouped(changed.changed),
        percent: (touched * 100).checked_div(outcome.counted.events.max(1)).unwrap_or(0).min(100),
        notes,
        error: outcome.error.clone(),
    }
}
