//! JSON Schema: the payload is validated and sent as it is.

mod cost;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use jsonschema::{PatternOptions, Validator};

use super::json::{Document, Kind, Value};
use super::limits::PATTERN_BYTES_MAX;
use super::misfit::Misfit;
use super::number::Fit;

/// The place of a misfit is only searched in documents with at most this many levels,
const SEARCHED_LEVELS_MAX: usize = 8;

/// and if the visited schemas times the bytes of the document are not more: about a second.
const SEARCH_COST_MAX: u64 = 100_000_000;

/// A compiled JSON Schema.
pub(super) struct JsonSchema {
    validator: Validator,
    title: Option<String>,
    /// The schemas that a search for the place of a misfit visits, by the levels of the document.
    visits: Vec<u64>,
    content: u64,
}

impl JsonSchema {
    /// Compiles the text of a schema. References to other documents are errors: nothing is fetched.
    ///
    /// # Errors
    /// What is wrong with it, as one sentence.
    pub(super) fn compile(text: &str) -> Result<Self, String> {
        let schema: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if !schema.is_object() {
            return Err("the schema is not a JSON object".into());
        }
        cost::check(&schema)?;
        let title = schema.get("title").and_then(serde_json::Value::as_str).map(str::to_owned);
        // Its time is linear in the text, whatever the pattern.
        let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX);
        let options = jsonschema::options().with_pattern_options(patterns);
        let validator = options.build(&schema).map_err(|error| shortened(&error.to_string()))?;
        let visits = cost::visits(&schema, SEARCHED_LEVELS_MAX);
        let mut hasher = DefaultHasher::new();
        hash(&schema, &mut hasher);
        Ok(Self { validator, title, visits, content: hasher.finish() })
    }

    /// A number for what the schema says, whatever its spaces and the order of its keys.
    pub(super) fn content(&self) -> u64 {
        self.content
    }

    pub(super) fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// Appends the payload as it is, if it is valid.
    pub(super) fn write(&self, document: &Document<'_>, payload: &[u8], out: &mut Vec<u8>) -> Fit<()> {
        let root = document.root();
        if root.kind() != Kind::Object {
            return Err(Misfit::new("a JSON object", root.kind().words()));
        }
        // Two readers could see two values.
        names_are_unique(root)?;
        let value: serde_json::Value = serde_json::from_slice(payload)
            .map_err(|_| Misfit::new("numbers that a double can hold", "a larger one"))?;
        if self.validator.is_valid(&value) {
            out.extend_from_slice(payload);
            return Ok(());
        }
        // To say where it does not fit visits every branch of `oneOf` and `anyOf`, at each level again.
        let cost = self.visits.get(depth(&value)).map(|visits| visits.saturating_mul(payload.len() as u64));
        if cost.is_none_or(|cost| cost > SEARCH_COST_MAX) {
            return Err(Misfit::new("what the schema says", "another value"));
        }
        if let Err(error) = self.validator.validate(&value) {
            let path = error.instance_path().to_string();
            // Masked: the message contains no value of the payload.
            let wanted = format!("what the schema says at {}", error.schema_path());
            let misfit = Misfit::new(wanted, error.masked().to_string());
            return Err(path.rsplit('/').filter(|step| !step.is_empty()).fold(misfit, Misfit::in_field));
        }
        out.extend_from_slice(payload);
        Ok(())
    }
}

impl std::fmt::Debug for JsonSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsonSchema").field("title", &self.title).finish_non_exhaustive()
    }
}

/// An error of the compiler may contain the schema.
fn shortened(error: &str) -> String {
    let mut shown: String = error.chars().take(300).collect();
    if shown.len() < error.len() {
        shown.push_str("...");
    }
    shown
}

/// Hashes a document with the names of each object in order.
fn hash(value: &serde_json::Value, hasher: &mut DefaultHasher) {
    match value {
        serde_json::Value::Object(object) => {
            let mut entries: Vec<_> = object.iter().collect();
            entries.sort_by_key(|(name, _)| *name);
            (0, entries.len()).hash(hasher);
            for (name, value) in entries {
                name.hash(hasher);
                hash(value, hasher);
            }
        }
        serde_json::Value::Array(items) => {
            (1, items.len()).hash(hasher);
            items.iter().for_each(|item| hash(item, hasher));
        }
        other => (2, other.to_string()).hash(hasher),
    }
}

