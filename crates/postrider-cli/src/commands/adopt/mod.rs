//! `postrider adopt`

mod report;
mod selection;

use std::collections::BTreeSet;

use clap::Args;
use postrider::adopt::{AdoptSource, Adopted, Adoption, AdoptionRun, Counts, OptionalField};
use postrider::store::{Start, Store};
use postrider::{Code, Error, Outbox};

use self::report::Report;
use self::selection::{NamedOutbox, find_outbox, find_subscription};
use crate::config::Settings;
use crate::config::kind::start;
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::{Interrupts, Threads, block_on};
use crate::output::{Output, Progress, count};

const EXAMPLES: &str = "Examples:
  postrider adopt --from outbox_events --to postrider --dry-run            count the events by state
  postrider adopt --from outbox_events --to postrider --start beginning    move all undelivered events
  postrider adopt --from outbox_events --to postrider --start time:2026-01-31T00:00:00Z
  postrider adopt --from postrider --to outbox_events --start beginning    and back";

/// Move undelivered events from one outbox to another in the same database
///
/// It moves events between a table with a state per row and the layout `postrider`, in either direction. From
/// layout `eventlog` it moves the events that one handler has not handled; `--subscription` names the handler. Both
/// outboxes must be configured and migrated. It counts first; then it takes the lease of the subscription,
/// checks that no other publisher works on the table and that every event fits, and moves the events in
/// order, in batches. Each batch is one transaction that writes the events to the new outbox and settles them
/// in the old one: if it is interrupted, run it again to continue. Nothing is deleted; moved events count as
/// delivered.
///
/// Stop other publishers first, and do not write to the new outbox before the command is done: new events
/// would be delivered before older events with the same key.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Adopt {
    /// Outbox to move events from: its name in the configuration, or its layout
    #[arg(long, value_name = "OUTBOX")]
    from: String,
    /// Outbox to move them to
    #[arg(long, value_name = "OUTBOX")]
    to: String,
    /// Which undelivered events to move: beginning (all), time:RFC3339 (written at or after that time), now (none).
    /// Required if there are any
    #[arg(long, value_name = "START", value_parser = parse_start)]
    start: Option<Start>,
    /// Subscription whose undelivered events to move [default: the only one]
    #[arg(long, value_name = "NAME")]
    subscription: Option<String>,
    /// Fields to drop if the other layout has no column for them: expires_at, action, namespace, producer, headers,
    /// topic, max_attempts
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', value_parser = parse_field)]
    leave_out: Vec<OptionalField>,
    /// Events per transaction; fewer if payloads are large
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    /// Only count the events
    #[arg(long)]
    dry_run: bool,
}

impl Adopt {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        let (from, to) =
            (find_outbox(&settings, "--from", &self.from)?, find_outbox(&settings, "--to", &self.to)?);
        selection::check(from, to)?;
        block_on(Threads::One, async {
            let source = from.outbox.database.admin().open_exclusive().await?;
            let adopted = self.adopt(context.output, &settings, &*source, from, to).await;
            source.close().await;
            adopted
        })
    }

    async fn adopt(
        &self,
        output: Output,
        settings: &Settings,
        source: &dyn AdoptSource,
        from: NamedOutbox<'_>,
        to: NamedOutbox<'_>,
    ) -> Result<(), Failure> {
        let name = find_subscription(settings, source, from, to, self.subscription.as_deref()).await?;
        let Some(of_handler) = source.of_subscription(&name).await? else {
            return self.adopt_subscription(output, settings, source, from, to, &name).await;
        };
        let adopted = self.adopt_subscription(output, settings, &*of_handler, from, to, &name).await;
        of_handler.close().await;
        adopted
    }

    async fn adopt_subscription(
        &self,
        output: Output,
        settings: &Settings,
        source: &dyn AdoptSource,
        from: NamedOutbox<'_>,
        to: NamedOutbox<'_>,
        name: &str,
    ) -> Result<(), Failure> {
        let counts = source.counts(name).await?;
        let report = Report::new(from, to, name, &counts);
        if !output.is_json() || self.dry_run {
            output.data(&report)?;
        }
        if self.dry_run {
            return Ok(());
        }
        let there = to.outbox.database.open().await?;
        let moved = self.copy(output, settings, source, (&*there, to), name, &counts).await;
        there.close().await;
        if output.is_json() {
            output.data(&match &moved {
                Ok(adopted) => report.done(adopted),
                Err(_) => report,
            })?;
        }
        moved.map(|_| ())
    }

    async fn copy(
        &self,
        output: Output,
        settings: &Settings,
        source: &dyn AdoptSource,
        (there, to): (&dyn Store, NamedOutbox<'_>),
        name: &str,
        counts: &Counts,
    ) -> Result<Adopted, Failure> {
        let adoption = Adoption {
            start: self.start,
            leave_out: self.leave_out.clone(),
            batch_events_max: self.batch as usize,
            ..Adoption::of(name)
        };
        let target = to.outbox.database.admin().outbox(Outbox::anonymous().limits(to.outbox.limits.clone()));
        let mut interrupts = Interrupts::listen()?;
        let mut copying = AdoptionRun::begin(source, target, adoption, counts).await?;
        report::print_notes(output, to, counts);
        let only_one = source.notifications().is_some().then_some(name);
        let ended = match subscribe(settings, there, to, copying.total(), only_one).await {
            Ok(()) => move_all(output, &mut copying, &mut interrupts).await,
            Err(failure) => Err(failure),
        };
        let copied = copying.copied();
        if let Err(failure) = ended {
            // The first error is reported; an error of the release would hide it.
            _ = copying.release().await;
            if matches!(failure, Failure::Interrupted) {
                output.say(format!("moved {}; run it again to continue", count(copied, "event")));
            }
            return Err(failure);
        }
        let adopted = copying.finish().await?;
        report::print_result(output, &adopted);
        Ok(adopted)
    }
}

