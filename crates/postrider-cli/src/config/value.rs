//! A value of the kind of its key.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use postrider::store::Start;
use serde_json::json;

use super::secret_source::SecretSource;
use super::{duration, size, url};

/// How long delivered events are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// They are not deleted.
    Forever,
    /// For this long after their delivery.
    For(Duration),
    /// Until the time in their column `expires_at`.
    UntilExpiry,
}

/// A value of the configuration. Its `Debug` output contains no secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is what the kind of its name takes")]
pub enum Value {
    Text(String),
    Bool(bool),
    Number(u64),
    Duration(Duration),
    Retention(Keep),
    Size(u64),
    List(Vec<String>),
    Map(BTreeMap<String, String>),
    Path(PathBuf),
    Start(Start),
    Secret(SecretSource),
    Secrets(BTreeMap<String, SecretSource>),
    Fields(BTreeMap<String, Value>),
    Tables(Vec<BTreeMap<String, Value>>),
}

impl Value {
    /// As JSON, with secrets masked.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Bool(truth) => json!(truth),
            Self::Number(number) => json!(number),
            Self::List(texts) => texts.iter().map(|text| url::masked_if_secret(text)).collect(),
            Self::Map(entries) => {
                let shown =
                    entries.iter().map(|(name, text)| (name.clone(), json!(url::masked_if_secret(text))));
                serde_json::Value::Object(shown.collect())
            }
            Self::Secrets(entries) => {
                let shown = entries.iter().map(|(name, source)| (name.clone(), json!(source.to_string())));
                serde_json::Value::Object(shown.collect())
            }
            Self::Fields(fields) => object(fields),
            Self::Tables(tables) => tables.iter().map(object).collect(),
            shown => json!(shown.to_string()),
        }
    }
}

fn object(fields: &BTreeMap<String, Value>) -> serde_json::Value {
    let shown = fields.iter().map(|(name, value)| (name.clone(), value.to_json()));
    serde_json::Value::Object(shown.collect())
}

fn braced(fields: &BTreeMap<String, Value>) -> String {
    let shown: Vec<String> = fields.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    format!("{{ {} }}", shown.join(", "))
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&url::masked_if_secret(text)),
            Self::Bool(truth) => write!(f, "{truth}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Retention(Keep::Forever) => f.write_str("forever"),
            Self::Retention(Keep::UntilExpiry) => f.write_str("expires_at"),
            Self::Duration(time) | Self::Retention(Keep::For(time)) => f.write_str(&duration::show(*time)),
            Self::Size(bytes) => f.write_str(&size::show(*bytes)),
            Self::List(texts) => write_all(f, texts.iter().map(|text| url::masked_if_secret(text))),
            Self::Map(entries) => write_all(
                f,
                entries.iter().map(|(name, text)| format!("{name} = {}", url::masked_if_secret(text)).into()),
            ),
            Self::Path(path) => f.write_str(&url::masked_if_secret(&path.display().to_string())),
            Self::Start(start) => write!(f, "{start}"),
            Self::Secret(source) => write!(f, "{source}"),
            Self::Fields(fields) => f.write_str(&braced(fields)),
            Self::Tables(tables) => write_all(f, tables.iter().map(|fields| braced(fields).into())),
            Self::Secrets(entries) => {
                write_all(f, entries.iter().map(|(name, source)| format!("{name} = {source}").into()))
            }
        }
    }
}

fn write_all<'a>(f: &mut fmt::Formatter<'_>, texts: impl Iterator<Item = Cow<'a, str>>) -> fmt::Result {
    f.write_str(&texts.collect::<Vec<_>>().join(", "))
}
