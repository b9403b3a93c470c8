//! Writes values of a document as binary Protobuf.

use super::super::Rules;
use super::super::dropped::DroppedFields;
use super::super::json::{Document, Kind, Value};
use super::super::limits::{BYTES_PER_STEP, ENCODED_BYTES_MAX, STEPS_MAX};
use super::super::misfit::Misfit;
use super::super::number::{self, Fit};
use super::compiled::{EnumType, Field, Form, Message, MessageId, Type};

const NO_SLOT: u32 = u32::MAX;

/// The state of one write.
pub(super) struct Writer<'s, 'o> {
    pub(super) messages: &'s [Message],
    rules: Rules,
    pub(super) out: &'o mut Vec<u8>,
    /// The value of each field of the messages in progress, by its index in the document.
    slots: Vec<u32>,
    steps: usize,
    dropped: Vec<(MessageId, u32)>,
}

impl<'s, 'o> Writer<'s, 'o> {
    pub(super) fn new(messages: &'s [Message], rules: Rules, out: &'o mut Vec<u8>) -> Self {
        Self { messages, rules, out, slots: Vec::new(), steps: 0, dropped: Vec::new() }
    }

    /// Reports dropped fields that were not reported before.
    pub(super) fn report(&self, document: &Document<'_>, dropped: &DroppedFields) {
        for (message, name) in &self.dropped {
            if let Some(message) = self.messages.get(*message) {
                dropped.report(&message.name, &document.at(*name).text());
            }
        }
    }

    /// Appends the fields of a message, without tag and length.
    pub(super) fn message(&mut self, id: MessageId, value: Value<'_>) -> Fit<()> {
        let messages = self.messages;
        let Some(message) = messages.get(id) else { return Err(Misfit::new("a known message", "none")) };
        if let Some(known) = message.well_known {
            return self.well_known(known, message, value);
        }
        if value.kind() != Kind::Object {
            return Err(Misfit::new(format!("message {}", message.name), value.kind().words()));
        }
        let base = self.slots.len();
        self.steps += message.fields.len();
        self.check(|| format!("message {}", message.name))?;
        self.slots.resize(base + message.fields.len(), NO_SLOT);
        let mut guess = 0;
        for (name, value) in value.entries() {
            let field = message.field(guess, |known| name.is_text(known), || name.text().into_owned());
            let Some(field) = field else {
                self.unknown(id, message, name)?;
                continue;
            };
            guess = field + 1;
            let slot = self.slots.get_mut(base + field);
            let before = slot.map_or(NO_SLOT, |slot| std::mem::replace(slot, value.index()));
            if before != NO_SLOT {
                return Err(Misfit::new("each name once", "it twice").in_field(&name.text()));
            }
        }
        let mut oneofs = Vec::new();
        for (number, field) in message.fields.iter().enumerate() {
            match self.slots.get(base + number).copied() {
                Some(NO_SLOT) | None => {
                    if matches!(field.form, Form::Required) {
                        return Err(Misfit::new(field.of.words(messages), "nothing").in_field(&field.name));
                    }
                }
                Some(at) => {
                    let value = value.elsewhere(at);
                    let written = self.field(field, value).map_err(|misfit| misfit.in_field(&field.name))?;
                    if let Some(oneof) = field.oneof.filter(|_| written) {
                        self.steps += oneofs.len();
                        if oneofs.contains(&oneof) {
                            let misfit = Misfit::new("one field of its oneof", "a second one");
                            return Err(misfit.in_field(&field.name));
                        }
                        oneofs.push(oneof);
                    }
                }
            }
        }
        self.slots.truncate(base);
        Ok(())
    }

    fn unknown(&mut self, id: MessageId, message: &Message, name: Value<'_>) -> Fit<()> {
        if self.rules.refuses_unknown_fields {
            let wanted = format!("a field of message {}", message.name);
            return Err(Misfit::new(wanted, "a field that the schema does not have").in_field(&name.text()));
        }
        self.dropped.push((id, name.index()));
        Ok(())
    }

