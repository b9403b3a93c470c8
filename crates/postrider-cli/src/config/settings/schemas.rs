//! The keys of encoders with schemas.

use std::collections::BTreeMap;

use postrider::Code;
use postrider::encode::schema::{
    Format, Framing, RegistryAuth, RegistryConfig, SchemaBinding, SchemaConfig, SchemaEncoder,
    SchemaEnvelope, Unbound, UnionRule, UnknownFields,
};

use super::{ConfigTable, Encoding, Settings};
use crate::config::problem::Problem;
use crate::config::value::Value;

pub(super) fn read(table: &ConfigTable<'_>, name: &str) -> Result<SchemaConfig, Problem> {
    let format = match name {
        "avro" => Format::Avro,
        "protobuf" => Format::Protobuf,
        _ => Format::JsonSchema,
    };
    let mut config = SchemaConfig::new(format);
    let envelopes = [("none", SchemaEnvelope::None), ("action_event", SchemaEnvelope::ActionEvent)];
    let framings = [
        ("single-object", Framing::SingleObject),
        ("confluent", Framing::Confluent),
        ("bare", Framing::Bare),
    ];
    config.envelope = optional(table, "envelope", &envelopes)?.unwrap_or_default();
    config.framing = optional(table, "framing", &framings)?;
    let unknown = [("drop", UnknownFields::Drop), ("error", UnknownFields::Error)];
    config.unknown_fields = optional(table, "unknown_fields", &unknown)?.unwrap_or_default();
    let unions = [("best", UnionRule::Best), ("strict", UnionRule::Strict)];
    config.unions = optional(table, "unions", &unions)?.unwrap_or_default();
    let unbound = [("park", Unbound::Park), ("reject", Unbound::Reject)];
    config.unbound = optional(table, "unbound", &unbound)?.unwrap_or_default();
    config.registry = registry(table)?;
    config.schemas = table.tables("schemas")?.unwrap_or_default().iter().map(binding).collect();
    if config.schemas.is_empty() {
        let why = format!("encoder {name} needs the schema of each event type");
        let hint =
            "add for example: schemas = [{ type = \"OrderPlaced\", file = \"schemas/OrderPlaced.avsc\" }]";
        return Err(table.problem("schemas", Code::ConfigKeyMissing, &why).with_hint(hint));
    }
    Ok(config)
}

fn optional<T: Clone>(
    table: &ConfigTable<'_>,
    key: &str,
    meanings: &[(&str, T)],
) -> Result<Option<T>, Problem> {
    if table.text(key)?.is_some() { table.choice(key, meanings).map(Some) } else { Ok(None) }
}

fn binding(fields: &BTreeMap<String, Value>) -> SchemaBinding {
    let text = |name: &str| match fields.get(name) {
        Some(Value::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let file = match fields.get("file") {
        Some(Value::Path(path)) => path.clone(),
        _ => Default::default(),
    };
    let mut binding = SchemaBinding::new(text("type").unwrap_or_default(), file);
    binding.namespace = text("namespace");
    binding.message = text("message");
    binding.subject = text("subject");
    binding
}

fn registry(table: &ConfigTable<'_>) -> Result<Option<RegistryConfig>, Problem> {
    let Some(fields) = table.fields("registry")? else { return Ok(None) };
    let secret = |name: &str| table.secret_field("registry", &fields, name);
    let mut config = RegistryConfig::new(secret("url")?.unwrap_or_default());
    config.register = fields.get("register") == Some(&Value::Bool(true));
    config.ca_file = match fields.get("ca_file") {
        Some(Value::Path(path)) => Some(path.clone()),
        _ => None,
    };
    let username = match fields.get("username") {
        Some(Value::Text(username)) => Some(username.clone()),
        _ => None,
    };
    config.auth = match (username, secret("password")?, secret("token")?) {
        (None, None, None) => None,
        (Some(username), Some(password), None) => Some(RegistryAuth::Basic { username, password }),
        (None, None, Some(token)) => Some(RegistryAuth::Bearer(token)),
        _ => {
            let why = "set username and password, or token, or neither";
            return Err(table.problem("registry", Code::ConfigValue, why));
        }
    };
    Ok(Some(config))
}

impl Settings {
    /// Reads and compiles the schemas of all sinks. Connects to nothing.
    ///
    /// # Errors
    /// The first problem of each sink.
    pub fn check_schemas(&self) -> Result<(), Vec<Problem>> {
        let mut problems = Vec::new();
        for (name, sink) in &self.sinks {
            let Encoding::Schema(config) = &sink.encoding else { continue };
            if let Err(error) = SchemaEncoder::open(config) {
                let key = format!("sink.{name}.schemas");
                let what = format!("sink {name:?}: {}", error.message());
                problems.push(Problem::new(error.code(), what).key(key).with_hint(error.hint()));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}
