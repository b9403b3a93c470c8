//! Which schema belongs to which events. Files are read and compiled once, when the encoder is created.

use std::collections::HashMap;

use super::avro::AvroWriter;
use super::config::{Format, SchemaBinding};
use super::dropped::DroppedFields;
use super::files::{self, Budget};
use super::json_schema::JsonSchema;
use super::limits::BINDINGS_MAX;
use super::protobuf::ProtobufWriter;
use super::protobuf::file::ProtobufFile;
use super::registry::{Import, SchemaText};
use crate::{Code, Error, Event, Result};

/// The schemas of an encoder.
#[derive(Debug)]
pub(super) struct Bindings {
    all: Vec<Binding>,
    /// Indexes by event type: first those for one namespace, then that for all.
    by_type: HashMap<String, Vec<usize>>,
}

/// A compiled schema and the events that it is for.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) config: SchemaBinding,
    pub(super) schema: Compiled,
    pub(super) dropped: DroppedFields,
    /// What a registry must know.
    pub(super) text: SchemaText,
}

#[derive(Debug)]
pub(super) enum Compiled {
    Avro(AvroWriter),
    Protobuf(ProtobufWriter),
    Json(JsonSchema),
}

impl Bindings {
    /// Reads and compiles all files.
    ///
    /// # Errors
    /// [`Code::SchemaInvalid`], which names the first file that cannot be used.
    pub(super) fn read(format: Format, schemas: &[SchemaBinding]) -> Result<Self> {
        let invalid = |what: String| Error::new(Code::SchemaInvalid, what);
        if schemas.len() > BINDINGS_MAX {
            return Err(invalid(format!("there are {} schemas; the limit is {BINDINGS_MAX}", schemas.len())));
        }
        let mut by_type: HashMap<String, Vec<usize>> = HashMap::new();
        for (number, schema) in schemas.iter().enumerate() {
            let of_type = by_type.entry(schema.event_type.clone()).or_default();
            let same =
                |other: &usize| schemas.get(*other).is_some_and(|other| other.namespace == schema.namespace);
            if let Some(other) =
                of_type.iter().find(|other| same(other)).and_then(|other| schemas.get(*other))
            {
                let (one, other) = (other.file.display(), schema.file.display());
                return Err(invalid(format!("{} has two schemas: {one} and {other}", schema.words())));
            }
            of_type.push(number);
        }
        for of_type in by_type.values_mut() {
            of_type
                .sort_by_key(|number| schemas.get(*number).is_some_and(|schema| schema.namespace.is_none()));
        }
        let budget = Budget::default();
        let all = schemas.iter().map(|schema| {
            Binding::read(format, schema, &budget).map_err(|why| {
                invalid(format!("the schema of {}, {}: {why}", schema.words(), schema.file.display()))
            })
        });
        Ok(Self { all: all.collect::<Result<_>>()?, by_type })
    }

    /// The index of the schema of an event.
    pub(super) fn find(&self, event: &Event) -> Option<usize> {
        let of_type = self.by_type.get(&event.event_type)?;
        let fits = |number: &&usize| {
            let namespace = self.all.get(**number).and_then(|binding| binding.config.namespace.as_ref());
            namespace.is_none() || namespace == event.namespace.as_ref()
        };
        of_type.iter().find(fits).copied()
    }

    pub(super) fn get(&self, number: usize) -> Option<&Binding> {
        self.all.get(number)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Binding> {
        self.all.iter()
    }
}

impl Binding {
    fn read(format: Format, config: &SchemaBinding, budget: &Budget) -> Result<Self, String> {
        let (schema, text) = match format {
            Format::Avro => {
                let text = files::read(&config.file, budget)?;
                let writer = AvroWriter::compile(&text)?;
                check_name(config, writer.name(), "avro")?;
                let (subject, content) = (writer.name().to_owned(), writer.content());
                let text = SchemaText { kind: None, text, content, subject, imports: Vec::new() };
                (Compiled::Avro(writer), text)
            }
            Format::Protobuf => {
                let file = ProtobufFile::read(&config.file, budget)?;
                let message = file.message(config.message.as_deref(), &config.event_type)?;
                let writer = ProtobufWriter::compile(&message)?;
                check_name(config, writer.name(), "proto")?;
                let imports = imports(&file)?;
                let (subject, content) = (writer.name().to_owned(), file.content());
                let text = file.text(file.file.name())?.to_owned();
                let text = SchemaText { kind: Some("PROTOBUF"), text, content, subject, imports };
                (Compiled::Protobuf(writer), text)
            }
            Format::JsonSchema => {
                let text = files::read(&config.file, budget)?;
                let schema = JsonSchema::compile(&text)?;
                if let (Some(wanted), Some(title)) = (&config.message, schema.title())
                    && wanted != title
                {
                    return Err(format!(
                        "the binding names {wanted:?}, the title of the schema is {title:?}"
                    ));
                }
                let (subject, content) = (config.event_type.clone(), schema.content());
                let text = SchemaText { kind: Some("JSON"), text, content, subject, imports: Vec::new() };
                (Compiled::Json(schema), text)
            }
        };
        let subject = config.subject.clone().unwrap_or(text.subject);
        Ok(Self {
            config: config.clone(),
            schema,
            dropped: DroppedFields::default(),
            text: SchemaText { subject, ..text },
        })
    }
}

/// A schema that belongs to another type would give wrong messages that look right.
fn check_name(config: &SchemaBinding, name: &str, package: &str) -> Result<(), String> {
    let wanted = match (&config.message, &config.namespace) {
        (Some(message), _) => vec![message.clone()],
        (None, Some(namespace)) => {
            vec![
                format!("{namespace}.{package}.{}", config.event_type),
                format!("{namespace}.{}", config.event_type),
            ]
        }
        (None, None) => vec![config.event_type.clone()],
    };
    let short = name.rsplit('.').next().unwrap_or(name);
    let is_named = |wanted: &String| {
        wanted == name || config.namespace.is_none() && config.message.is_none() && wanted == short
    };
    match wanted.iter().any(is_named) {
        true => Ok(()),
        false => Err(format!(
            "the binding is for {:?}, the file defines {name:?}; if that is right, set message = {name:?}",
            wanted.first().map(String::as_str).unwrap_or_default()
        )),
    }
}

/// What the file imports, directly or not, in the order in which a registry must know it. What `google.protobuf` defines is
/// known to every registry.
fn imports(file: &ProtobufFile) -> Result<Vec<Import>, String> {
    let direct = |file: &prost_reflect::FileDescriptor| -> Vec<String> {
        let names = file.dependencies().map(|import| import.name().to_owned());
        names.filter(|name| !name.starts_with("google/protobuf/")).collect()
    };
    let mut all: Vec<Import> = Vec::new();
    // The compiler lists files after those that they import.
    for descriptor in file.pool.files() {
        let name = descriptor.name();
        if name.starts_with("google/protobuf/") || descriptor == file.file {
            continue;
        }
        let text = file.text(name)?.to_owned();
        all.push(Import { name: name.to_owned(), text, imports: direct(&descriptor), is_direct: false });
    }
    let of_file = direct(&file.file);
    all.iter_mut().for_each(|import| import.is_direct = of_file.contains(&import.name));
    Ok(all)
}
