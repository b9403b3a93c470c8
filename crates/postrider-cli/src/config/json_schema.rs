//! The schema as JSON Schema, draft 2020-12, for editors and other programs.

use serde_json::{Map, Value, json};

use super::kind::{Field, Kind};
use super::schema::{IfUnset, KeySpec, Schema, Section};

/// The pattern of a name.
const NAME: &str = "^[A-Za-z0-9_.-]{1,100}$";

/// The whole document.
pub fn document(schema: Schema) -> Value {
    let tops = Section::TOP.into_iter().map(|section| (section.word().to_owned(), top(schema, section)));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Postrider configuration",
        "type": "object",
        "properties": tops.collect::<Map<_, _>>(),
        "additionalProperties": false,
    })
}

fn top(schema: Schema, section: Section) -> Value {
    let mut table = table(schema, section);
    if section == Section::Subscription {
        let rules = json!({ "type": "array", "description": Section::Rule.doc(), "items": self::table(schema, Section::Rule) });
        table["properties"][Section::Rule.word()] = rules;
    }
    if section.is_named() {
        json!({ "type": "object", "patternProperties": { NAME: table }, "additionalProperties": false })
    } else {
        table
    }
}

fn table(schema: Schema, section: Section) -> Value {
    let mut properties = Map::new();
    for spec in schema.keys(section) {
        properties.entry(spec.name).or_insert_with(|| key(spec));
    }
    let mut table = json!({
        "type": "object",
        "description": section.doc(),
        "properties": properties,
        "additionalProperties": false,
    });
    let required = |of_type: Option<&str>| -> Vec<&str> {
        let needed = schema.keys(section).filter(|spec| spec.if_unset == IfUnset::Error);
        needed.filter(|spec| spec.of_type == of_type).map(|spec| spec.name).collect()
    };
    if !required(None).is_empty() {
        table["required"] = json!(required(None));
    }
    let conditions: Vec<Value> = types(schema, section)
        .into_iter()
        .map(|of_type| {
            let (own, others): (Vec<&KeySpec>, Vec<&KeySpec>) = schema
                .keys(section)
                .filter(|spec| spec.of_type.is_some())
                .partition(|spec| spec.of_type == Some(of_type));
            let mut refused: Map<_, _> =
                others.into_iter().map(|spec| (spec.name.to_owned(), json!(false))).collect();
            // Another type has a key with this name.
            for spec in own {
                if let Some(property) = refused.get_mut(spec.name) {
                    *property = key(spec);
                }
            }
            json!({
                "if": { "properties": { "type": { "const": of_type } }, "required": ["type"] },
                "then": { "required": required(Some(of_type)), "properties": refused },
            })
        })
        .collect();
    if !conditions.is_empty() {
        table["allOf"] = json!(conditions);
    }
    table
}

/// The types a section's tables may have.
fn types(schema: Schema, section: Section) -> Vec<&'static str> {
    match schema.find(section, "type").map(|spec| spec.kind) {
        Some(Kind::Choice(words)) => words.to_vec(),
        _ => Vec::new(),
    }
}

fn key(spec: &KeySpec) -> Value {
    let mut key = json!({ "description": spec.doc });
    let (Value::Object(fields), Value::Object(kind)) = (&mut key, kind(spec.kind)) else { return key };
    fields.extend(kind);
    if let IfUnset::Default(text) = spec.if_unset {
        let bare = spec.kind.is_bare().then(|| serde_json::from_str(text).ok()).flatten();
        fields.insert("default".into(), bare.unwrap_or_else(|| json!(text)));
    }
    key
}

fn kind(kind: Kind) -> Value {
    match kind {
        Kind::Text | Kind::Path | Kind::Reference(_) => json!({ "type": "string", "minLength": 1 }),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Number { min } => json!({ "type": "integer", "minimum": min }),
        Kind::Duration => json!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$" }),
        Kind::Retention => {
            json!({ "type": "string", "pattern": "^([0-9]+(ms|s|m|h|d)|forever|expires_at)$" })
        }
        Kind::Size => json!({ "type": "string", "pattern": "^[0-9]*[1-9][0-9]*(B|KiB|MiB|GiB)$" }),
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::List => {
            json!({ "type": "array", "minItems": 1, "items": { "type": "string", "minLength": 1 } })
        }
        Kind::Map => {
            json!({ "type": "object", "additionalProperties": { "type": "string", "minLength": 1 } })
        }
        Kind::Start => json!({ "type": "string", "pattern": "^(now|beginning|position:[0-9]+|time:.+)$" }),
        Kind::Url => json!({ "type": "string", "pattern": "^[A-Za-z][A-Za-z0-9+.-]*:\\S+$" }),
        Kind::Urls => json!({ "type": "object", "additionalProperties": self::kind(Kind::Url) }),
        Kind::Secret => json!({ "type": "string", "minLength": 1, "writeOnly": true }),
        Kind::Fields(of) => fields(of),
        Kind::Tables(of) => json!({ "type": "array", "minItems": 1, "items": fields(of) }),
    }
}

fn fields(fields: &[Field]) -> Value {
    let properties: Map<_, _> =
        fields.iter().map(|field| (field.name.to_owned(), kind(field.kind))).collect();
    let required: Vec<&str> =
        fields.iter().filter(|field| field.is_required).map(|field| field.name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}
