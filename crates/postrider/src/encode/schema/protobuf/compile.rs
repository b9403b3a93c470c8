//! Descriptors as messages for writing.

use std::collections::HashMap;
use std::sync::Arc;

use prost_reflect::{Cardinality, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

use super::super::limits::{FIELDS_MAX, TYPES_MAX};
use super::compiled::{EnumType, Field, Form, Message, MessageId, Type, WellKnown};
use super::write::put_varint;

/// The messages that a message needs, and its own index.
pub(super) fn compile(descriptor: &MessageDescriptor) -> Result<(Vec<Message>, MessageId), String> {
    let mut compiler = Compiler {
        messages: Vec::new(),
        named: HashMap::new(),
        enums: HashMap::new(),
        fields: 0,
        waiting: Vec::new(),
    };
    let root = compiler.add(descriptor)?;
    // A list instead of recursion: files may contain long chains of messages.
    while let Some((id, descriptor)) = compiler.waiting.pop() {
        compiler.fill(id, &descriptor)?;
    }
    Ok((compiler.messages, root))
}

struct Compiler {
    messages: Vec<Message>,
    named: HashMap<String, MessageId>,
    enums: HashMap<String, Arc<EnumType>>,
    /// The number of fields of all messages.
    fields: usize,
    waiting: Vec<(MessageId, MessageDescriptor)>,
}

impl Compiler {
    fn add(&mut self, descriptor: &MessageDescriptor) -> Result<MessageId, String> {
        let name = descriptor.full_name();
        if let Some(id) = self.named.get(name) {
            return Ok(*id);
        }
        if self.messages.len() == TYPES_MAX {
            return Err(format!("the schema has more than {TYPES_MAX} messages"));
        }
        let well_known = well_known(name)?;
        let id = self.messages.len();
        self.messages.push(Message {
            name: name.to_owned(),
            fields: Vec::new(),
            by_name: HashMap::new(),
            well_known,
        });
        self.named.insert(name.to_owned(), id);
        self.waiting.push((id, descriptor.clone()));
        Ok(id)
    }

    fn fill(&mut self, id: MessageId, descriptor: &MessageDescriptor) -> Result<(), String> {
        let oneofs: HashMap<String, usize> = descriptor
            .oneofs()
            .filter(|oneof| !oneof.is_synthetic())
            .enumerate()
            .map(|(number, oneof)| (oneof.full_name().to_owned(), number))
            .collect();
        let mut fields: Vec<FieldDescriptor> = descriptor.fields().collect();
        fields.sort_by_key(FieldDescriptor::number);
        self.fields += fields.len();
        if self.fields > FIELDS_MAX {
            return Err(format!("the schema has more than {FIELDS_MAX} fields"));
        }
        let mut compiled = Vec::with_capacity(fields.len());
        for field in fields {
            compiled.push(self.field(&field, &oneofs)?);
        }
        let Some(message) = self.messages.get_mut(id) else { return Ok(()) };
        for (number, field) in compiled.iter().enumerate() {
            message.by_name.insert(field.name.clone(), number);
        }
        // The name in JSON has precedence if it is the name of another field in the file.
        for (number, field) in compiled.iter().enumerate() {
            message.by_name.insert(field.json_name.clone(), number);
        }
        message.fields = compiled;
        Ok(())
    }

    fn field(&mut self, field: &FieldDescriptor, oneofs: &HashMap<String, usize>) -> Result<Field, String> {
        if field.is_group() {
            return Err(format!("the field {} is a group, which is not supported", field.full_name()));
        }
        let entry = field.kind().as_message().filter(|_| field.is_map()).cloned();
        let (of, form) = match entry {
            Some(entry) => {
                let key = self.of(&entry.map_entry_key_field().kind())?;
                (self.of(&entry.map_entry_value_field().kind())?, Form::Map { key })
            }
            None if field.is_list() => {
                let form = if field.is_packed() { Form::Packed } else { Form::Repeated };
                (self.of(&field.kind())?, form)
            }
            None => {
                let form = match field.cardinality() {
                    Cardinality::Required => Form::Required,
                    _ if field.supports_presence() => Form::Explicit,
                    _ => Form::Implicit,
                };
                (self.of(&field.kind())?, form)
            }
        };
        let wire_type = match form {
            Form::Packed | Form::Map { .. } => 2,
            _ => of.wire_type(),
        };
        let mut tag = Vec::new();
        put_varint(u64::from(field.number()) << 3 | u64::from(wire_type), &mut tag);
        let oneof = field.containing_oneof().and_then(|oneof| oneofs.get(oneof.full_name()).copied());
        Ok(Field {
            name: field.name().to_owned(),
            json_name: field.json_name().to_owned(),
            of,
            form,
            oneof,
            tag,
        })
    }

    fn of(&mut self, kind: &Kind) -> Result<Type, String> {
        Ok(match kind {
            Kind::Double => Type::Double,
            Kind::Float => Type::Float,
            Kind::Int32 => Type::Int32,
            Kind::Int64 => Type::Int64,
            Kind::Uint32 => Type::Uint32,
            Kind::Uint64 => Type::Uint64,
            Kind::Sint32 => Type::Sint32,
            Kind::Sint64 => Type::Sint64,
            Kind::Fixed32 => Type::Fixed32,
            Kind::Fixed64 => Type::Fixed64,
            Kind::Sfixed32 => Type::Sfixed32,
            Kind::Sfixed64 => Type::Sfixed64,
            Kind::Bool => Type::Bool,
            Kind::String => Type::Text,
            Kind::Bytes => Type::Bytes,
            Kind::Enum(of) => Type::Enum(self.enum_type(of)),
            Kind::Message(of) => Type::Message(self.add(of)?),
        })
    }

    /// Fields of one enum share it.
    fn enum_type(&mut self, descriptor: &EnumDescriptor) -> Arc<EnumType> {
        let name = descriptor.full_name();
        if let Some(known) = self.enums.get(name) {
            return known.clone();
        }
        let of = Arc::new(EnumType {
            name: name.to_owned(),
            numbers: descriptor.values().map(|value| (value.name().to_owned(), value.number())).collect(),
            known: descriptor.values().map(|value| value.number()).collect(),
            is_null: name == "google.protobuf.NullValue",
        });
        self.enums.insert(name.to_owned(), of.clone());
        of
    }
}

fn well_known(name: &str) -> Result<Option<WellKnown>, String> {
    let Some(short) = name.strip_prefix("google.protobuf.") else { return Ok(None) };
    Ok(Some(match short {
        "Timestamp" => WellKnown::Timestamp,
        "Duration" => WellKnown::Duration,
        "FieldMask" => WellKnown::FieldMask,
        "Struct" => WellKnown::Struct,
        "Value" => WellKnown::Value,
        "ListValue" => WellKnown::ListValue,
        "DoubleValue" | "FloatValue" | "Int64Value" | "UInt64Value" | "Int32Value" | "UInt32Value"
        | "BoolValue" | "StringValue" | "BytesValue" => WellKnown::Wrapper,
        "Any" => return Err("google.protobuf.Any is not supported: its content has no schema".into()),
        _ => return Ok(None),
    }))
}
