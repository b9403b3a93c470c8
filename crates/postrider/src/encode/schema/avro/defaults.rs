//! The bytes of defaults. In a schema, a default is JSON in Avro's own form: bytes are a text of the code points 0 to 255, and the
//! default of a union is a value of one of its branches.

use std::cell::Cell;
use std::collections::HashMap;

use serde_json::Value;

use super::super::limits::{DEFAULT_STEPS_MAX, DEFAULTS_BYTES_MAX};
use super::compiled::{Type, TypeId, UuidForm};
use super::write::{put_long, put_text};

/// A default larger than this would be a mistake.
const BYTES_MAX: usize = 64 * 1024;

/// A record whose default contains itself has no end.
const DEPTH_MAX: usize = 32;

pub(super) struct Defaults<'a> {
    types: &'a [Type],
    all: &'a [(TypeId, usize, Value)],
    /// The defaults by record and field.
    of_field: HashMap<(TypeId, usize), &'a Value>,
    /// Values that were tried.
    steps: Cell<usize>,
}

impl<'a> Defaults<'a> {
    pub(super) fn new(types: &'a [Type], all: &'a [(TypeId, usize, Value)]) -> Self {
        let of_field = all.iter().map(|(record, field, value)| ((*record, *field), value)).collect();
        Self { types, all, of_field, steps: Cell::new(0) }
    }

    /// The bytes of each default, in their order.
    pub(super) fn all(&self) -> Result<Vec<Vec<u8>>, String> {
        let mut total = 0;
        let bytes = |(record, field, value): &(TypeId, usize, Value)| {
            let Some(Type::Record(record)) = self.types.get(*record) else { return Ok(Vec::new()) };
            let Some(field) = record.fields.get(*field) else { return Ok(Vec::new()) };
            let mut out = Vec::new();
            self.put(field.of, value, &mut out, 0)
                .map_err(|why| format!("the default of {}.{}: {why}", record.name, field.name))?;
            total += out.len();
            match total {
                0..=DEFAULTS_BYTES_MAX => Ok(out),
                _ => Err(format!("its defaults have more than {DEFAULTS_BYTES_MAX} bytes together")),
            }
        };
        self.all.iter().map(bytes).collect()
    }

    fn put(&self, of: TypeId, value: &Value, out: &mut Vec<u8>, depth: usize) -> Result<(), String> {
        let Some(of_type) = self.types.get(of) else { return Err("its type is unknown".into()) };
        let misfit = || format!("it is no {}", of_type.words());
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > DEFAULT_STEPS_MAX {
            return Err(format!("the defaults take more than {DEFAULT_STEPS_MAX} steps"));
        }
        if depth > DEPTH_MAX {
            return Err("it contains itself, or is nested too deeply".into());
        }
        match of_type {
            Type::Null => value.as_null().ok_or_else(misfit)?,
            Type::Boolean => out.push(value.as_bool().ok_or_else(misfit)?.into()),
            Type::Int => {
                put_long(i32::try_from(value.as_i64().ok_or_else(misfit)?).map_err(|_| misfit())?.into(), out)
            }
            Type::Long | Type::Time(_) => put_long(value.as_i64().ok_or_else(misfit)?, out),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the nearest float is what the schema asks for"
            )]
            Type::Float => out.extend((value.as_f64().ok_or_else(misfit)? as f32).to_le_bytes()),
            Type::Double => out.extend(value.as_f64().ok_or_else(misfit)?.to_le_bytes()),
            Type::Text | Type::Uuid(UuidForm::Text) => put_text(value.as_str().ok_or_else(misfit)?, out),
            Type::Bytes | Type::Uuid(UuidForm::Bytes) | Type::Decimal { fixed: None, .. } => {
                let bytes = latin(value).ok_or_else(misfit)?;
                put_long(i64::try_from(bytes.len()).unwrap_or(i64::MAX), out);
                out.extend(bytes);
            }
            Type::Fixed { size, .. } | Type::Decimal { fixed: Some(size), .. } => {
                out.extend(latin(value).filter(|bytes| bytes.len() == *size).ok_or_else(misfit)?);
            }
            Type::Uuid(UuidForm::Fixed) => {
                out.extend(latin(value).filter(|bytes| bytes.len() == 16).ok_or_else(misfit)?);
            }
            Type::Enum { symbols, .. } => {
                let symbol = value.as_str().and_then(|text| symbols.index(text));
                put_long(i64::try_from(symbol.ok_or_else(misfit)?).unwrap_or(i64::MAX), out);
            }
            Type::Array(item) => {
                let items = value.as_array().ok_or_else(misfit)?;
                if !items.is_empty() {
                    put_long(i64::try_from(items.len()).unwrap_or(i64::MAX), out);
                    items.iter().try_for_each(|value| self.put(*item, value, out, depth + 1))?;
                }
                out.push(0);
            }
            Type::Map(of) => {
                let entries = value.as_object().ok_or_else(misfit)?;
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_by_key(|(name, _)| *name);
                if !entries.is_empty() {
                    put_long(i64::try_from(entries.len()).unwrap_or(i64::MAX), out);
                    for (name, value) in entries {
                        put_text(name, out);
                        self.put(*of, value, out, depth + 1)?;
                    }
                }
                out.push(0);
            }
            Type::Record(record) => {
                let object = value.as_object().ok_or_else(misfit)?;
                for (number, field) in record.fields.iter().enumerate() {
                    let given = object.get(&field.name).or_else(|| self.of_field.get(&(of, number)).copied());
                    let given = given.ok_or_else(|| format!("it has no value for {}", field.name))?;
                    self.put(field.of, given, out, depth + 1)?;
                }
            }
            Type::Union(union) => {
                let start = out.len();
                for (number, branch) in union.branches.iter().enumerate() {
                    put_long(i64::try_from(number).unwrap_or(i64::MAX), out);
                    if self.put(*branch, value, out, depth + 1).is_ok() {
                        return Ok(());
                    }
                    out.truncate(start);
                }
                return Err(misfit());
            }
        }
        if out.len() > BYTES_MAX { Err(format!("it has more than {BYTES_MAX} bytes")) } else { Ok(()) }
    }
}

/// The bytes of a text whose characters are all below 256.
fn latin(value: &Value) -> Option<Vec<u8>> {
    value.as_str()?.chars().map(|character| u8::try_from(u32::from(character)).ok()).collect()
}
