//! Writes values of a document as binary Avro.

use super::super::Rules;
use super::super::dropped::DroppedFields;
use super::super::json::{Document, Kind, Value};
use super::super::limits::{BYTES_PER_STEP, ENCODED_BYTES_MAX, STEPS_MAX};
use super::super::misfit::Misfit;
use super::super::number::{self, Fit};
use super::compiled::{Record, TimeUnit, Type, TypeId, UuidForm};

/// The name of a map's entries in errors of sorting.
const NO_SLOT: u32 = u32::MAX;

/// The state of one write.
pub(super) struct Writer<'s, 'o> {
    pub(super) types: &'s [Type],
    pub(super) rules: Rules,
    pub(super) out: &'o mut Vec<u8>,
    /// The value of each field of the records in progress, by its index in the document.
    slots: Vec<u32>,
    /// What was done, tried branches of unions included: see [`STEPS_MAX`].
    steps: usize,
    /// Fields of objects that the schema has: how well a branch of a union explains its value.
    pub(super) explained: usize,
    /// How loosely it does: defaults used, and types that hold more than the value.
    pub(super) looseness: usize,
    /// Fields that the schema does not have, by record and the index of their name.
    pub(super) dropped: Vec<(TypeId, u32)>,
    /// Unions where several branches fit equally well.
    pub(super) ties: Vec<TypeId>,
}

impl<'s, 'o> Writer<'s, 'o> {
    pub(super) fn new(types: &'s [Type], rules: Rules, out: &'o mut Vec<u8>) -> Self {
        Self {
            types,
            rules,
            out,
            slots: Vec::new(),
            steps: 0,
            explained: 0,
            looseness: 0,
            dropped: Vec::new(),
            ties: Vec::new(),
        }
    }

    /// Reports dropped fields and ties that were not reported before.
    pub(super) fn report(&self, document: &Document<'_>, dropped: &DroppedFields) {
        for (record, name) in &self.dropped {
            if let Some(Type::Record(record)) = self.types.get(*record) {
                dropped.report(&record.name, &document.at(*name).text());
            }
        }
        for union in &self.ties {
            if let Some(Type::Union(union)) = self.types.get(*union) {
                dropped.report_tie(&union.words);
            }
        }
    }

    /// Appends a value.
    pub(super) fn value(&mut self, of: TypeId, value: Value<'_>) -> Fit<()> {
        self.steps += 1;
        let types = self.types;
        let Some(of_type) = types.get(of) else { return Err(Misfit::new("a known type", "none")) };
        if self.steps > STEPS_MAX || self.out.len() > ENCODED_BYTES_MAX {
            return Err(Misfit::new(of_type.words(), "a payload that is too large for its schema"));
        }
        let kind = value.kind();
        if kind == Kind::Text {
            self.steps += value.raw().len() / BYTES_PER_STEP;
        }
        let misfit = |found: &str| Misfit::new(of_type.words(), found);
        match (of_type, kind) {
            (Type::Null, Kind::Null) => {}
            (Type::Boolean, Kind::Bool(truth)) => self.out.push(truth.into()),
            (Type::Int, Kind::Number) => {
                put_long(
                    long(number::integer(value, "int", i32::MIN.into(), i32::MAX.into(), false)?),
                    self.out,
                );
            }
            (Type::Long, Kind::Number) => {
                self.looseness += 1;
                put_long(
                    long(number::integer(value, "long", i64::MIN.into(), i64::MAX.into(), false)?),
                    self.out,
                );
            }
            (Type::Float, Kind::Number) => {
                self.looseness += 3;
                self.out.extend(number::float(value, "float", false)?.to_le_bytes());
            }
            (Type::Double, Kind::Number) => {
                self.looseness += 4;
                self.out.extend(number::double(value, "double", false)?.to_le_bytes());
            }
            (Type::Text, Kind::Text) => {
                self.looseness += 3;
                put_text(&value.text(), self.out);
            }
            (Type::Bytes, Kind::Text) => {
                self.looseness += 4;
                let bytes = number::base64(value, "bytes in base64")?;
                self.put_bytes(&bytes);
            }
            (Type::Fixed { size, .. }, Kind::Text) => {
                self.looseness += 2;
                let bytes = number::base64(value, &of_type.words())?;
                if bytes.len() != *size {
                    return Err(misfit("another number of bytes"));
                }
                self.out.extend(bytes);
            }
            (Type::Uuid(form), Kind::Text) => {
                self.looseness += 1;
                self.uuid(*form, value).ok_or_else(|| misfit("a text that is no UUID"))?;
            }
            (Type::Enum { symbols, .. }, Kind::Text) => {
                let symbol = symbols.index(&value.text());
                let symbol = symbol.ok_or_else(|| misfit("another text"))?;
                put_long(i64::try_from(symbol).unwrap_or(i64::MAX), self.out);
            }
            (Type::Decimal { precision, scale, fixed, words }, Kind::Number | Kind::Text) => {
                self.looseness += 2;
                let bytes = number::decimal(value, words, *precision, *scale)?;
                self.steps += bytes.len() + fixed.unwrap_or_default() / BYTES_PER_STEP;
                match fixed {
                    None => self.put_bytes(&bytes),
                    Some(size) => {
                        let sign =
                            if bytes.first().is_some_and(|first| first & 0x80 != 0) { 0xff } else { 0 };
                        let missing = size.checked_sub(bytes.len());
                        let missing = missing.ok_or_else(|| misfit("a number with more digits"))?;
                        self.out.extend(std::iter::repeat_n(sign, missing));
                        self.out.extend(bytes);
                    }
                }
            }
            (Type::Time(unit), Kind::Number | Kind::Text) => {
                self.looseness += 1;
                put_long(time(*unit, value)?, self.out);
            }
            (Type::Array(item), Kind::Array) => self.array(*item, value)?,
            (Type::Map(of), Kind::Object) => self.map(*of, value)?,
            (Type::Record(record), Kind::Object) => self.record(of, record, value)?,
            (Type::Union(union), _) => self.union(of, union, value)?,
            _ => return Err(misfit(kind.words())),
        }
        Ok(())
    }

