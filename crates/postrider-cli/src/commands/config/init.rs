//! `postrider config init`

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};

use clap::Args;
use clap::builder::PossibleValuesParser;
use postrider::{Code, Error};

use crate::config::schema::Schema;
use crate::config::starter;
use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  postrider config init                      writes postrider.toml
  postrider config init --config shop.toml   writes shop.toml
  postrider config init --layout outbox      for a PostgreSQL table with layout outbox";

/// Write a starter config file
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Init {
    /// Replace an existing file
    #[arg(long)]
    force: bool,

    /// Write it for an outbox with this layout
    #[arg(long, default_value = "postrider", value_parser = layouts())]
    layout: String,
}

fn layouts() -> PossibleValuesParser {
    PossibleValuesParser::new(["postrider"].into_iter().chain(starter::layouts()))
}

impl Init {
    /// Never replaces a file without `--force`, even if it is created concurrently.
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let (path, _) = context.config_path();
        let mut options = OpenOptions::new();
        options.write(true);
        // The user may add secrets later.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        if self.force {
            options.create(true).truncate(true);
        } else {
            options.create_new(true);
        }
        let text = starter::text(Schema::postrider(), &self.layout);
        let written = options.open(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        let shown = path.display();
        written.map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => Error::new(Code::FileExists, format!("{shown} already exists")),
            _ => Error::new(Code::ConfigFile, format!("cannot write {shown}"))
                .with_hint("check the folder and its permissions")
                .with_source(e),
        })?;
        context.output.say(format!("wrote {shown}; next: postrider config check"));
        Ok(())
    }
}
