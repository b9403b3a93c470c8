//! What may stand in the configuration: sections, keys and their types. The table is in `keys.rs`, with the keys of each sink
//! type beside its code in [`crate::sinks`]; reading,
//! checking, showing, the starter file, the JSON Schema and the page in the docs all come from it.

mod keys;

use std::fmt;
use std::sync::LazyLock;

use super::kind::Kind;

/// A set of keys. There is one for people, [`Schema::postrider`]; tests make small ones of their own.
#[derive(Debug, Clone, Copy)]
pub struct Schema(pub &'static [KeySpec]);

impl Schema {
    /// The keys of `postrider.toml`.
    pub fn postrider() -> Self {
        static KEYS: LazyLock<Vec<KeySpec>> = LazyLock::new(keys::all);
        Self(&KEYS)
    }

    /// The keys of one section, in the order people read them.
    pub fn keys(self, section: Section) -> impl Iterator<Item = &'static KeySpec> {
        self.0.iter().filter(move |spec| spec.section == section)
    }

    /// A key by its name.
    pub fn find(self, section: Section, name: &str) -> Option<&'static KeySpec> {
        self.keys(section).find(|spec| spec.name == name)
    }
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct KeySpec {
    /// Where it stands.
    pub section: Section,
    /// Its name there.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What holds when it is not given.
    pub absent: Absent,
    /// The one `type` of its section it belongs to; with another it is an error.
    pub of_type: Option<&'static str>,
    /// One sentence.
    pub doc: &'static str,
    /// A right value that is not the default, as TOML.
    pub example: &'static str,
}

/// What holds when a key is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// It is an error.
    Error,
    /// Nothing is set; the sentence of the key says what that means.
    Nothing,
    /// This value, as one would write it after `--set key=`.
    Default(&'static str),
}

/// A number of things.
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
        Self { section, name, kind, absent: Absent::Nothing, of_type: None, doc, example }
    }

    pub(crate) const fn required(mut self) -> Self {
        self.absent = Absent::Error;
        self
    }

    pub(crate) const fn default(mut self, text: &'static str) -> Self {
        self.absent = Absent::Default(text);
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
    /// All, in the order people read them.
    pub const ALL: [Self; 5] = [Self::Relay, Self::Outbox, Self::Sink, Self::Subscription, Self::Rule];

    /// The sections at the top of the file, by the word they start with.
    pub const TOP: [Self; 4] = [Self::Relay, Self::Outbox, Self::Sink, Self::Subscription];

    /// The word it starts with; for rules, the key they stand under.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            Self::Outbox => "outbox",
            Self::Sink => "sink",
            Self::Subscription => "subscription",
            Self::Rule => "rule",
        }
    }

    /// The word with its article.
    pub const fn a_word(self) -> &'static str {
        match self {
            Self::Relay => "a relay",
            Self::Outbox => "an outbox",
            Self::Sink => "a sink",
            Self::Subscription => "a subscription",
            Self::Rule => "a rule",
        }
    }

    /// What it describes, in one sentence.
    pub const fn doc(self) -> &'static str {
        match self {
            Self::Relay => "The process that delivers events.",
            Self::Outbox => "A database that contains events.",
            Self::Sink => "A destination for events.",
            Self::Subscription => {
                "A durable, named consumer of an outbox. Progress is stored under its name: a renamed \
                 subscription is a new one."
            }
            Self::Rule => "A routing rule of the subscription. Rules are evaluated in the order of the file.",
        }
    }

    /// A section at the top of the file by its word.
    pub fn top(word: &str) -> Option<Self> {
        Self::TOP.into_iter().find(|section| section.word() == word)
    }

    /// Whether there may be several, each with a name.
    pub const fn is_named(self) -> bool {
        !matches!(self, Self::Relay)
    }
}

impl fmt::Display for Section {
    /// As it stands in the file: `[sink.NAME]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule => f.write_str("[[subscription.NAME.rule]]"),
            section if section.is_named() => write!(f, "[{}.NAME]", section.word()),
            section => write!(f, "[{}]", section.word()),
        }
    }
}
