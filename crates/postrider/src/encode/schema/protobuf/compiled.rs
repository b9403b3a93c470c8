//! The messages of a compiled schema. They refer to each other by index, so that a message may contain itself.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub(super) type MessageId = usize;

#[derive(Debug)]
pub(super) struct Message {
    pub(super) name: String,
    /// In the order of their numbers.
    pub(super) fields: Vec<Field>,
    /// Indexes of fields by their names in JSON and in the file.
    pub(super) by_name: HashMap<String, usize>,
    /// A type of `google.protobuf` with its own form in JSON.
    pub(super) well_known: Option<WellKnown>,
}

#[derive(Debug)]
pub(super) struct Field {
    /// In the file.
    pub(super) name: String,
    /// In JSON.
    pub(super) json_name: String,
    pub(super) of: Type,
    pub(super) form: Form,
    /// The index of its oneof.
    pub(super) oneof: Option<usize>,
    /// Number and wire type.
    pub(super) tag: Vec<u8>,
}

/// How often a field occurs, and how that is written.
#[derive(Debug)]
pub(super) enum Form {
    /// The default value is not written.
    Implicit,
    /// Written whenever it is given.
    Explicit,
    /// As `Explicit`; missing is an error.
    Required,
    /// Each item with its tag.
    Repeated,
    /// All items in one block.
    Packed,
    /// Entries with a key of this type.
    Map { key: Type },
}

#[derive(Debug, Clone)]
pub(super) enum Type {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    Text,
    Bytes,
    Enum(Arc<EnumType>),
    Message(MessageId),
}

#[derive(Debug)]
pub(super) struct EnumType {
    pub(super) name: String,
    pub(super) numbers: HashMap<String, i32>,
    pub(super) known: HashSet<i32>,
    /// `google.protobuf.NullValue`, which is null in JSON.
    pub(super) is_null: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WellKnown {
    Timestamp,
    Duration,
    FieldMask,
    Struct,
    Value,
    ListValue,
    /// A message with one field `value`, which is that value in JSON.
    Wrapper,
}

impl Type {
    /// 0 varint, 1 eight bytes, 2 with a length, 5 four bytes.
    pub(super) fn wire_type(&self) -> u32 {
        match self {
            Self::Double | Self::Fixed64 | Self::Sfixed64 => 1,
            Self::Float | Self::Fixed32 | Self::Sfixed32 => 5,
            Self::Text | Self::Bytes | Self::Message(_) => 2,
            _ => 0,
        }
    }

    /// What a value of it is called in errors.
    pub(super) fn words(&self, messages: &[Message]) -> String {
        match self {
            Self::Double => "double".into(),
            Self::Float => "float".into(),
            Self::Int32 | Self::Sint32 | Self::Sfixed32 => "a 32-bit integer".into(),
            Self::Int64 | Self::Sint64 | Self::Sfixed64 => "a 64-bit integer".into(),
            Self::Uint32 | Self::Fixed32 => "a 32-bit integer without sign".into(),
            Self::Uint64 | Self::Fixed64 => "a 64-bit integer without sign".into(),
            Self::Bool => "bool".into(),
            Self::Text => "string".into(),
            Self::Bytes => "bytes in base64".into(),
            Self::Enum(of) => format!("a value of {}", of.name),
            Self::Message(id) => {
                format!("message {}", messages.get(*id).map(|message| &*message.name).unwrap_or_default())
            }
        }
    }
}

impl Message {
    /// The index of a field. `guess` is tried first.
    pub(super) fn field(
        &self,
        guess: usize,
        is_name: impl Fn(&str) -> bool,
        name: impl Fn() -> String,
    ) -> Option<usize> {
        // A name in the file may be the name in JSON of another field, which has precedence.
        let is_field = |field: &Field| {
            is_name(&field.json_name) || is_name(&field.name) && self.by_name.get(&field.name) == Some(&guess)
        };
        if self.fields.get(guess).is_some_and(is_field) {
            return Some(guess);
        }
        self.by_name.get(&name()).copied()
    }
}
