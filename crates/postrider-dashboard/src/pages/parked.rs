//! Events that wait, and dead ones: with filters in the URL, page by page, and with the changes that apply to them.

use askama::Template;
use postrider::operate::{Operator, ParkedFilter, ParkedItem, ParkedQuery};
use postrider::{Result, Timestamp};

use crate::filters::{Kind, ParkedForm};
use crate::request::{Cx, encoded};
use crate::respond::{Answer, Failure, PageContext, page};
use crate::words::{When, bounded};

const PAGE_ROWS: usize = 50;

/// Counting stops here: the page must be fast. A change counts further.
const COUNT_MAX: u64 = 10_000;

#[derive(Template)]
#[template(path = "parked.html")]
struct ParkedPage {
    page: PageContext,
    kind: &'static str,
    form: ParkedForm,
    subscriptions: Vec<String>,
    states: Vec<&'static str>,
    rows: Vec<Row>,
    count: String,
    is_one: bool,
    next: Option<String>,
    is_first: bool,
    /// The filter without a page, for links back.
    query: String,
}

struct Row {
    item: ParkedItem,
    href: String,
    subscription_href: String,
    /// What a tick of this row selects.
    selected: String,
    since: Option<When>,
    next: Option<When>,
}

pub(crate) async fn waiting(cx: Cx) -> Answer {
    list(cx, Kind::Waiting).await
}

pub(crate) async fn dead(cx: Cx) -> Answer {
    list(cx, Kind::Dead).await
}

async fn list(cx: Cx, kind: Kind) -> Answer {
    let outbox = cx.outbox()?;
    let operator = cx.operator(&outbox).await?;
    let form = ParkedForm::read(&cx.query);
    let filter = form.filter(kind, Timestamp::now())?;
    let known = operator.store().subscription_names().await?;
    let wanted = selected(&known, &form.subscription)?;
    let count = operator.count(&wanted, &filter, COUNT_MAX).await?;
    let after = cx.query("after").and_then(|cursor| cursor.split_once('/'));
    let (mut found, has_more) = find(&operator, &wanted, &filter, after).await?;
    let context = cx.page_context();
    let query = form.query();
    let next = found.last().filter(|_| has_more).map(|last| {
        let cursor = encoded(&format!("{}/{}", last.row, last.subscription));
        format!("{}/{}?{query}&after={cursor}", context.outbox_path, kind.as_str())
    });
    let now = Timestamp::now();
    let rows = found
        .drain(..)
        .map(|item| Row {
            href: format!("{}/events/{}", context.outbox_path, encoded(&item.row)),
            subscription_href: format!(
                "{}/subscriptions/{}",
                context.outbox_path,
                encoded(&item.subscription)
            ),
            selected: format!("{}/{}", item.row, item.subscription),
            since: When::of(item.updated_at, now),
            next: When::of(item.next_attempt_at, now),
            item,
        })
        .collect();
    page(&ParkedPage {
        page: context,
        kind: kind.as_str(),
        subscriptions: known,
        states: kind.states().iter().map(|state| state.as_str()).collect(),
        rows,
        count: bounded(count.events, count.at_least),
        is_one: count.events == 1,
        next,
        is_first: after.is_none(),
        query,
        form,
    })
}

/// The subscription of the filter, or all of them.
///
/// # Errors
/// If there is none with this name.
pub(super) fn selected(known: &[String], wanted: &str) -> std::result::Result<Vec<String>, Failure> {
    match wanted {
        "" => Ok(known.to_vec()),
        name if known.iter().any(|known| known == name) => Ok(vec![name.to_owned()]),
        _ => Err(Failure::not_found("There is no such subscription.")),
    }
}

/// One page, subscription by subscription, and whether there are more.
async fn find(
    operator: &Operator,
    subscriptions: &[String],
    filter: &ParkedFilter,
    after: Option<(&str, &str)>,
) -> Result<(Vec<ParkedItem>, bool)> {
    let mut found = Vec::new();
    let rest = subscriptions.iter().skip_while(|name| after.is_some_and(|(_, last)| *name != last));
    for name in rest {
        let row = after.filter(|(_, last)| name == last).map(|(row, _)| row.to_owned());
        let query = ParkedQuery::new(name, filter.clone(), PAGE_ROWS + 1 - found.len()).after(row);
        found.extend(operator.store().list_parked(query).await?);
        if found.len() > PAGE_ROWS {
            break;
        }
    }
    let has_more = found.len() > PAGE_ROWS;
    found.truncate(PAGE_ROWS);
    Ok((found, has_more))
}