    fn uuid(&mut self, form: UuidForm, value: Value<'_>) -> Option<()> {
        let text = value.text();
        let uuid = uuid::Uuid::try_parse(&text).ok().filter(|_| text.len() == 36)?;
        match form {
            UuidForm::Text => put_text(&text, self.out),
            UuidForm::Bytes => self.put_bytes(uuid.as_bytes()),
            UuidForm::Fixed => self.out.extend(uuid.as_bytes()),
        }
        Some(())
    }

    fn array(&mut self, item: TypeId, value: Value<'_>) -> Fit<()> {
        let count = value.items().count();
        if count > 0 {
            put_long(i64::try_from(count).unwrap_or(i64::MAX), self.out);
            for (number, value) in value.items().enumerate() {
                self.value(item, value).map_err(|misfit| misfit.in_item(number))?;
            }
        }
        self.out.push(0);
        Ok(())
    }

    /// Entries are sorted by name, whatever their order in the payload.
    fn map(&mut self, of: TypeId, value: Value<'_>) -> Fit<()> {
        self.looseness += 2;
        let mut entries: Vec<_> = value.entries().map(|(name, value)| (name.text(), value)).collect();
        self.steps += entries.len();
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Misfit::new("each name once", "it twice").in_field(&pair[0].0));
        }
        if !entries.is_empty() {
            put_long(i64::try_from(entries.len()).unwrap_or(i64::MAX), self.out);
            for (name, value) in entries {
                put_text(&name, self.out);
                self.value(of, value).map_err(|misfit| misfit.in_field(&name))?;
            }
        }
        self.out.push(0);
        Ok(())
    }

    fn record(&mut self, id: TypeId, record: &Record, value: Value<'_>) -> Fit<()> {
        let base = self.slots.len();
        self.steps += record.fields.len();
        self.slots.resize(base + record.fields.len(), NO_SLOT);
        let mut guess = 0;
        for (name, value) in value.entries() {
            self.steps += 1;
            let field = record.field(guess, |known| name.is_text(known), || name.text().into_owned());
            let Some(field) = field else {
                self.unknown(id, record, name)?;
                continue;
            };
            guess = field + 1;
            let slot = self.slots.get_mut(base + field);
            let before = slot.map_or(NO_SLOT, |slot| std::mem::replace(slot, value.index()));
            if before != NO_SLOT {
                return Err(Misfit::new("each name once", "it twice").in_field(&name.text()));
            }
            self.explained += 1;
        }
        for (number, field) in record.fields.iter().enumerate() {
            let slot = self.slots.get(base + number).copied().unwrap_or(NO_SLOT);
            match (&field.default, slot) {
                (Some(default), NO_SLOT) => {
                    self.looseness += 1;
                    self.out.extend_from_slice(default);
                }
                (None, NO_SLOT) => {
                    let words = self.types.get(field.of).map(Type::words).unwrap_or_default();
                    return Err(Misfit::new(words, "nothing").in_field(&field.name));
                }
                (_, at) => {
                    self.value(field.of, value.elsewhere(at))
                        .map_err(|misfit| misfit.in_field(&field.name))?;
                }
            }
        }
        self.slots.truncate(base);
        Ok(())
    }

    fn unknown(&mut self, id: TypeId, record: &Record, name: Value<'_>) -> Fit<()> {
        if self.rules.refuses_unknown_fields {
            let wanted = format!("a field of record {}", record.name);
            return Err(Misfit::new(wanted, "a field that the schema does not have").in_field(&name.text()));
        }
        self.dropped.push((id, name.index()));
        Ok(())
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        put_long(i64::try_from(bytes.len()).unwrap_or(i64::MAX), self.out);
        self.out.extend_from_slice(bytes);
    }

    /// What a failed try of a branch leaves behind is removed.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            out: self.out.len(),
            slots: self.slots.len(),
            dropped: self.dropped.len(),
            ties: self.ties.len(),
            explained: self.explained,
            looseness: self.looseness,
        }
    }

    pub(super) fn reset(&mut self, mark: &Mark) {
        self.out.truncate(mark.out);
        self.slots.truncate(mark.slots);
        self.dropped.truncate(mark.dropped);
        self.ties.truncate(mark.ties);
        (self.explained, self.looseness) = (mark.explained, mark.looseness);
    }

    /// Whether no branch can be tried any more.
    pub(super) fn is_exhausted(&self) -> bool {
        self.steps > STEPS_MAX || self.out.len() > ENCODED_BYTES_MAX
    }
}

