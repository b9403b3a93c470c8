//! A parsed schema as types for writing.

use std::collections::HashMap;

use apache_avro::Schema;
use apache_avro::schema::{InnerDecimalSchema, RecordSchema, UuidSchema};

use super::super::limits::{FIELDS_MAX, FIXED_BYTES_MAX, TYPES_MAX};
use super::compiled::{Field, Record, Symbols, TimeUnit, Type, TypeId, Union, UuidForm, listed};
use super::defaults::Defaults;

/// More digits than any database stores.
const PRECISION_MAX: usize = 1_000;

/// The types of a schema, and the index of the whole.
pub(super) fn compile(schema: &Schema) -> Result<(Vec<Type>, TypeId), String> {
    let mut compiler = Compiler { types: Vec::new(), named: HashMap::new(), fields: 0, defaults: Vec::new() };
    let root = compiler.add(schema, None)?;
    let Compiler { mut types, defaults, .. } = compiler;
    let compiled = Defaults::new(&types, &defaults).all()?;
    for ((record, field, _), bytes) in defaults.iter().zip(compiled) {
        if let Some(Type::Record(Record { fields, .. })) = types.get_mut(*record)
            && let Some(field) = fields.get_mut(*field)
        {
            field.default = Some(bytes);
        }
    }
    Ok((types, root))
}

struct Compiler {
    types: Vec<Type>,
    named: HashMap<String, TypeId>,
    /// The number of fields of all records.
    fields: usize,
    /// Defaults by record and field.
    defaults: Vec<(TypeId, usize, serde_json::Value)>,
}

impl Compiler {
    fn push(&mut self, of: Type) -> Result<TypeId, String> {
        if self.types.len() == TYPES_MAX {
            return Err(format!("the schema has more than {TYPES_MAX} types"));
        }
        self.types.push(of);
        Ok(self.types.len() - 1)
    }

    fn add(&mut self, schema: &Schema, namespace: Option<&str>) -> Result<TypeId, String> {
        let of = match schema {
            Schema::Record(record) => return self.record(record, namespace),
            Schema::Ref { name } => {
                let name = name.fullname(namespace);
                let known = self.named.get(&name).copied();
                return known.ok_or_else(|| format!("the type {name:?} is not defined in the file"));
            }
            Schema::Null => Type::Null,
            Schema::Boolean => Type::Boolean,
            Schema::Int => Type::Int,
            Schema::Long => Type::Long,
            Schema::Float => Type::Float,
            Schema::Double => Type::Double,
            Schema::Bytes => Type::Bytes,
            Schema::String => Type::Text,
            Schema::Array(array) => Type::Array(self.add(&array.items, namespace)?),
            Schema::Map(map) => Type::Map(self.add(&map.types, namespace)?),
            Schema::Union(union) => {
                let mut branches = Vec::with_capacity(union.variants().len());
                for branch in union.variants() {
                    branches.push(self.add(branch, namespace)?);
                }
                self.union(branches)
            }
            Schema::Enum(of) => {
                let name = of.name.fullname(namespace);
                let id =
                    self.push(Type::Enum { name: name.clone(), symbols: Symbols::new(of.symbols.clone()) })?;
                self.named.insert(name, id);
                return Ok(id);
            }
            Schema::Fixed(of) | Schema::Duration(of) => {
                let name = of.name.fullname(namespace);
                check_size(&name, of.size)?;
                let id = self.push(Type::Fixed { name: name.clone(), size: of.size })?;
                self.named.insert(name, id);
                return Ok(id);
            }
            Schema::Decimal(of) => {
                let (precision, scale) = (of.precision, of.scale);
                if precision > PRECISION_MAX || scale > precision {
                    return Err(format!("decimal({precision}, {scale}) is out of range"));
                }
                let words = format!("decimal({precision}, {scale})");
                match &of.inner {
                    InnerDecimalSchema::Bytes => Type::Decimal { precision, scale, fixed: None, words },
                    InnerDecimalSchema::Fixed(fixed) => {
                        let name = fixed.name.fullname(namespace);
                        check_size(&name, fixed.size)?;
                        let id =
                            self.push(Type::Decimal { precision, scale, fixed: Some(fixed.size), words })?;
                        self.named.insert(name, id);
                        return Ok(id);
                    }
                }
            }
            Schema::Uuid(UuidSchema::String) => Type::Uuid(UuidForm::Text),
            Schema::Uuid(UuidSchema::Bytes) => Type::Uuid(UuidForm::Bytes),
            Schema::Uuid(UuidSchema::Fixed(of)) => {
                let name = of.name.fullname(namespace);
                let id = self.push(Type::Uuid(UuidForm::Fixed))?;
                self.named.insert(name, id);
                return Ok(id);
            }
            Schema::Date => Type::Time(TimeUnit::Days),
            Schema::TimeMillis => Type::Time(TimeUnit::OfDay { nanos: 1_000_000 }),
            Schema::TimeMicros => Type::Time(TimeUnit::OfDay { nanos: 1_000 }),
            Schema::TimestampMillis => Type::Time(TimeUnit::Instant { nanos: 1_000_000 }),
            Schema::TimestampMicros => Type::Time(TimeUnit::Instant { nanos: 1_000 }),
            Schema::TimestampNanos => Type::Time(TimeUnit::Instant { nanos: 1 }),
            Schema::LocalTimestampMillis => Type::Time(TimeUnit::Local { nanos: 1_000_000 }),
            Schema::LocalTimestampMicros => Type::Time(TimeUnit::Local { nanos: 1_000 }),
            Schema::LocalTimestampNanos => Type::Time(TimeUnit::Local { nanos: 1 }),
            Schema::BigDecimal => return Err("the logical type big-decimal is not supported".into()),
        };
        self.push(of)
    }

