//! A value as given, before it is converted to the kind of its key.

use std::collections::BTreeMap;

use toml::de::DeValue;

use super::url;

/// A value as given. It may be a secret, so it cannot be printed; [`Raw::found`] describes it.
#[derive(Clone)]
pub enum Raw {
    /// A text in the file.
    Text(String),
    /// An integer in the file that is in range.
    Number(i64),
    /// A boolean in the file.
    Bool(bool),
    /// A list in the file.
    List(Vec<Raw>),
    /// A table in the file.
    Table(BTreeMap<String, Raw>),
    /// A TOML type that no key accepts, by its name.
    Other(&'static str),
    /// The text of a variable or flag, which is converted to the kind of its key.
    Loose(String),
}

impl Raw {
    /// The text, unless it is empty.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Loose(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    pub(super) fn bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            Self::Loose(text) => text.parse().ok(),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => u64::try_from(*number).ok(),
            Self::Loose(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Texts; `a,b` in a variable or flag. Neither the list nor a text in it may be empty: an omitted key means all, so
    /// an empty list is a mistake.
    pub(super) fn list(&self) -> Option<Vec<String>> {
        let own = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let texts: Option<Vec<String>> = match self {
            Self::List(items) => items.iter().map(|item| own(item.text()?)).collect(),
            Self::Loose(text) => text.split(',').map(|item| own(item.trim())).collect(),
            _ => None,
        };
        texts.filter(|texts| !texts.is_empty())
    }

    pub(super) fn map(&self) -> Option<BTreeMap<String, String>> {
        let Self::Table(entries) = self else { return None };
        entries.iter().map(|(name, raw)| Some((name.clone(), raw.text()?.to_owned()))).collect()
    }

    /// A table without tables in it: `a.b = 1` without quotes is the entry `a.b`.
    pub(super) fn flattened(&self) -> Self {
        let Self::Table(entries) = self else { return self.clone() };
        let mut flat = BTreeMap::new();
        for (name, raw) in entries {
            match raw {
                Self::Table(inner) => {
                    flat.extend(inner.iter().map(|(end, raw)| (format!("{name}.{end}"), raw.clone())));
                }
                raw => drop(flat.insert(name.clone(), raw.clone())),
            }
        }
        Self::Table(flat)
    }

    /// A description, as the end of "found ...", with the value unless it may contain a secret.
    pub fn found(&self, may_be_secret: bool) -> String {
        let hidden = |text: &str| may_be_secret || url::text_has_password(text);
        match self {
            Self::Text(text) | Self::Loose(text) if text.is_empty() => "an empty text".into(),
            Self::Text(text) | Self::Loose(text) if hidden(text) => "another text".into(),
            Self::Text(text) | Self::Loose(text) => format!("the text {:?}", shortened(text)),
            Self::Number(_) if may_be_secret => "a number".into(),
            Self::Number(number) => format!("the number {number}"),
            Self::Bool(truth) => truth.to_string(),
            Self::List(items) if items.is_empty() => "an empty list".into(),
            Self::List(_) => "a list of something else".into(),
            Self::Table(_) => "a table".into(),
            Self::Other(name) => (*name).into(),
        }
    }
}

/// The beginning of a text.
fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

impl From<&DeValue<'_>> for Raw {
    fn from(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.to_string()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or(Self::Other("a number too large"), Self::Number),
            DeValue::Float(_) => Self::Other("a number with a fraction"),
            DeValue::Boolean(truth) => Self::Bool(*truth),
            DeValue::Datetime(_) => Self::Other("a date or time without quotes"),
            DeValue::Array(items) => Self::List(items.iter().map(|item| item.get_ref().into()).collect()),
            DeValue::Table(entries) => {
                let owned =
                    entries.iter().map(|(name, raw)| (name.get_ref().to_string(), raw.get_ref().into()));
                Self::Table(owned.collect())
            }
        }
    }
}
