//! `postrider migrate roles`

use clap::Args;

use crate::commands::outbox_arg::OutboxArg;
use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider migrate roles > roles.sql
  postrider migrate roles --outbox shop | psql --set ON_ERROR_STOP=1 shop";

/// Print SQL for least-privilege roles: writer, relay, inbox, viewer, migrator
///
/// It only prints. Run the SQL after `migrate up`, as the owner of the database, then grant the roles to your
/// database users.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Roles {
    #[command(flatten)]
    outbox: OutboxArg,
}

impl Roles {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        let (_, outbox) = self.outbox.one(&settings)?;
        context.output.text(outbox.database.admin().roles_sql()?)
    }
}
