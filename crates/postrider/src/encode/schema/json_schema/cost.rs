//! What a JSON Schema costs, found out before it is compiled.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::limits::{PATTERNS_MAX, REFERENCES_MAX, SUBSCHEMAS_MAX};

/// Keywords with a schema for the same value.
const SAME_VALUE: [&str; 5] = ["not", "if", "then", "else", "$ref"];

/// Keywords with a list or a table of schemas for the same value.
const SAME_VALUE_ALL: [&str; 5] = ["allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"];

/// Keywords with a schema, a list or a table of schemas for values within it.
const WITHIN: [&str; 11] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "items",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];

/// Checks the number of objects, references and regular expressions.
///
/// # Errors
/// Which limit it exceeds, as one sentence.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    let mut counted = Counted::default();
    counted.add(schema);
    for (count, limit, what) in [
        (counted.objects, SUBSCHEMAS_MAX, "objects"),
        (counted.references, REFERENCES_MAX, "references"),
        (counted.patterns, PATTERNS_MAX, "regular expressions"),
    ] {
        if count > limit {
            return Err(format!("the schema has {count} {what}; the limit is {limit}"));
        }
    }
    Ok(())
}

#[derive(Default)]
struct Counted {
    objects: usize,
    references: usize,
    patterns: usize,
}

impl Counted {
    fn add(&mut self, value: &Value) {
        match value {
            Value::Object(object) => {
                self.objects += 1;
                for (key, value) in object {
                    match key.as_str() {
                        "$ref" | "$dynamicRef" | "$recursiveRef" => self.references += 1,
                        "pattern" => self.patterns += 1,
                        "patternProperties" => {
                            self.patterns += value.as_object().map(Map::len).unwrap_or_default();
                        }
                        _ => {}
                    }
                    self.add(value);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            _ => {}
        }
    }
}

/// How many schemas a search for the place of a misfit visits for one path through a payload, by the number of its levels. It
/// visits every branch of `oneOf` and `anyOf`, at each level again, and remembers nothing.
pub(super) fn visits(schema: &Value, levels_max: usize) -> Vec<u64> {
    let mut visits = Visits { root: schema, known: HashMap::new() };
    (0..=levels_max).map(|levels| visits.of(schema, levels)).collect()
}

/// Counts the schemas that are visited for one value and the first of each of the values within it.
struct Visits<'s> {
    root: &'s Value,
    /// By schema and levels below it. `None`: it is being counted, so that it contains itself.
    known: HashMap<(*const Value, usize), Option<u64>>,
}

impl<'s> Visits<'s> {
    fn of(&mut self, schema: &'s Value, levels: usize) -> u64 {
        let Value::Object(object) = schema else { return 1 };
        let key = (std::ptr::from_ref(schema), levels);
        if let Some(known) = self.known.get(&key) {
            return known.unwrap_or(u64::MAX);
        }
        self.known.insert(key, None);
        let mut visits = 1_u64;
        for (keyword, value) in object {
            let keyword = keyword.as_str();
            let more = if keyword == "$ref" {
                let target = value.as_str().and_then(|reference| self.target(reference));
                target.map_or(u64::MAX, |target| self.of(target, levels))
            } else if matches!(keyword, "$dynamicRef" | "$recursiveRef") {
                u64::MAX
            } else if SAME_VALUE.contains(&keyword) {
                self.of(value, levels)
            } else if SAME_VALUE_ALL.contains(&keyword) {
                self.of_all(value, levels)
            } else if WITHIN.contains(&keyword) && levels > 0 {
                self.of(value, levels - 1).saturating_add(self.of_all(value, levels - 1))
            } else {
                0
            };
            visits = visits.saturating_add(more);
        }
        self.known.insert(key, Some(visits));
        visits
    }

    fn of_all(&mut self, schemas: &'s Value, levels: usize) -> u64 {
        match schemas {
            Value::Array(all) => {
                all.iter().fold(0, |sum: u64, schema| sum.saturating_add(self.of(schema, levels)))
            }
            Value::Object(all) => {
                all.values().fold(0, |sum: u64, schema| sum.saturating_add(self.of(schema, levels)))
            }
            _ => 0,
        }
    }

    /// Only pointers into the document itself.
    fn target(&self, reference: &str) -> Option<&'s Value> {
        let pointer = reference.strip_prefix('#').filter(|pointer| !pointer.contains('%'))?;
        self.root.pointer(pointer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_branches_of_unions_multiply_at_each_level() {
        let plain = json!({"properties": {"a": {"type": "string"}, "b": {"items": {"$ref": "#/$defs/c"}}},
            "$defs": {"c": {"required": ["d"]}}});
        assert!(visits(&plain, 8).iter().all(|visits| *visits < 20), "{:?}", visits(&plain, 8));
        let operators: Vec<Value> = (0..20)
            .map(|number| json!({"properties": {"op": {"const": number}, "args": {"items": {"$ref": "#/$defs/e"}}}}))
            .collect();
        let expression = json!({"$ref": "#/$defs/e", "$defs": {"e": {"oneOf": operators}}});
        let visits = visits(&expression, 8);
        assert!(visits[0] < 100 && visits[4] > 400 && visits[8] > 160_000, "{visits:?}");
    }

    #[test]
    fn references_that_double_at_each_step_have_no_bound() {
        let defs: Map<String, Value> = (0..70)
            .map(|number| {
                let next = json!({"$ref": format!("#/$defs/{}", number + 1)});
                (number.to_string(), json!({"allOf": [next, next]}))
            })
            .chain([("70".to_owned(), json!({"type": "object"}))])
            .collect();
        for schema in [
            json!({"$ref": "#/$defs/0", "$defs": defs}),
            json!({"$ref": "#"}),
            json!({"$ref": "#anchor"}),
            json!({"$dynamicRef": "#x"}),
        ] {
            assert_eq!(visits(&schema, 1), [u64::MAX; 2], "{schema}");
        }
    }

    #[test]
    fn what_is_counted_has_limits() {
        let many = |keyword: &str, value: Value, count: usize| -> Value {
            let of = Map::from_iter([(keyword.to_owned(), value)]);
            json!({"allOf": vec![Value::Object(of); count]})
        };
        assert_eq!(check(&many("$ref", json!("#/$defs/a"), REFERENCES_MAX)), Ok(()));
        for (schema, what) in [
            (many("$ref", json!("#/$defs/a"), REFERENCES_MAX + 1), "501 references; the limit is 500"),
            (many("pattern", json!("a"), PATTERNS_MAX + 1), "501 regular expressions; the limit is 500"),
            (many("type", json!("object"), SUBSCHEMAS_MAX), "20001 objects; the limit is 20000"),
        ] {
            let why = check(&schema).unwrap_err();
            assert!(why.contains(what), "{why}");
        }
    }
}
