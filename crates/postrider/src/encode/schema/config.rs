//! What a user sets for an encoder with schemas.

use std::fmt;
use std::path::PathBuf;

/// The settings of a [`SchemaEncoder`](super::SchemaEncoder).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaConfig {
    /// What payloads become.
    pub format: Format,
    /// What surrounds them.
    pub envelope: SchemaEnvelope,
    /// What precedes their bytes. `None`: that of the format and of the registry, see [`Framing`].
    pub framing: Option<Framing>,
    /// What happens to a field that the schema does not have.
    pub unknown_fields: UnknownFields,
    /// What happens to a value that fits several branches of an Avro union equally well.
    pub unions: UnionRule,
    /// What happens to an event whose type has no schema.
    pub unbound: Unbound,
    /// The registry that knows the schemas.
    pub registry: Option<RegistryConfig>,
    /// The schemas of the event types.
    pub schemas: Vec<SchemaBinding>,
}

impl SchemaConfig {
    /// The defaults for a format, without schemas.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            envelope: SchemaEnvelope::default(),
            framing: None,
            unknown_fields: UnknownFields::default(),
            unions: UnionRule::default(),
            unbound: Unbound::default(),
            registry: None,
            schemas: Vec::new(),
        }
    }

    /// The framing that applies.
    pub fn effective_framing(&self) -> Framing {
        self.framing.unwrap_or(match (&self.registry, self.format) {
            (Some(_), _) => Framing::Confluent,
            (None, Format::Avro) => Framing::SingleObject,
            (None, Format::Protobuf | Format::JsonSchema) => Framing::Bare,
        })
    }
}

/// What payloads become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Binary Avro.
    Avro,
    /// Binary Protobuf.
    Protobuf,
    /// The same JSON, validated by a JSON Schema.
    JsonSchema,
}

impl Format {
    /// Its name in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Avro => "avro",
            Self::Protobuf => "protobuf",
            Self::JsonSchema => "json-schema",
        }
    }
}

/// What surrounds a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SchemaEnvelope {
    /// The message is the payload; other fields of the event are headers, as with [`Plain`](crate::encode::Plain).
    #[default]
    None,
    /// An `ActionEvent` with 13 fields, which contains the payload.
    ActionEvent,
}

/// What precedes the bytes of a payload, and of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Framing {
    /// Avro's single-object encoding: `C3 01` and the fingerprint of the schema. The default for Avro without a registry.
    SingleObject,
    /// A zero byte and the id of the schema in the registry; for Protobuf also the indexes of the message. The default with a
    /// registry.
    Confluent,
    /// Nothing. The default for Protobuf and JSON without a registry.
    Bare,
}

impl Framing {
    /// Its name in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SingleObject => "single-object",
            Self::Confluent => "confluent",
            Self::Bare => "bare",
        }
    }
}

/// What happens to a field of a payload that the schema does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum UnknownFields {
    /// It is not sent; the log says so once per field.
    #[default]
    Drop,
    /// The event is dead.
    Error,
}

/// What happens to a value that fits several branches of an Avro union equally well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum UnionRule {
    /// The first of them is used; the log says so once per union.
    #[default]
    Best,
    /// The event is dead.
    Strict,
}

/// What happens to an event whose type has no schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Unbound {
    /// It is parked as unrouted, and delivered when a relay starts with a schema for it.
    #[default]
    Park,
    /// It is dead.
    Reject,
}

/// The schema of an event type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaBinding {
    /// The type of the events.
    pub event_type: String,
    /// Only for events of this namespace.
    pub namespace: Option<String>,
    /// The file: `.avsc`, `.proto` or a JSON Schema.
    pub file: PathBuf,
    /// The full name of the message or record. Required if the event type is not its name.
    pub message: Option<String>,
    /// The subject in the registry. Default: the full name of the message or record; for a JSON Schema, the event type.
    pub subject: Option<String>,
}

impl SchemaBinding {
    /// The schema in this file, for all events of a type.
    pub fn new(event_type: impl Into<String>, file: impl Into<PathBuf>) -> Self {
        Self {
            event_type: event_type.into(),
            namespace: None,
            file: file.into(),
            message: None,
            subject: None,
        }
    }

    /// Type and namespace, for messages.
    pub(super) fn words(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("type {:?} of namespace {namespace:?}", self.event_type),
            None => format!("type {:?}", self.event_type),
        }
    }
}

/// A schema registry with the API of Confluent's, such as Apicurio or Karapace.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistryConfig {
    /// The base URL, such as `https://registry.example/apis/ccompat/v7`. A user name and a password in it are sent as basic
    /// authentication.
    pub url: String,
    /// Registers schemas that the registry does not know. Otherwise they are an error.
    pub register: bool,
    /// A PEM file with CA certificates to trust in addition to those of the operating system.
    pub ca_file: Option<PathBuf>,
    /// How the relay authenticates.
    pub auth: Option<RegistryAuth>,
}

impl RegistryConfig {
    /// A registry that is only read.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), register: false, ca_file: None, auth: None }
    }
}

/// Without the URL, which may contain a password.
impl fmt::Debug for RegistryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryConfig")
            .field("register", &self.register)
            .field("ca_file", &self.ca_file)
            .field("auth", &self.auth)
            .finish_non_exhaustive()
    }
}

/// How the relay authenticates to a registry.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistryAuth {
    /// HTTP basic authentication.
    Basic {
        /// The user name.
        username: String,
        /// The password.
        password: String,
    },
    /// A bearer token.
    Bearer(String),
}

/// Without secrets.
impl fmt::Debug for RegistryAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Basic { .. } => f.write_str("Basic"),
            Self::Bearer(_) => f.write_str("Bearer"),
        }
    }
}
