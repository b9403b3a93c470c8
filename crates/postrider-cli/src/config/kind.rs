//! The kinds of values, and how they are read.

use std::collections::BTreeMap;
use std::path::PathBuf;

use postrider::store;
use postrider::{Position, Timestamp};

use super::raw::Raw;
use super::schema::Section;
use super::secret_source::SecretSource;
use super::value::{Keep, Value};
use super::{duration, size, suggest};

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text except the empty one.
    Text,
    /// True or false.
    Bool,
    /// A whole number.
    Number {
        /// The minimum.
        min: u64,
    },
    /// A time such as `5s`.
    Duration,
    /// A time such as `7d`, `forever`, or `expires_at`.
    Retention,
    /// A number of bytes such as `1MiB`.
    Size,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of texts; `a,b` in the environment and in flags.
    List,
    /// Names and texts; only in the file.
    Map,
    /// The path of a file.
    Path,
    /// The name of a section of this kind.
    Reference(Section),
    /// Where a subscription starts.
    Start,
    /// A URL that may contain a password; or `env:NAME`, `file:PATH`.
    Url,
    /// A secret such as a password; or `env:NAME`, `file:PATH`.
    Secret,
    /// Names, each with a value of kind `Url`; only in the file.
    Urls,
    /// A table with these fields; only in the file.
    Fields(&'static [Field]),
    /// A list of tables with these fields; only in the file.
    Tables(&'static [Field]),
}

/// A field of a table that is a value.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// A table without it is an error.
    pub is_required: bool,
}

impl Field {
    /// A field that may be missing.
    pub(crate) const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, is_required: false }
    }

    pub(crate) const fn required(mut self) -> Self {
        self.is_required = true;
        self
    }
}

impl Kind {
    /// Whether a value may be secret, so that no message may repeat it.
    pub const fn is_sensitive(self) -> bool {
        match self {
            Self::Url | Self::Secret | Self::Urls => true,
            Self::Fields(fields) | Self::Tables(fields) => {
                let mut at = 0;
                while at < fields.len() {
                    if fields[at].kind.is_sensitive() {
                        return true;
                    }
                    at += 1;
                }
                false
            }
            _ => false,
        }
    }

    /// Whether a value is written in the file without quotes.
    pub const fn is_bare(self) -> bool {
        matches!(self, Self::Bool | Self::Number { .. })
    }

    /// A description of the kind, as the end of "the key takes ...".
    pub fn words(self) -> String {
        match self {
            Self::Text => "a text".into(),
            Self::Bool => "true or false".into(),
            Self::Number { min: 0 } => "a whole number".into(),
            Self::Number { min } => format!("a whole number of at least {min}"),
            Self::Duration => "a duration such as \"250ms\", \"5s\" or \"2m\"".into(),
            Self::Retention => "a duration such as \"12h\" or \"7d\", \"forever\", or \"expires_at\"".into(),
            Self::Size => "a size such as \"64KiB\" or \"1MiB\"".into(),
            Self::Choice(words) => format!("one of \"{}\"", words.join("\", \"")),
            Self::List => "a list of texts".into(),
            Self::Map => "a table of texts".into(),
            Self::Path => "a path".into(),
            Self::Reference(section) => format!("the name of {}", section.a_word()),
            Self::Start => "\"now\", \"beginning\", \"position:NUMBER\" or \"time:RFC3339\"".into(),
            Self::Url => "a URL, \"env:NAME\" or \"file:PATH\"".into(),
            Self::Urls => "a table of URLs, each also as \"env:NAME\" or \"file:PATH\"".into(),
            Self::Fields(fields) => format!("a table of {}", names(fields)),
            Self::Tables(fields) => format!("a list of tables of {}", names(fields)),
            Self::Secret => "a secret, best as \"env:NAME\" or \"file:PATH\"".into(),
        }
    }

