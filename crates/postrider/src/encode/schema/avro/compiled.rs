//! The types of a compiled schema. Types refer to each other by index, so that a type may contain itself.

use std::collections::HashMap;
use std::fmt;

/// The index of a type.
pub(super) type TypeId = usize;

#[derive(Debug)]
pub(super) enum Type {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    Uuid(UuidForm),
    Fixed {
        name: String,
        size: usize,
    },
    Enum {
        name: String,
        symbols: Symbols,
    },
    Decimal {
        precision: usize,
        scale: usize,
        fixed: Option<usize>,
        words: String,
    },
    /// A whole number, or a text that is a time.
    Time(TimeUnit),
    Array(TypeId),
    Map(TypeId),
    Record(Record),
    Union(Union),
}

/// How a UUID is stored.
#[derive(Debug, Clone, Copy)]
pub(super) enum UuidForm {
    Text,
    Bytes,
    Fixed,
}

/// What a number counts, and from when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeUnit {
    Days,
    /// Since midnight; nanoseconds per unit.
    OfDay {
        nanos: i128,
    },
    /// Since 1970, in UTC.
    Instant {
        nanos: i128,
    },
    /// Since 1970, without an offset.
    Local {
        nanos: i128,
    },
}

impl TimeUnit {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Days => "a date",
            Self::OfDay { nanos: 1_000_000 } => "a time of day in milliseconds",
            Self::OfDay { .. } => "a time of day in microseconds",
            Self::Instant { nanos: 1_000_000 } => "a timestamp in milliseconds",
            Self::Instant { nanos: 1_000 } => "a timestamp in microseconds",
            Self::Instant { .. } => "a timestamp in nanoseconds",
            Self::Local { nanos: 1_000_000 } => "a local timestamp in milliseconds",
            Self::Local { nanos: 1_000 } => "a local timestamp in microseconds",
            Self::Local { .. } => "a local timestamp in nanoseconds",
        }
    }
}

pub(super) struct Record {
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
    /// Indexes of fields by name, for records with many fields.
    pub(super) by_name: HashMap<String, usize>,
}

/// Without the indexes, which have no order.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("name", &self.name).field("fields", &self.fields).finish()
    }
}

/// The symbols of an enum.
pub(super) struct Symbols {
    all: Vec<String>,
    /// Their indexes, if there are many.
    by_name: HashMap<String, usize>,
}

impl Symbols {
    pub(super) fn new(all: Vec<String>) -> Self {
        let indexed = if all.len() > SCANNED_MAX { all.as_slice() } else { &[] };
        let by_name = indexed.iter().enumerate().map(|(number, name)| (name.clone(), number)).collect();
        Self { all, by_name }
    }

    pub(super) fn index(&self, symbol: &str) -> Option<usize> {
        match self.by_name.is_empty() {
            true => self.all.iter().position(|known| known == symbol),
            false => self.by_name.get(symbol).copied(),
        }
    }
}

/// Without the indexes, which have no order.
impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) of: TypeId,
    /// The bytes of its default.
    pub(super) default: Option<Vec<u8>>,
}

/// Fields are compared one by one up to this number.
const SCANNED_MAX: usize = 12;

impl Record {
    /// The index of a field. `guess` is tried first: objects mostly have the order of the schema.
    pub(super) fn field(
        &self,
        guess: usize,
        is_name: impl Fn(&str) -> bool,
        name: impl Fn() -> String,
    ) -> Option<usize> {
        if self.fields.get(guess).is_some_and(|field| is_name(&field.name)) {
            return Some(guess);
        }
        match self.fields.len() <= SCANNED_MAX {
            true => self.fields.iter().position(|field| is_name(&field.name)),
            false => self.by_name.get(&name()).copied(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Union {
    pub(super) branches: Vec<TypeId>,
    /// The branch of null, if there is one.
    pub(super) null: Option<usize>,
    /// The only other branch, if there is only one.
    pub(super) only: Option<usize>,
    /// The names of all branches.
    pub(super) words: String,
}

/// The first names of a list.
pub(super) fn listed<'a>(names: impl Iterator<Item = &'a str>, separator: &str) -> String {
    const SHOWN_MAX: usize = 10;
    let mut names = names.peekable();
    let mut shown: Vec<&str> = names.by_ref().take(SHOWN_MAX).collect();
    shown.extend(names.peek().map(|_| "..."));
    shown.join(separator)
}

impl Type {
    /// What a value of it is called in errors.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Null => "null".into(),
            Self::Boolean => "boolean".into(),
            Self::Int => "int".into(),
            Self::Long => "long".into(),
            Self::Float => "float".into(),
            Self::Double => "double".into(),
            Self::Bytes => "bytes in base64".into(),
            Self::Text => "string".into(),
            Self::Uuid(_) => "a UUID".into(),
            Self::Fixed { name, size } => format!("{name}, {size} bytes in base64"),
            Self::Enum { name, symbols } => {
                format!("a symbol of {name} ({})", listed(symbols.all.iter().map(String::as_str), ", "))
            }
            Self::Decimal { words, .. } => words.clone(),
            Self::Time(unit) => unit.words().into(),
            Self::Array(_) => "an array".into(),
            Self::Map(_) => "a map".into(),
            Self::Record(record) => format!("record {}", record.name),
            Self::Union(union) => union.words.clone(),
        }
    }
}
