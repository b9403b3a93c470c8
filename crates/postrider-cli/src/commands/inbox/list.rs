//! `postrider inbox list` and `postrider inbox show`

use clap::Args;
use postrider::operate::{InboxCursor, InboxItem, InboxPage, InboxQuery, Operator};
use postrider::{Code, Error, Timestamp};
use serde::Serialize;
use uuid::Uuid;

use crate::commands::events::list::time;
use crate::commands::outbox_arg::OutboxArg;
use crate::context::Context;
use crate::failure::Failure;
use crate::operator;
use crate::output::{Align, Table, View};

/// Show the messages that consumers have processed
///
/// Sorted by table, consumer and id of the event: the inbox has no index over the time. A page reads at most 100,000 rows,
/// so with `--since` or `--until` it may be short and still have a next one. In layout `outbox` the table
/// `processed_events` is listed, too.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider inbox list --consumer mail
  postrider inbox list --since 1h --json")]
pub(super) struct List {
    /// Only this consumer group
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Processed at or after this time (RFC 3339), or no longer ago than this (2h)
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Timestamp>,
    /// Processed at or before this time (RFC 3339), or at least this long ago (2h)
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<Timestamp>,
    /// Begin after this message: what the previous page printed as next
    #[arg(long, value_name = "CURSOR")]
    after: Option<InboxCursor>,
    /// Maximum number of messages
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    #[command(flatten)]
    outbox: OutboxArg,
}

/// Show which consumers have processed an event
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider inbox show 01890a5d-ac96-774b-bcce-b302099a8057")]
pub(super) struct Show {
    /// Id of the event
    #[arg(value_name = "ID")]
    id: Uuid,
    #[command(flatten)]
    outbox: OutboxArg,
}

impl List {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        if let (Some(consumer), Some(after)) = (&self.consumer, &self.after)
            && *consumer != after.consumer
        {
            let what = format!("--after is a message of consumer {:?}, not of {consumer:?}", after.consumer);
            return Err(Error::new(Code::ConfigValue, what).into());
        }
        let query = InboxQuery::default()
            .consumer(self.consumer.clone())
            .since(self.since)
            .until(self.until)
            .after(self.after.clone())
            .rows_max(self.limit as usize);
        let page = with_operator(context, &self.outbox, async |operator| operator.list_inbox(&query).await)?;
        let InboxPage { items, next, .. } = page;
        let next = next.map(|next| next.to_string());
        if let Some(next) = &next {
            // A quoted string: the name of a consumer may contain anything.
            context.output.say(format!("there may be more: --after {next:?}"));
        }
        context.output.data(&Found { items, next })
    }
}

impl Show {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let items =
            with_operator(context, &self.outbox, async |operator| operator.find_in_inbox(self.id).await)?;
        context.output.data(&Found { items, next: None })
    }
}

fn with_operator<T>(
    context: &Context,
    outbox: &OutboxArg,
    work: impl AsyncFnOnce(&Operator) -> postrider::Result<T>,
) -> Result<T, Failure> {
    let settings = context.settings()?;
    let (_, outbox) = outbox.one(&settings)?;
    operator::run(outbox, work)
}

#[derive(Serialize)]
struct Found {
    items: Vec<InboxItem>,
    /// Where the next page begins.
    next: Option<String>,
}

impl View for Found {
    fn table(&self) -> Table {
        let columns = [
            ("table", Align::Left),
            ("consumer", Align::Left),
            ("id", Align::Left),
            ("processed", Align::Left),
            ("expires", Align::Left),
        ];
        let mut table =
            Table::new(columns, "no consumer has processed such a message, or it is no longer remembered");
        for item in &self.items {
            table.row([
                item.table.as_str().to_owned(),
                item.consumer.clone(),
                item.id.to_string(),
                item.processed_at.to_string(),
                item.expires_at.to_string(),
            ]);
        }
        table
    }
}