    fn record(&mut self, record: &RecordSchema, namespace: Option<&str>) -> Result<TypeId, String> {
        let name = record.name.fullname(namespace);
        let own = record.name.namespace().or(namespace);
        let empty = Record { name: name.clone(), fields: Vec::new(), by_name: HashMap::new() };
        let id = self.push(Type::Record(empty))?;
        self.named.insert(name, id);
        self.fields += record.fields.len();
        if self.fields > FIELDS_MAX {
            return Err(format!("the schema has more than {FIELDS_MAX} fields"));
        }
        let mut fields = Vec::with_capacity(record.fields.len());
        for (number, field) in record.fields.iter().enumerate() {
            let of = self.add(&field.schema, own)?;
            fields.push(Field { name: field.name.clone(), of, default: None });
            if let Some(default) = &field.default {
                self.defaults.push((id, number, default.clone()));
            }
        }
        if let Some(Type::Record(record)) = self.types.get_mut(id) {
            record.by_name =
                fields.iter().enumerate().map(|(number, field)| (field.name.clone(), number)).collect();
            record.fields = fields;
        }
        Ok(id)
    }

    fn union(&self, branches: Vec<TypeId>) -> Type {
        let of = |id: &TypeId| self.types.get(*id);
        let null = branches.iter().position(|id| matches!(of(id), Some(Type::Null)));
        let others: Vec<usize> = (0..branches.len()).filter(|number| Some(*number) != null).collect();
        let only = match others.as_slice() {
            [only] => Some(*only),
            _ => None,
        };
        let names: Vec<String> = branches.iter().filter_map(of).take(NAMES_MAX).map(Type::words).collect();
        let words = format!("one of {}", listed(names.iter().map(String::as_str), " | "));
        Type::Union(Union { branches, null, only, words })
    }
}

/// Branches of a union whose names are looked at for messages, which show fewer.
const NAMES_MAX: usize = 20;

fn check_size(name: &str, size: usize) -> Result<(), String> {
    match size {
        0..=FIXED_BYTES_MAX => Ok(()),
        _ => Err(format!("the fixed {name:?} has {size} bytes; the limit is {FIXED_BYTES_MAX}")),
    }
}
