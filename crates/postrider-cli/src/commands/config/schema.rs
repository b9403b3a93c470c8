//! `postrider config schema`

use clap::Args;

use crate::config::json_schema;
use crate::config::schema::Schema;
use crate::context::Context;
use crate::failure::Failure;
use crate::pages;

const EXAMPLES: &str = "Examples:
  postrider config schema > postrider.schema.json   for editors
  postrider config schema --markdown                every key, for people";

/// Print the JSON Schema of the configuration
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct SchemaCommand {
    /// Print the documentation page instead
    #[arg(long)]
    markdown: bool,
}

impl SchemaCommand {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        if self.markdown {
            context.output.text(pages::config(Schema::postrider()))
        } else {
            context.output.json(&json_schema::document(Schema::postrider()))
        }
    }
}