    /// Reads a value.
    ///
    /// # Errors
    /// A description of the invalid value, as the end of "found ...". Never contains a possible secret.
    pub fn read(self, raw: &Raw) -> Result<Value, String> {
        match (self, raw) {
            (Self::Fields(fields), Raw::Table(entries)) => table(fields, entries).map(Value::Fields),
            (Self::Tables(fields), Raw::List(items)) if !items.is_empty() => {
                let read = |(number, item): (usize, &Raw)| {
                    let Raw::Table(entries) = item else {
                        return Err(format!("entry {}: {}", number + 1, item.found(self.is_sensitive())));
                    };
                    table(fields, entries).map_err(|found| format!("entry {}: {found}", number + 1))
                };
                items.iter().enumerate().map(read).collect::<Result<_, _>>().map(Value::Tables)
            }
            _ => self.value(raw).ok_or_else(|| raw.found(self.is_sensitive())),
        }
    }

    fn value(self, raw: &Raw) -> Option<Value> {
        Some(match self {
            Self::Text | Self::Reference(_) => Value::Text(raw.text()?.to_owned()),
            Self::Choice(words) => Value::Text(raw.text().filter(|text| words.contains(text))?.to_owned()),
            Self::Path => Value::Path(PathBuf::from(raw.text()?)),
            Self::Duration => Value::Duration(duration::parse(raw.text()?)?),
            Self::Retention => Value::Retention(match raw.text()? {
                "forever" => Keep::Forever,
                "expires_at" => Keep::UntilExpiry,
                text => Keep::For(duration::parse(text)?),
            }),
            Self::Size => Value::Size(size::parse(raw.text()?)?),
            Self::Start => Value::Start(start(raw.text()?)?),
            Self::Bool => Value::Bool(raw.bool()?),
            Self::Number { min } => Value::Number(raw.number().filter(|number| *number >= min)?),
            Self::List => Value::List(raw.list()?),
            Self::Map => Value::Map(raw.map()?),
            Self::Url => Value::Secret(SecretSource::url(raw.text()?)?),
            Self::Secret => Value::Secret(SecretSource::secret(raw.text()?)?),
            // Read above.
            Self::Fields(_) | Self::Tables(_) => return None,
            Self::Urls => {
                let Raw::Table(entries) = raw.flattened() else { return None };
                let url = |(name, raw): (String, Raw)| Some((name, SecretSource::url(raw.text()?)?));
                Value::Secrets(entries.into_iter().map(url).collect::<Option<_>>()?)
            }
        })
    }
}

/// The names of fields, for messages.
fn names(fields: &[Field]) -> String {
    fields.iter().map(|field| format!("`{}`", field.name)).collect::<Vec<_>>().join(", ")
}

/// Reads the fields of a table. Errors are the end of "found ...", and contain no possible secret.
fn table(fields: &[Field], entries: &BTreeMap<String, Raw>) -> Result<BTreeMap<String, Value>, String> {
    let mut read = BTreeMap::new();
    for (name, raw) in entries {
        let Some(field) = fields.iter().find(|field| field.name == name) else {
            let closest = suggest::closest(name, fields.iter().map(|field| field.name));
            let advice = closest.map(|closest| format!(" (did you mean \"{closest}\"?)")).unwrap_or_default();
            return Err(format!("the unknown field {name:?}{advice}"));
        };
        let value = field
            .kind
            .read(raw)
            .map_err(|found| format!("{found} for {name:?}, which takes {}", field.kind.words()))?;
        read.insert(name.clone(), value);
    }
    let missing = fields.iter().find(|field| field.is_required && !read.contains_key(field.name));
    match missing {
        Some(field) => Err(format!("a table without {:?}", field.name)),
        None => Ok(read),
    }
}

/// Parses where a subscription starts.
pub(crate) fn start(text: &str) -> Option<store::Start> {
    match text.split_once(':') {
        None if text == "now" => Some(store::Start::Now),
        None if text == "beginning" => Some(store::Start::Beginning),
        Some(("position", number)) => {
            let number = number.parse().ok().filter(|number| *number >= 0)?;
            Some(store::Start::Position(Position::new(number)))
        }
        Some(("time", time)) => time.parse::<Timestamp>().ok().map(store::Start::Time),
        _ => None,
    }
}
