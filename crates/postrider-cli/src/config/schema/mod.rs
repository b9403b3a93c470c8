//! The schema of the configuration: sections, keys and their kinds. The keys are in `keys.rs`, those of each sink type
//! next to its code in [`crate::sinks`]. Parsing, checks, `config show`, the starter file, the JSON Schema and the page
//! in the docs are derived from it.

mod keys;

use std::fmt;
use std::sync::LazyLock;

use super::kind::Kind;

/// A set of keys. [`Schema::postrider`] is that of the program; tests use small ones.
#[derive(Debug, Clone, Copy)]
pub struct Schema(pub &'static [KeySpec]);

impl Schema {
    /// The keys of `postrider.toml`.
    pub fn postrider() -> Self {
        static KEYS: LazyLock<Vec<KeySpec>> = LazyLock::new(keys::all);
        Self(&KEYS)
    }

    /// The keys of one section, in the order of the docs.
    pub fn keys(self, section: Section) -> impl Iterator<Item = &'static KeySpec> {
        self.0.iter().filter(move |spec| spec.section == section)
    }

    /// A key by its name. Types of a section may have keys with the same name, which then have the same kind; this is the
    /// first of them.
    pub fn find(self, section: Section, name: &str) -> Option<&'static KeySpec> {
        self.keys(section).find(|spec| spec.name == name)
    }

    /// The types of a section that have a key with this name.
    pub fn types_of(self, section: Section, name: &str) -> impl Iterator<Item = &'static str> {
        self.keys(section).filter(move |spec| spec.name == name).filter_map(|spec| spec.of_type)
    }
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct KeySpec {
    /// Its section.
    pub section: Section,
    /// Its name.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// What applies if it is not set.
    pub if_unset: IfUnset,
    /// The default of a subscription whose outbox has layout `eventlog`, where that differs.
    pub default_on_eventlog: Option<&'static str>,
    /// The `type` of its section for which it is valid; with another type it is an error.
    pub of_type: Option<&'static str>,
    /// Its description, in one sentence.
    pub doc: &'static str,
    /// A valid value other than the default, as TOML.
    pub example: &'static str,
}

/// What applies if a key is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfUnset {
    /// The key is required.
    Error,
    /// No value; the description of the key explains what this means.
    Nothing,
    /// This value, as in `--set key=VALUE`.
    Default(&'static str),
}

/// An integer of at least 1.
pub(crate) const COUNT: Kind = Kind::Number { min: 1 };

/// A key of one type of sink.
pub(crate) const fn sink_key(
    name: &'static str,
    kind: Kind,
    example: &'static str,
    doc: &'static str,
) -> KeySpec {
    KeySpec::new(Section::Sink, name, kind, example, doc)
}

impl KeySpec {
    const fn new(
        section: Section,
        name: &'static str,
        kind: Kind,
        example: &'static str,
        doc: &'static str,
    ) -> Self {
        Self {
            section,
            name,
            kind,
            if_unset: IfUnset::Nothing,
            default_on_eventlog: None,
            of_type: None,
            doc,
            example,
        }
    }

    pub(crate) const fn required(mut self) -> Self {
        self.if_unset = IfUnset::Error;
        self
    }

    pub(crate) const fn default(mut self, text: &'static str) -> Self {
        self.if_unset = IfUnset::Default(text);
        self
    }

    const fn on_eventlog(mut self, text: &'static str) -> Self {
        self.default_on_eventlog = Some(text);
        self
    }

    const fn only_for(mut self, type_name: &'static str) -> Self {
        self.of_type = Some(type_name);
        self
    }
}

/// A kind of table in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// `[relay]`
    Relay,
    /// `[http]`
    Http,
    /// `[dashboard]`
    Dashboard,
    /// `[traces]`
    Traces,
    /// `[outbox.NAME]`
    Outbox,
    /// `[sink.NAME]`
    Sink,
    /// `[subscription.NAME]`
    Subscription,
    /// `[[subscription.NAME.rule]]`
    Rule,
}

impl Section {
    /// All sections, in the order of the docs.
    pub const ALL: [Self; 8] = [
        Self::Relay,
        Self::Http,
        Self::Dashboard,
        Self::Traces,
        Self::Outbox,
        Self::Sink,
        Self::Subscription,
        Self::Rule,
    ];

    /// The top-level sections, by their names.
    pub const TOP: [Self; 7] = [
        Self::Relay,
        Self::Http,
        Self::Dashboard,
        Self::Traces,
        Self::Outbox,
        Self::Sink,
        Self::Subscription,
    ];

    /// Its name; for rules, their key in the subscription.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            Self::Http => "http",
            Self::Dashboard => "dashboard",
            Self::Traces => "traces",
            Self::Outbox => "outbox",
            Self::Sink => "sink",
            Self::Subscription => "subscription",
            Self::Rule => "rule",
        }
    }

    /// Its name with an article.
    pub const fn a_word(self) -> &'static str {
        match self {
            Self::Relay => "a relay",
            Self::Http => "an HTTP listener",
            Self::Dashboard => "a dashboard",
            Self::Traces => "an export of traces",
            Self::Outbox => "an outbox",
            Self::Sink => "a sink",
            Self::Subscription => "a subscription",
            Self::Rule => "a rule",
        }
    }

    /// Its description, in one sentence.
    pub const fn doc(self) -> &'static str {
        match self {
            Self::Relay => "The process that delivers events.",
            Self::Http => {
                "The HTTP listener of the relay for `/metrics`, `/livez` and `/readyz`; off unless `listen` is set."
            }
            Self::Dashboard => "The page in the browser that `postrider dashboard` serves.",
            Self::Traces => {
                "The spans of the relay, sent to an OpenTelemetry collector; off unless `endpoint` is set."
            }
            Self::Outbox => "A database that contains events.",
            Self::Sink => "A destination for events.",
            Self::Subscription => {
                "A durable, named consumer of an outbox. Progress is stored under its name: a renamed \
                 subscription is a new one."
            }
            Self::Rule => "A routing rule of the subscription. Rules are evaluated in the order of the file.",
        }
    }

    /// A top-level section by its name.
    pub fn top(word: &str) -> Option<Self> {
        Self::TOP.into_iter().find(|section| section.word() == word)
    }

    /// Whether there may be several, each with its own name.
    pub const fn is_named(self) -> bool {
        !matches!(self, Self::Relay | Self::Http | Self::Dashboard | Self::Traces)
    }
}

impl fmt::Display for Section {
    /// Its heading in the file: `[sink.NAME]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule => f.write_str("[[subscription.NAME.rule]]"),
            section if section.is_named() => write!(f, "[{}.NAME]", section.word()),
            section => write!(f, "[{}]", section.word()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_the_same_name_belong_to_different_types_and_have_the_same_kind() {
        let schema = Schema::postrider();
        for spec in schema.0 {
            let same: Vec<&KeySpec> =
                schema.keys(spec.section).filter(|other| other.name == spec.name).collect();
            assert!(same.iter().all(|other| other.kind == spec.kind), "{}", spec.name);
            let mut types: Vec<Option<&str>> = same.iter().map(|other| other.of_type).collect();
            types.sort_unstable();
            types.dedup();
            assert_eq!(types.len(), same.len(), "{}", spec.name);
            assert!(same.len() == 1 || !types.contains(&None), "{}", spec.name);
        }
    }
}
