//! The client of a schema registry with Confluent's API: finds the ids of schemas, and registers them if that is configured.

mod answer;
mod client;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use self::client::Client;
use super::config::RegistryConfig;
use crate::{Code, Error, Result};

/// A schema as a registry stores it.
#[derive(Debug, Clone)]
pub(super) struct SchemaText {
    /// `schemaType`; `None` is Avro.
    pub(super) kind: Option<&'static str>,
    pub(super) text: String,
    /// A number for what it defines, whatever its spaces.
    pub(super) content: u64,
    pub(super) subject: String,
    /// Files that it imports, each after those that it imports itself.
    pub(super) imports: Vec<Import>,
}

/// A file that another one imports. Its subject is its name.
#[derive(Debug, Clone)]
pub(super) struct Import {
    pub(super) name: String,
    pub(super) text: String,
    /// The names of the files that it imports.
    pub(super) imports: Vec<String>,
    /// The schema itself imports it.
    pub(super) is_direct: bool,
}

/// Ids by subject, text and content: several schemas may have one subject, and files with one text may import others.
pub(super) type Ids = HashMap<(String, String, u64), u32>;

impl SchemaText {
    pub(super) fn key(&self) -> (String, String, u64) {
        (self.subject.clone(), self.text.clone(), self.content)
    }
}

/// A registry. Ids are asked for once, those of imports too: a schema keeps its id, and a slow registry must get on with each
/// try.
#[derive(Debug)]
pub(super) struct Registry {
    client: Client,
    register: bool,
    known: Mutex<HashMap<Asked, (u32, u32)>>,
}

/// Subject, text and references of a schema.
type Asked = (String, String, String);

impl Registry {
    /// Checks the settings. Does not connect yet.
    pub(super) fn open(config: &RegistryConfig) -> Result<Self> {
        Ok(Self { client: Client::open(config)?, register: config.register, known: Mutex::default() })
    }

    /// The address, without secrets.
    pub(super) fn address(&self) -> &str {
        self.client.address()
    }

    /// The id of a schema.
    ///
    /// # Errors
    /// [`Code::SchemaUnavailable`] if the registry does not answer as a registry that can be used;
    /// [`Code::SchemaRefused`] if it does not know the schema, or does not accept it.
    pub(super) async fn id(&self, schema: &SchemaText) -> Result<u32> {
        let references = self.references(schema).await?;
        let (id, _) = self.find_or_register(&schema.subject, schema.kind, &schema.text, &references).await?;
        Ok(id)
    }

    /// What a schema is sent with, so that the registry can resolve its imports.
    async fn references(&self, schema: &SchemaText) -> Result<serde_json::Value> {
        let mut versions: HashMap<&str, serde_json::Value> = HashMap::new();
        for import in &schema.imports {
            let own: Vec<_> = import.imports.iter().filter_map(|name| versions.get(name.as_str())).collect();
            let own = json!(own);
            let found = self.find_or_register(&import.name, schema.kind, &import.text, &own).await?;
            let reference = json!({ "name": import.name, "subject": import.name, "version": found.1 });
            versions.insert(&import.name, reference);
        }
        let direct = schema.imports.iter().filter(|import| import.is_direct);
        let direct: Vec<_> = direct.filter_map(|import| versions.get(import.name.as_str())).collect();
        Ok(json!(direct))
    }

    /// Id and version of a schema under a subject.
    async fn find_or_register(
        &self,
        subject: &str,
        kind: Option<&str>,
        text: &str,
        references: &serde_json::Value,
    ) -> Result<(u32, u32)> {
        let asked = (subject.to_owned(), text.to_owned(), references.to_string());
        if let Some(found) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&asked) {
            return Ok(*found);
        }
        let found = self.ask(subject, kind, text, references).await?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(asked, found);
        Ok(found)
    }

    async fn ask(
        &self,
        subject: &str,
        kind: Option<&str>,
        text: &str,
        references: &serde_json::Value,
    ) -> Result<(u32, u32)> {
        let mut body = json!({ "schema": text });
        if let Some(kind) = kind {
            body["schemaType"] = json!(kind);
        }
        if references.as_array().is_some_and(|references| !references.is_empty()) {
            body["references"] = references.clone();
        }
        if let Some(found) = self.client.find(subject, &body).await? {
            return Ok(found);
        }
        if !self.register {
            let what =
                format!("the registry {} does not know the schema of subject {subject:?}", self.address());
            return Err(Error::new(Code::SchemaRefused, what)
                .with_hint("register the schema, or set `register = true`; a subject with other schemas is listed by `postrider schemas check`"));
        }
        self.client.register(subject, &body).await?;
        let found = self.client.find(subject, &body).await?;
        found.ok_or_else(|| {
            let what = format!(
                "the registry {} does not find the schema of subject {subject:?} that it has just accepted",
                self.address()
            );
            Error::new(Code::SchemaUnavailable, what)
        })
    }

    /// Whether the registry would accept the schema as the next version of its subject; `None` if it knows the schema.
    /// Otherwise its words.
    pub(super) async fn compatibility(&self, schema: &SchemaText) -> Result<Compatibility> {
        let mut body = json!({ "schema": schema.text });
        if let Some(kind) = schema.kind {
            body["schemaType"] = json!(kind);
        }
        // Imports that the registry does not know cannot be sent.
        let references = match (self.register, schema.imports.is_empty()) {
            (false, false) => self.references(schema).await?,
            _ => json!([]),
        };
        if references.as_array().is_some_and(|references| !references.is_empty()) {
            body["references"] = references;
        }
        if let Some((id, version)) = self.client.find(&schema.subject, &body).await? {
            return Ok(Compatibility::Known { id, version });
        }
        self.client.compatible(&schema.subject, &body).await
    }
}

/// What a registry says about a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Compatibility {
    /// It knows the schema.
    Known { id: u32, version: u32 },
    /// It does not know the subject.
    NewSubject,
    /// It would accept the schema as the next version.
    Compatible,
    /// It would not, with its words.
    Incompatible(String),
}