/// The state of a writer before a try.
pub(super) struct Mark {
    out: usize,
    slots: usize,
    dropped: usize,
    ties: usize,
    pub(super) explained: usize,
    pub(super) looseness: usize,
}

/// A number that was checked to be in range.
fn long(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Texts are read as times; numbers are already in the unit.
fn time(unit: TimeUnit, value: Value<'_>) -> Fit<i64> {
    const DAY_NANOS: i128 = 86_400_000_000_000;
    let wanted = unit.words();
    let (nanos, per_unit, min, max) = match unit {
        TimeUnit::Days => (None, 1, i128::from(i32::MIN), i128::from(i32::MAX)),
        TimeUnit::OfDay { nanos } => {
            (Some(number::time_nanos as fn(_, _) -> _), nanos, 0, DAY_NANOS / nanos - 1)
        }
        TimeUnit::Instant { nanos } => {
            (Some(number::instant_nanos as fn(_, _) -> _), nanos, i64::MIN.into(), i64::MAX.into())
        }
        TimeUnit::Local { nanos } => {
            (Some(number::local_nanos as fn(_, _) -> _), nanos, i64::MIN.into(), i64::MAX.into())
        }
    };
    if value.kind() == Kind::Number {
        return number::integer(value, wanted, min, max, false).map(long);
    }
    let Some(nanos) = nanos else { return number::days(value, wanted).map(long) };
    let read: i128 = nanos(value, wanted)?;
    if read % per_unit != 0 {
        return Err(Misfit::new(wanted, "a time with more decimals"));
    }
    i64::try_from(read / per_unit).map_err(|_| Misfit::new(wanted, "a time out of range"))
}

/// Appends a number as a zigzag varint.
#[expect(clippy::cast_sign_loss, reason = "zigzag encoding reinterprets the sign bit")]
pub(in super::super) fn put_long(number: i64, out: &mut Vec<u8>) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest.to_le_bytes()[0] | 0x80);
        rest >>= 7;
    }
    out.push(rest.to_le_bytes()[0]);
}

/// Appends a text with its length.
pub(in super::super) fn put_text(text: &str, out: &mut Vec<u8>) {
    put_long(i64::try_from(text.len()).unwrap_or(i64::MAX), out);
    out.extend_from_slice(text.as_bytes());
}