/// The levels of a document, whose number is limited when it is read.
fn depth(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        serde_json::Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

fn names_are_unique(value: Value<'_>) -> Fit<()> {
    let mut names = BTreeSet::new();
    for (name, value) in value.entries() {
        if !names.insert(name.text()) {
            return Err(Misfit::new("each name once", "it twice").in_field(&name.text()));
        }
        names_are_unique(value).map_err(|misfit| misfit.in_field(&name.text()))?;
    }
    let mut items = value.items().enumerate();
    items.try_for_each(|(number, item)| names_are_unique(item).map_err(|misfit| misfit.in_item(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deep_document_that_fits_no_branch_is_refused_at_once() {
        let branch = |required: &str| {
            format!(r##"{{"properties":{{"a":{{"$ref":"#/$defs/n"}}}},"required":["{required}"]}}"##)
        };
        let node = format!("{{\"oneOf\":[{},{}]}}", branch("x"), branch("y"));
        let schema = format!(r##"{{"$ref":"#/$defs/n","$defs":{{"n":{node}}}}}"##);
        let schema = JsonSchema::compile(&schema).unwrap();
        let written = |levels: usize| {
            let payload = format!("{}{{}}{}", "{\"a\":".repeat(levels), "}".repeat(levels));
            let document = Document::parse(payload.as_bytes()).unwrap();
            schema.write(&document, payload.as_bytes(), &mut Vec::new())
        };
        // With a search for the place, the second one would not end.
        for levels in [2, 60] {
            assert!(written(levels).is_err(), "{levels}");
        }
    }

    #[test]
    fn a_payload_that_almost_fits_many_branches_is_refused_at_once() {
        let branches: Vec<serde_json::Value> = (0..20)
            .map(|number| {
                let args = serde_json::json!({"items": {"$ref": "#/$defs/e"}});
                serde_json::json!({"properties": {"args": args, "op": {"const": number}}, "required": ["args"]})
            })
            .collect();
        let schema = serde_json::json!({"$ref": "#/$defs/e", "$defs": {"e": {"oneOf": branches}}});
        let schema = JsonSchema::compile(&schema.to_string()).unwrap();
        for levels in [1, 3, 4, 20, 30] {
            let payload = format!("{}{{\"op\":99}}{}", "{\"args\":[".repeat(levels), "]}".repeat(levels));
            let document = Document::parse(payload.as_bytes()).unwrap();
            let misfit = schema.write(&document, payload.as_bytes(), &mut Vec::new()).unwrap_err();
            assert_eq!(misfit.to_string().contains("another value"), levels > 3, "{levels}: {misfit}");
        }
    }

    #[test]
    fn a_chain_of_references_up_to_the_limit_needs_no_more_stack_than_a_thread_has() {
        use super::super::limits::REFERENCES_MAX;
        let chain = |count: usize| {
            let reference = |number: usize| serde_json::json!({"$ref": format!("#/$defs/{number}")});
            let end = serde_json::json!({"required": ["a"]});
            let defs: serde_json::Map<String, serde_json::Value> = (0..count)
                .map(|number| {
                    (
                        number.to_string(),
                        if number + 1 == count { end.clone() } else { reference(number + 1) },
                    )
                })
                .collect();
            JsonSchema::compile(&serde_json::json!({"$ref": "#/$defs/0", "$defs": defs}).to_string())
        };
        let schema = chain(REFERENCES_MAX).unwrap();
        for (payload, fits) in [("{}", false), (r#"{"a":1}"#, true)] {
            let document = Document::parse(payload.as_bytes()).unwrap();
            assert_eq!(
                schema.write(&document, payload.as_bytes(), &mut Vec::new()).is_ok(),
                fits,
                "{payload}"
            );
        }
        assert!(chain(REFERENCES_MAX + 1).is_err());
    }

    #[test]
    fn large_regular_expressions_are_refused_without_their_text() {
        let why = JsonSchema::compile(r#"{"properties":{"a":{"pattern":"(a{1000}){1000}"}}}"#).unwrap_err();
        assert!(why.len() < 400, "{why}");
    }

    #[test]
    fn the_content_of_a_schema_does_not_depend_on_spaces_and_order() {
        let of = |text: &str| JsonSchema::compile(text).unwrap().content();
        let one = r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"minimum":1}}}"#;
        let other = r#"{ "properties": {"b":{"minimum":1}, "a":{"type":"string"}}, "type": "object" }"#;
        assert_eq!(of(one), of(other));
        assert_ne!(of(one), of(&one.replace("\"a\"", "\"c\"")));
    }
}
