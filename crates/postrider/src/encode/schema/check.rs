//! What `postrider schemas check` and `doctor` report about the schemas of an encoder.

use std::path::PathBuf;

use super::SchemaEncoder;
use super::registry::{Compatibility, SchemaText};
use crate::Result;

/// A schema of an encoder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckedSchema {
    /// The event type; `None` for the envelope.
    pub event_type: Option<String>,
    /// The namespace, if the schema is only for that.
    pub namespace: Option<String>,
    /// The file; `None` for the envelope.
    pub file: Option<PathBuf>,
    /// The subject in the registry.
    pub subject: String,
    /// What the registry says; `None` without a registry.
    pub registry: Option<SchemaCheck>,
}

/// What a registry says about a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaCheck {
    /// It knows the schema.
    Known {
        /// The id in messages.
        id: u32,
        /// The version of the subject.
        version: u32,
    },
    /// It does not know the subject. A relay registers it only with `register`.
    NewSubject,
    /// It would accept the schema as the next version of the subject. A relay registers it only with `register`.
    Compatible,
    /// It would not accept the schema, with its words.
    Incompatible(String),
}

impl SchemaEncoder {
    /// The address of the registry, without secrets.
    pub fn registry_address(&self) -> Option<&str> {
        self.shared().registry.as_ref().map(super::registry::Registry::address)
    }

    /// The fingerprint (CRC-64-AVRO) of the Avro schema of an event type, in the byte order of single-object encoding.
    pub fn fingerprint(&self, event_type: &str) -> Option<[u8; 8]> {
        let binding =
            self.shared().bindings.iter().find(|binding| binding.config.event_type == event_type)?;
        match &binding.schema {
            super::bindings::Compiled::Avro(writer) => Some(writer.fingerprint()),
            _ => None,
        }
    }

    /// Lists the schemas, and asks the registry about each. Registers nothing.
    ///
    /// # Errors
    /// [`Code::SchemaUnavailable`](crate::Code::SchemaUnavailable) if the registry cannot be used, and
    /// [`Code::SchemaRefused`](crate::Code::SchemaRefused) if it calls a schema invalid.
    pub async fn check(&self) -> Result<Vec<CheckedSchema>> {
        let shared = self.shared();
        let mut checked = Vec::new();
        for binding in shared.bindings.iter() {
            checked.push(CheckedSchema {
                event_type: Some(binding.config.event_type.clone()),
                namespace: binding.config.namespace.clone(),
                file: Some(binding.config.file.clone()),
                subject: binding.text.subject.clone(),
                registry: self.ask(&binding.text).await?,
            });
        }
        if let Some(text) = &shared.envelope_text {
            checked.push(CheckedSchema {
                event_type: None,
                namespace: None,
                file: None,
                subject: text.subject.clone(),
                registry: self.ask(text).await?,
            });
        }
        Ok(checked)
    }

    async fn ask(&self, text: &SchemaText) -> Result<Option<SchemaCheck>> {
        let Some(registry) = &self.shared().registry else { return Ok(None) };
        Ok(Some(match registry.compatibility(text).await? {
            Compatibility::Known { id, version } => SchemaCheck::Known { id, version },
            Compatibility::NewSubject => SchemaCheck::NewSubject,
            Compatibility::Compatible => SchemaCheck::Compatible,
            Compatibility::Incompatible(words) => SchemaCheck::Incompatible(words),
        }))
    }
}