    /// Appends a field. Returns whether it has a value: null stands for none where the schema can tell the difference.
    pub(super) fn field(&mut self, field: &Field, value: Value<'_>) -> Fit<bool> {
        if value.kind() == Kind::Null && matches!(field.form, Form::Explicit) && !self.takes_null(&field.of) {
            return Ok(false);
        }
        let wanted = |what: &str| Misfit::new(what, value.kind().words());
        match &field.form {
            Form::Explicit | Form::Required => {
                self.out.extend_from_slice(&field.tag);
                self.value(&field.of, value)?;
            }
            Form::Implicit => {
                let start = self.out.len();
                self.out.extend_from_slice(&field.tag);
                let content = self.out.len();
                self.value(&field.of, value)?;
                // All defaults consist of zero bytes: 0, false, 0.0, the first value of an enum, and the length of nothing.
                if self.out.iter().skip(content).all(|byte| *byte == 0)
                    && is_default(&field.of, self.out.len() - content)
                {
                    self.out.truncate(start);
                }
            }
            Form::Repeated => {
                if value.kind() != Kind::Array {
                    return Err(wanted("an array"));
                }
                for (number, item) in value.items().enumerate() {
                    self.out.extend_from_slice(&field.tag);
                    self.value(&field.of, item).map_err(|misfit| misfit.in_item(number))?;
                }
            }
            Form::Packed => {
                if value.kind() != Kind::Array {
                    return Err(wanted("an array"));
                }
                if value.items().next().is_none() {
                    return Ok(true);
                }
                self.out.extend_from_slice(&field.tag);
                self.with_length(|writer| {
                    let mut items = value.items().enumerate();
                    items.try_for_each(|(number, item)| {
                        writer.value(&field.of, item).map_err(|misfit| misfit.in_item(number))
                    })
                })?;
            }
            Form::Map { key } => {
                if value.kind() != Kind::Object {
                    return Err(wanted("an object"));
                }
                self.map(field, key, value)?;
            }
        }
        Ok(true)
    }

    fn takes_null(&self, of: &Type) -> bool {
        match of {
            Type::Enum(of) => of.is_null,
            Type::Message(id) => {
                let message = self.messages.get(*id);
                message.is_some_and(|message| message.well_known == Some(super::compiled::WellKnown::Value))
            }
            _ => false,
        }
    }

    /// Appends the entries of a map, sorted by key.
    fn map(&mut self, field: &Field, key: &Type, value: Value<'_>) -> Fit<()> {
        let mut entries = Vec::new();
        for (name, value) in value.entries() {
            let key = MapKey::of(key, name).map_err(|misfit| misfit.in_field(&name.text()))?;
            entries.push((key, name, value));
        }
        entries.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Misfit::new("each name once", "it twice").in_field(&pair[0].1.text()));
        }
        for (sorted, name, value) in entries {
            self.out.extend_from_slice(&field.tag);
            self.with_length(|writer| {
                // Keys have number 1 and values number 2; both are always written.
                put_varint(u64::from(1 << 3 | key.wire_type()), writer.out);
                sorted.put(key, writer.out);
                put_varint(u64::from(2 << 3 | field.of.wire_type()), writer.out);
                writer.value(&field.of, value)
            })
            .map_err(|misfit| misfit.in_field(&name.text()))?;
        }
        Ok(())
    }

    /// Appends a value without its tag.
    pub(super) fn value(&mut self, of: &Type, value: Value<'_>) -> Fit<()> {
        self.steps += 1;
        if value.kind() == Kind::Text {
            self.steps += value.raw().len() / BYTES_PER_STEP;
        }
        let messages = self.messages;
        let words = || of.words(messages);
        self.check(words)?;
        match (of, value.kind()) {
            (Type::Double, _) => self.out.extend(number::double(value, "double", true)?.to_le_bytes()),
            (Type::Float, _) => self.out.extend(number::float(value, "float", true)?.to_le_bytes()),
            (Type::Bool, Kind::Bool(truth)) => self.out.push(truth.into()),
            (Type::Text, Kind::Text) => {
                let text = value.text();
                put_varint(text.len() as u64, self.out);
                self.out.extend_from_slice(text.as_bytes());
            }
            (Type::Bytes, Kind::Text) => {
                let bytes = number::base64(value, "bytes in base64")?;
                put_varint(bytes.len() as u64, self.out);
                self.out.extend(bytes);
            }
            (Type::Enum(of), _) => {
                let number = enum_number(of, value, &words())?;
                put_varint(sign_extended(number.into()), self.out);
            }
            (Type::Message(id), _) => return self.with_length(|writer| writer.message(*id, value)),
            (Type::Bool | Type::Text | Type::Bytes, kind) => return Err(Misfit::new(words(), kind.words())),
            (integer, _) => {
                let (min, max) = range(integer);
                put_integer(integer, number::integer(value, &words(), min, max, true)?, self.out);
            }
        }
        Ok(())
    }

    /// Whether the limits of one event are kept.
    fn check(&self, words: impl Fn() -> String) -> Fit<()> {
        match self.steps > STEPS_MAX || self.out.len() > ENCODED_BYTES_MAX {
            true => Err(Misfit::new(words(), "a payload that is too large for its schema")),
            false => Ok(()),
        }
    }

    /// Puts the length of what is appended before it.
    pub(super) fn with_length(&mut self, append: impl FnOnce(&mut Self) -> Fit<()>) -> Fit<()> {
        let start = self.out.len();
        self.out.push(0);
        append(self)?;
        let length = self.out.len() - start - 1;
        if let (Ok(byte @ 0..=0x7f), Some(place)) = (u8::try_from(length), self.out.get_mut(start)) {
            *place = byte;
        } else {
            let mut varint = Vec::with_capacity(5);
            put_varint(length as u64, &mut varint);
            self.out.splice(start..=start, varint);
        }
        Ok(())
    }
}

