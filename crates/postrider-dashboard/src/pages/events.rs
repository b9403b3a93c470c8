//! The events of an outbox, newest first.

use askama::Template;
use postrider::Timestamp;
use postrider::store::{EventFilter, ListedEvent};

use crate::filters::time;
use crate::login::Role;
use crate::request::{Cx, encoded, query_of};
use crate::respond::{Answer, Failure, PageContext, page};

const PAGE_ROWS: usize = 50;

#[derive(Template)]
#[template(path = "events.html")]
struct EventsPage {
    page: PageContext,
    form: Form,
    events: Vec<Row>,
    next: Option<String>,
    is_first: bool,
    has_states: bool,
    has_keys: bool,
}

#[derive(Default)]
struct Form {
    aggregate: String,
    event_type: String,
    key: String,
    state: String,
    contains: String,
    since: String,
    until: String,
}

impl Form {
    fn read(cx: &Cx) -> Self {
        let text = |name| cx.query(name).unwrap_or_default().to_owned();
        Self {
            aggregate: text("aggregate"),
            event_type: text("type"),
            key: text("key"),
            state: text("state"),
            contains: text("contains"),
            since: text("since"),
            until: text("until"),
        }
    }

    fn pairs(&self) -> [(&'static str, &str); 7] {
        [
            ("aggregate", &self.aggregate),
            ("type", &self.event_type),
            ("key", &self.key),
            ("state", &self.state),
            ("contains", &self.contains),
            ("since", &self.since),
            ("until", &self.until),
        ]
    }

    fn is_empty(&self) -> bool {
        self.pairs().iter().all(|(_, value)| value.is_empty())
    }

    fn filter(&self) -> Result<EventFilter, Failure> {
        let now = Timestamp::now();
        let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let aggregate = match self.aggregate.split_once(':') {
            _ if self.aggregate.is_empty() => None,
            Some((kind, id)) => Some(postrider::Aggregate::new(kind, id)),
            None => return Err(Failure::wrong("aggregate: use TYPE:ID, such as Order:42.")),
        };
        let contains = match self.contains.as_str() {
            "" => None,
            json => {
                let wrong = |e| Failure::wrong(format!("payload: this is not valid JSON: {e}."));
                Some(serde_json::from_str(json).map_err(wrong)?)
            }
        };
        Ok(EventFilter::default()
            .aggregate(aggregate)
            .event_type(text(&self.event_type))
            .key(text(&self.key))
            .state(text(&self.state))
            .contains(contains)
            .since(time("since", &self.since, now)?)
            .until(time("until", &self.until, now)?))
    }
}

struct Row {
    href: String,
    row: String,
    time: String,
    event_type: String,
    aggregate: String,
    state: String,
    attempts: String,
}

impl Row {
    fn new(path: &str, event: ListedEvent) -> Self {
        let aggregate = event.aggregate_type.iter().zip(&event.aggregate_id).next();
        Self {
            href: format!("{path}/events/{}", encoded(&event.row)),
            aggregate: aggregate.map(|(kind, id)| format!("{kind}:{id}")).unwrap_or_default(),
            row: event.row,
            time: event.time.unwrap_or_default(),
            event_type: event.event_type,
            state: event.state.unwrap_or_default(),
            attempts: event.attempts.map(|attempts| attempts.to_string()).unwrap_or_default(),
        }
    }
}

pub(crate) async fn list(cx: Cx) -> Answer {
    let outbox = cx.outbox()?;
    let form = Form::read(&cx);
    // Without this, a viewer could find out a payload by asking again and again.
    if !form.contains.is_empty() && !cx.is(Role::Reader) {
        return Err(Failure::Refused {
            status: axum::http::StatusCode::FORBIDDEN,
            title: "Not allowed",
            what: "Filtering by payload needs the role reader.".to_owned(),
        });
    }
    let admin = outbox.source.admin();
    let has_positions = admin.layout().is_none();
    let before = cx.query("before").map(str::to_owned);
    let filter = form.filter()?.before(before.clone()).events_max(PAGE_ROWS + 1);
    let mut found = admin.list(&filter).await?;
    let has_more = found.len() > PAGE_ROWS;
    found.truncate(PAGE_ROWS);
    let context = cx.page_context();
    let next = found.last().filter(|_| has_more).and_then(|last| {
        let mut pairs = form.pairs().to_vec();
        match (has_positions, &last.time) {
            (true, _) => pairs.push(("before", &last.row)),
            // Rows without positions: from the time of the last one on. Rows of the same time appear on both pages.
            (false, Some(time)) => {
                pairs.iter_mut().filter(|(name, _)| *name == "until").for_each(|pair| pair.1 = time)
            }
            (false, None) => return None,
        }
        Some(format!("{}/events?{}", context.outbox_path, query_of(&pairs)))
    });
    page(&EventsPage {
        events: found.into_iter().map(|event| Row::new(&context.outbox_path, event)).collect(),
        page: context,
        form,
        next,
        is_first: before.is_none(),
        has_states: !has_positions,
        has_keys: has_positions,
    })
}
