//! `postrider schemas`

use clap::{Args, Subcommand};
use postrider::encode::schema::{CheckedSchema, Framing, SchemaCheck, SchemaConfig, SchemaEncoder};
use postrider::{Code, Error};
use serde::Serialize;

use crate::config::settings::Encoding;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};
use crate::output::{Align, Table, View};

/// Check the schemas of sinks that encode payloads with them
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider schemas check
  postrider schemas check --sink kafka --json")]
pub struct Schemas {
    #[command(subcommand)]
    command: SchemasCommand,
}

#[derive(Debug, Subcommand)]
enum SchemasCommand {
    Check(Check),
}

/// Read all schema files, and ask the registry whether it knows them
///
/// Registers nothing. A schema that the registry does not know is `new` (no schema of its subject is known), `compatible` or
/// `incompatible`; without `register` a relay does not start with any of them. Exits with code 5 if a relay would not start.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider schemas check            before a deployment
  postrider schemas check --offline  only the files, as `config check` does")]
struct Check {
    /// Only this sink
    #[arg(long, value_name = "NAME")]
    sink: Option<String>,
    /// Do not ask the registry
    #[arg(long)]
    offline: bool,
}

impl Schemas {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let SchemasCommand::Check(command) = &self.command;
        let settings = context.settings()?;
        let mut found = Found { schemas: Vec::new() };
        let mut errors = Vec::new();
        block_on(Threads::One, async {
            for (name, sink) in &settings.sinks {
                let Encoding::Schema(config) = &sink.encoding else { continue };
                if command.sink.as_ref().is_none_or(|only| only == name) {
                    match rows(name, config, command.offline).await {
                        Ok(rows) => found.schemas.extend(rows),
                        Err(error) => errors.push(error.within(&format!("sink {name:?}"))),
                    }
                }
            }
            Ok(())
        })?;
        if !errors.is_empty() {
            return Err(Failure::Errors(errors));
        }
        if let Some(name) = command.sink.as_ref().filter(|_| found.schemas.is_empty()) {
            let what = format!("there is no sink {name:?} with schemas");
            let hint = "`postrider config show` lists the sinks; without --sink all are checked";
            return Err(Error::new(Code::ConfigValue, what)
                .with_effect("nothing was checked")
                .with_hint(hint)
                .into());
        }
        context.output.data(&found)?;
        match found.schemas.iter().any(|schema| schema.refuses_start) {
            true => Err(Failure::Reported(Exit::Unhealthy)),
            false => Ok(()),
        }
    }
}

async fn rows(sink: &str, config: &SchemaConfig, offline: bool) -> postrider::Result<Vec<Row>> {
    let mut config = config.clone();
    let register = config.registry.as_ref().is_some_and(|registry| registry.register);
    if offline {
        // Without ids there are no frames with ids, and files are read without them.
        config.framing = Some(config.effective_framing()).filter(|framing| *framing != Framing::Confluent);
        config.registry = None;
    }
    let checked = SchemaEncoder::open(&config)?.check().await?;
    Ok(checked.into_iter().map(|schema| Row::new(sink, schema, register)).collect())
}

#[derive(Serialize)]
#[serde(transparent)]
struct Found {
    schemas: Vec<Row>,
}

/// A schema of a sink.
#[derive(Serialize)]
struct Row {
    sink: String,
    /// `null` for the envelope.
    #[serde(rename = "type")]
    event_type: Option<String>,
    namespace: Option<String>,
    file: Option<String>,
    subject: String,
    state: &'static str,
    id: Option<u32>,
    version: Option<u32>,
    /// The registry's words about an incompatible schema.
    reason: Option<String>,
    /// A relay would not start with it.
    refuses_start: bool,
}

impl Row {
    fn new(sink: &str, schema: CheckedSchema, register: bool) -> Self {
        let CheckedSchema { event_type, namespace, file, subject, registry, .. } = schema;
        let (state, id, version, reason, refuses_start) = match registry {
            None => ("readable", None, None, None, false),
            Some(SchemaCheck::Known { id, version }) => ("known", Some(id), Some(version), None, false),
            Some(SchemaCheck::NewSubject) => ("new", None, None, None, !register),
            Some(SchemaCheck::Compatible) => ("compatible", None, None, None, !register),
            Some(SchemaCheck::Incompatible(words)) => ("incompatible", None, None, Some(words), true),
            Some(_) => ("unknown", None, None, None, true),
        };
        let file = file.map(|file| file.display().to_string());
        let sink = sink.to_owned();
        Self { sink, event_type, namespace, file, subject, state, id, version, reason, refuses_start }
    }
}

impl View for Found {
    fn table(&self) -> Table {
        let columns = [
            ("sink", Align::Left),
            ("type", Align::Left),
            ("file", Align::Left),
            ("subject", Align::Left),
            ("state", Align::Left),
            ("id", Align::Right),
            ("reason", Align::Left),
        ];
        let mut table = Table::new(columns, "no sink has an encoder with schemas");
        for schema in &self.schemas {
            table.row([
                schema.sink.clone(),
                schema.event_type.clone().unwrap_or_else(|| "(envelope)".into()),
                schema.file.clone().unwrap_or_default(),
                schema.subject.clone(),
                schema.state.to_owned(),
                schema.id.map(|id| id.to_string()).unwrap_or_default(),
                schema.reason.clone().unwrap_or_default(),
            ]);
        }
        table
    }
}
