//! The fingerprint of a schema: CRC-64-AVRO of its Parsing Canonical Form, as the specification of Avro defines both.
//!
//! Written here because the canonical form of apache-avro 0.22 differs from that of the reference implementation: readers look
//! schemas up by the fingerprint. Tests compare it with fastavro and avro-tools.

use serde_json::Value;

/// Nesting beyond this is refused by the parser before.
const DEPTH_MAX: usize = 128;

/// The fingerprint in the byte order of single-object encoding.
///
/// # Errors
/// If the text is not a schema; it was parsed before.
pub(super) fn fingerprint(text: &str) -> Result<[u8; 8], String> {
    let schema: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut form = String::with_capacity(text.len());
    put(&schema, "", &mut form, 0).ok_or("the schema has no canonical form")?;
    Ok(crc64(form.as_bytes()).to_le_bytes())
}

/// Appends the canonical form of a schema in a namespace.
fn put(schema: &Value, namespace: &str, form: &mut String, depth: usize) -> Option<()> {
    if depth > DEPTH_MAX {
        return None;
    }
    match schema {
        Value::String(name) => put_text(&full_name(name, namespace), form),
        Value::Array(branches) => {
            form.push('[');
            put_all(branches, form, |branch, form| put(branch, namespace, form, depth + 1))?;
            form.push(']');
        }
        Value::Object(object) => {
            let of_type = object.get("type")?;
            // A type in a type, or a union in one.
            let Value::String(name) = of_type else { return put(of_type, namespace, form, depth + 1) };
            match name.as_str() {
                "record" | "error" | "enum" | "fixed" => {
                    let own = object.get("name")?.as_str()?;
                    let of_schema = object.get("namespace").and_then(Value::as_str).unwrap_or(namespace);
                    let full = full_name(own, of_schema);
                    let inner = full.rsplit_once('.').map_or("", |(namespace, _)| namespace);
                    form.push_str("{\"name\":");
                    put_text(&full, form);
                    form.push_str(",\"type\":");
                    put_text(name, form);
                    put_parts(object, name, inner, form, depth)?;
                    form.push('}');
                }
                "array" | "map" => {
                    let part = if name == "array" { "items" } else { "values" };
                    form.push_str("{\"type\":");
                    put_text(name, form);
                    form.push_str(&format!(",\"{part}\":"));
                    put(object.get(part)?, namespace, form, depth + 1)?;
                    form.push('}');
                }
                name => put_text(&full_name(name, namespace), form),
            }
        }
        _ => return None,
    }
    Some(())
}

/// Appends what a named type has besides name and type.
fn put_parts(
    object: &serde_json::Map<String, Value>,
    name: &str,
    namespace: &str,
    form: &mut String,
    depth: usize,
) -> Option<()> {
    match name {
        "enum" => {
            form.push_str(",\"symbols\":[");
            put_all(object.get("symbols")?.as_array()?, form, |symbol, form| {
                put_text(symbol.as_str()?, form);
                Some(())
            })?;
            form.push(']');
        }
        "fixed" => form.push_str(&format!(",\"size\":{}", object.get("size")?.as_u64()?)),
        _ => {
            form.push_str(",\"fields\":[");
            put_all(object.get("fields")?.as_array()?, form, |field, form| {
                form.push_str("{\"name\":");
                put_text(field.get("name")?.as_str()?, form);
                form.push_str(",\"type\":");
                put(field.get("type")?, namespace, form, depth + 1)?;
                form.push('}');
                Some(())
            })?;
            form.push(']');
        }
    }
    Some(())
}

fn put_all(
    items: &[Value],
    form: &mut String,
    mut put: impl FnMut(&Value, &mut String) -> Option<()>,
) -> Option<()> {
    for (number, item) in items.iter().enumerate() {
        if number > 0 {
            form.push(',');
        }
        put(item, form)?;
    }
    Some(())
}

/// Names of primitive types have no namespace.
fn full_name(name: &str, namespace: &str) -> String {
    let is_primitive =
        matches!(name, "null" | "boolean" | "int" | "long" | "float" | "double" | "bytes" | "string");
    match is_primitive || namespace.is_empty() || name.contains('.') {
        true => name.to_owned(),
        false => format!("{namespace}.{name}"),
    }
}

/// Names and symbols have no characters that need an escape.
fn put_text(text: &str, form: &mut String) {
    form.push('"');
    form.push_str(text);
    form.push('"');
}

/// The checksum of the specification, with its constant for the empty text.
fn crc64(bytes: &[u8]) -> u64 {
    const EMPTY: u64 = 0xc15d_213a_a4d7_a795;
    let table =
        |entry: u64| (0..8).fold(entry, |entry, _| (entry >> 1) ^ (EMPTY & (entry & 1).wrapping_neg()));
    bytes.iter().fold(EMPTY, |sum, byte| (sum >> 8) ^ table((sum ^ u64::from(*byte)) & 0xff))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        let mut form = String::new();
        put(&serde_json::from_str(text).unwrap(), "", &mut form, 0).unwrap();
        form
    }

    #[test]
    fn the_canonical_form_keeps_what_readers_need() {
        for (schema, form) in [
            (r#"{"type":"int","logicalType":"date"}"#, r#""int""#),
            (
                r#"{"type":{"type":"array","items":{"type":"string"}}}"#,
                r#"{"type":"array","items":"string"}"#,
            ),
            (
                r#"{"doc":"d","namespace":"a.b","type":"record","name":"R","aliases":["X"],"fields":[
                    {"default":null,"type":["null","R"],"name":"next","doc":"d"},
                    {"name":"f","type":{"type":"fixed","size":4,"name":"F","namespace":"c"}},
                    {"name":"g","type":"c.F"},
                    {"name":"e","type":{"type":"enum","name":"d.E","symbols":["A","B"],"default":"A"}}]}"#,
                r#"{"name":"a.b.R","type":"record","fields":[{"name":"next","type":["null","a.b.R"]},{"name":"f","type":{"name":"c.F","type":"fixed","size":4}},{"name":"g","type":"c.F"},{"name":"e","type":{"name":"d.E","type":"enum","symbols":["A","B"]}}]}"#,
            ),
        ] {
            assert_eq!(canonical(schema), form);
        }
    }

    #[test]
    fn fingerprints_are_those_of_the_specification() {
        // From the tests of the reference implementation.
        for (schema, sum) in [("\"null\"", 0x63dd_24e7_cc25_8f8a_u64), ("\"int\"", 0x7275_d51a_3f39_5c8f)] {
            assert_eq!(fingerprint(schema).unwrap(), sum.to_le_bytes(), "{schema}");
        }
    }
}