/// Moves batch after batch. Ctrl-C ends it after the batch in progress.
async fn move_all(
    output: Output,
    copying: &mut AdoptionRun<'_>,
    interrupts: &mut Interrupts,
) -> Result<(), Failure> {
    let template = "{bar:30} {percent:>3}%  {pos} of {len} events  {elapsed}, {eta} left";
    let progress = Progress::new(output, Some(copying.total()), template);
    loop {
        let mut is_interrupted = false;
        let more = {
            let batch = copying.next_batch();
            tokio::pin!(batch);
            loop {
                tokio::select! {
                    biased;
                    () = interrupts.next(), if !is_interrupted => is_interrupted = true,
                    more = &mut batch => break more?,
                }
            }
        };
        progress.set(copying.copied(), "");
        match more {
            None => return Ok(()),
            Some(_) if is_interrupted => return Err(Failure::Interrupted),
            Some(_) => {}
        }
    }
}

/// Ensures that a subscription will receive the events: in the layout `postrider`, a subscription that is created later
/// may skip them. The events of a handler, `of_handler`, may reach only one: the others have not missed them.
async fn subscribe(
    settings: &Settings,
    there: &dyn Store,
    to: NamedOutbox<'_>,
    events: u64,
    of_handler: Option<&str>,
) -> Result<(), Failure> {
    if to.outbox.database.admin().layout().is_some() || events == 0 {
        return Ok(());
    }
    let configured: Vec<_> = settings.subscriptions.iter().filter(|(_, of)| of.reads(to.name)).collect();
    let existing = there.overview(0).await?.subscriptions.into_iter().map(|of| of.name);
    let names: BTreeSet<String> =
        existing.chain(configured.iter().map(|(name, _)| (*name).clone())).collect();
    if let Some(handler) = of_handler.filter(|_| names.len() > 1) {
        let what = format!(
            "each subscription of outbox {:?} ({}) would receive the events that handler {handler:?} has not handled",
            to.name,
            names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
        );
        return Err(Error::new(Code::AdoptionRefused, what)
            .with_effect("no event was moved")
            .with_hint("move each handler to a separate outbox, with one subscription and its own schema")
            .into());
    }
    for (name, subscription) in configured {
        there.subscribe(name, subscription.start).await?;
    }
    if !names.is_empty() {
        return Ok(());
    }
    let what = format!("no subscription of outbox {:?} would receive the events", to.name);
    Err(Error::new(Code::SubscriptionUnknown, what)
        .with_hint(format!(
            "configure a subscription with outbox = {:?}, then run this command again",
            to.name
        ))
        .into())
}

fn parse_start(text: &str) -> Result<Start, String> {
    let chosen = start(text).filter(|start| !matches!(start, Start::Position(_)));
    chosen.ok_or_else(|| "use beginning, now or time:RFC3339".to_owned())
}

fn parse_field(text: &str) -> Result<OptionalField, String> {
    let names: Vec<&str> = OptionalField::ALL.iter().map(|field| field.name()).collect();
    let field = OptionalField::ALL.iter().copied().find(|field| field.name() == text);
    field.ok_or_else(|| format!("allowed values: {}", names.join(", ")))
}
