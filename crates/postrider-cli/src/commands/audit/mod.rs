//! `postrider audit`

use clap::{Args, Subcommand};
use postrider::operate::{AuditEntry, AuditQuery};
use serde::Serialize;
use uuid::Uuid;

use super::outbox_arg::OutboxArg;
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};
use crate::output::{Align, Table, View};

/// Show who changed what
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider audit list
  postrider audit list --subscription orders --json")]
pub struct Audit {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    List(List),
}

/// Show the changes that operators made, newest first
///
/// The trail is in the table `audit` of Postrider's schema. Commands only insert rows; nothing deletes them.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider audit list --limit 20
  postrider audit list --subscription orders")]
struct List {
    /// Only this subscription
    #[arg(long, value_name = "NAME")]
    subscription: Option<String>,
    /// Only commands before this one
    #[arg(long, value_name = "COMMAND")]
    before: Option<Uuid>,
    /// Maximum number of commands
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    #[command(flatten)]
    outbox: OutboxArg,
}

impl Audit {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let AuditCommand::List(command) = &self.command;
        let settings = context.settings()?;
        let (_, outbox) = command.outbox.one(&settings)?;
        let query = AuditQuery::default()
            .subscription(command.subscription.clone())
            .before(command.before)
            .commands_max(command.limit as usize);
        let commands = block_on(Threads::One, async {
            let store = outbox.database.open().await?;
            let found = store.list_audit(query).await;
            store.close().await;
            Ok(found?)
        })?;
        context.output.data(&Found { commands })
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Found {
    commands: Vec<AuditEntry>,
}

impl View for Found {
    fn table(&self) -> Table {
        let columns = [
            ("time", Align::Left),
            ("by", Align::Left),
            ("database user", Align::Left),
            ("action", Align::Left),
            ("subscription", Align::Left),
            ("selection", Align::Left),
            ("events", Align::Right),
            ("reason", Align::Left),
        ];
        let mut table = Table::new(columns, "no operator has changed anything");
        for entry in &self.commands {
            table.row([
                entry.made_at.to_string(),
                entry.made_by.clone(),
                entry.db_user.clone(),
                entry.action.clone(),
                entry.subscription.clone().unwrap_or_default(),
                entry.selection.clone(),
                entry.events.to_string(),
                entry.reason.clone().unwrap_or_default(),
            ]);
        }
        table
    }
}
