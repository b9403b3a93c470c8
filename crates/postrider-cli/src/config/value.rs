//! A value that is what its key takes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use postrider::store::Start;
use serde_json::json;

use super::protected::Protected;
use super::{duration, size};

/// A value of the configuration. Printing it shows no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is what the kind of its name takes")]
pub enum Value {
    Text(String),
    Bool(bool),
    Number(u64),
    Duration(Duration),
    Size(u64),
    List(Vec<String>),
    Map(BTreeMap<String, String>),
    Path(PathBuf),
    Start(Start),
    Protected(Protected),
}

impl Value {
    /// As JSON, secrets masked.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Bool(truth) => json!(truth),
            Self::Number(number) => json!(number),
            Self::List(texts) => json!(texts),
            Self::Map(entries) => json!(entries),
            shown => json!(shown.to_string()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Bool(truth) => write!(f, "{truth}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Duration(time) => f.write_str(&duration::show(*time)),
            Self::Size(bytes) => f.write_str(&size::show(*bytes)),
            Self::List(texts) => f.write_str(&texts.join(", ")),
            Self::Map(entries) => {
                let shown: Vec<String> =
                    entries.iter().map(|(name, text)| format!("{name} = {text}")).collect();
                f.write_str(&shown.join(", "))
            }
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Start(Start::Now) => f.write_str("now"),
            Self::Start(Start::Beginning) => f.write_str("beginning"),
            Self::Start(Start::Position(position)) => write!(f, "position:{position}"),
            Self::Start(Start::Time(time)) => write!(f, "time:{time}"),
            Self::Protected(protected) => write!(f, "{protected}"),
        }
    }
}