/// Whether bytes that are all zero are the default, by their number.
fn is_default(of: &Type, length: usize) -> bool {
    match of.wire_type() {
        1 => length == 8,
        5 => length == 4,
        _ => length == 1,
    }
}

fn enum_number(of: &EnumType, value: Value<'_>, words: &str) -> Fit<i32> {
    let found = match value.kind() {
        Kind::Null if of.is_null => return Ok(0),
        Kind::Text => of.numbers.get(&*value.text()).copied(),
        Kind::Number => {
            let number = number::integer(value, words, i32::MIN.into(), i32::MAX.into(), false)?;
            i32::try_from(number).ok().filter(|number| of.known.contains(number))
        }
        kind => return Err(Misfit::new(words, kind.words())),
    };
    found.ok_or_else(|| Misfit::new(words, "another value"))
}

/// The key of an entry, in the order in which entries are written.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MapKey {
    Number(i128),
    Text(String),
}

impl MapKey {
    fn of(of: &Type, name: Value<'_>) -> Fit<Self> {
        let text = name.text();
        Ok(match of {
            Type::Text => Self::Text(text.into_owned()),
            Type::Bool if text == "false" => Self::Number(0),
            Type::Bool if text == "true" => Self::Number(1),
            Type::Bool => return Err(Misfit::new("the key true or false", "another text")),
            integer => {
                let (min, max) = range(integer);
                Self::Number(number::integer(name, "a number as the key", min, max, true)?)
            }
        })
    }

    fn put(&self, of: &Type, out: &mut Vec<u8>) {
        match (self, of) {
            (Self::Text(text), _) => {
                put_varint(text.len() as u64, out);
                out.extend_from_slice(text.as_bytes());
            }
            (Self::Number(number), Type::Bool) => out.push(u8::from(*number != 0)),
            (Self::Number(number), of) => put_integer(of, *number, out),
        }
    }
}

fn range(of: &Type) -> (i128, i128) {
    match of {
        Type::Int32 | Type::Sint32 | Type::Sfixed32 => (i32::MIN.into(), i32::MAX.into()),
        Type::Uint32 | Type::Fixed32 => (0, u32::MAX.into()),
        Type::Uint64 | Type::Fixed64 => (0, u64::MAX.into()),
        _ => (i64::MIN.into(), i64::MAX.into()),
    }
}

/// Appends a number that was checked to be in the range of its type.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the number is in range")]
fn put_integer(of: &Type, number: i128, out: &mut Vec<u8>) {
    match of {
        Type::Fixed32 => out.extend((number as u32).to_le_bytes()),
        Type::Sfixed32 => out.extend((number as i32).to_le_bytes()),
        Type::Fixed64 => out.extend((number as u64).to_le_bytes()),
        Type::Sfixed64 => out.extend((number as i64).to_le_bytes()),
        Type::Sint32 | Type::Sint64 => {
            let number = number as i64;
            put_varint(((number << 1) ^ (number >> 63)) as u64, out);
        }
        Type::Uint32 | Type::Uint64 => put_varint(number as u64, out),
        _ => put_varint(sign_extended(number as i64), out),
    }
}

/// Negative numbers are written with 64 bits.
#[expect(clippy::cast_sign_loss, reason = "Protobuf reinterprets the sign bit")]
pub(super) fn sign_extended(number: i64) -> u64 {
    number as u64
}

/// Appends a varint.
pub(in super::super) fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}
