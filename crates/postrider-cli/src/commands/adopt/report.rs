//! The report of an adoption: events by state, and the result.

use postrider::adopt::{Adopted, Counts};
use postrider::layout::EventField;
use serde::Serialize;

use super::selection::NamedOutbox;
use crate::output::{Align, Output, Table, View, count};

/// Events by state, before and after.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Report {
    from: String,
    to: String,
    subscription: String,
    before: States,
    #[serde(skip_serializing_if = "Option::is_none")]
    moved: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<States>,
}

#[derive(Debug, Clone, Serialize)]
struct States {
    undelivered: u64,
    pending: u64,
    in_flight: u64,
    retrying: u64,
    unrouted: u64,
    given_up: u64,
    delivered: u64,
    oldest: Option<String>,
    newest: Option<String>,
}

impl From<&Counts> for States {
    fn from(counts: &Counts) -> Self {
        Self {
            undelivered: counts.undelivered(),
            pending: counts.pending,
            in_flight: counts.in_flight,
            retrying: counts.retrying,
            unrouted: counts.unrouted,
            given_up: counts.given_up,
            delivered: counts.delivered,
            oldest: counts.oldest.map(|time| time.to_string()),
            newest: counts.newest.map(|time| time.to_string()),
        }
    }
}

impl Report {
    pub(super) fn new(
        from: NamedOutbox<'_>,
        to: NamedOutbox<'_>,
        subscription: &str,
        counts: &Counts,
    ) -> Self {
        Self {
            from: from.name.to_owned(),
            to: to.name.to_owned(),
            subscription: subscription.to_owned(),
            before: counts.into(),
            moved: None,
            after: None,
        }
    }

    pub(super) fn done(self, adopted: &Adopted) -> Self {
        Self { moved: Some(adopted.copied), after: Some((&adopted.counts).into()), ..self }
    }
}

impl View for Report {
    fn table(&self) -> Table {
        let columns = [
            ("outbox", Align::Left),
            ("state", Align::Left),
            ("events", Align::Right),
            ("oldest", Align::Left),
            ("newest", Align::Left),
        ];
        let mut table = Table::new(columns, "");
        let States { oldest, newest, .. } = &self.before;
        let rows = [
            ("undelivered", self.before.undelivered),
            ("  pending", self.before.pending),
            ("  in flight", self.before.in_flight),
            ("  waiting for a retry", self.before.retrying),
            ("  unrouted", self.before.unrouted),
            ("dead", self.before.given_up),
            ("delivered", self.before.delivered),
        ];
        for (index, (state, events)) in rows.into_iter().enumerate() {
            let first = |text: &str| if index == 0 { text.to_owned() } else { String::new() };
            table.row([
                first(&self.from),
                state.to_owned(),
                events.to_string(),
                first(oldest.as_deref().unwrap_or_default()),
                first(newest.as_deref().unwrap_or_default()),
            ]);
        }
        table
    }
}

/// Prints what will not be moved unchanged, before anything is moved.
pub(super) fn print_notes(output: Output, to: NamedOutbox<'_>, counts: &Counts) {
    if counts.given_up > 0 {
        output.say(format!("dead, not moved: {}", count(counts.given_up, "event")));
    }
    match to.outbox.database.admin().layout() {
        Some(layout) if !layout.spec().has_column(EventField::Id) => output.say(format!(
            "{} has no columns for ids and times: each event gets a new id and the time of its new row",
            layout.name()
        )),
        Some(layout) => {
            output.say(format!(
                "{} has no column for times: each event gets the time of its new row",
                layout.name()
            ));
        }
        None => {}
    }
}

/// Prints the result.
pub(super) fn print_result(output: Output, adopted: &Adopted) {
    let Adopted { copied, counts, delivered_elsewhere, .. } = adopted;
    output.say(format!("moved {}; not moved: {counts}", count(*copied, "event")));
    if *delivered_elsewhere > 0 {
        output.say(format!(
            "another publisher delivered {} from this table in the meantime: stop it; some of the moved events may arrive twice",
            count(*delivered_elsewhere, "event")
        ));
    }
}
