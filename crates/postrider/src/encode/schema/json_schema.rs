//! JSON Schema: the payload is validated and sent as it is.

use std::collections::BTreeSet;

use jsonschema::{PatternOptions, Validator};

use super::json::{Document, Kind, Value};
use super::misfit::Misfit;
use super::number::Fit;

/// The place of a misfit is only searched in documents with at most this many levels.
const EXPLAINED_DEPTH_MAX: usize = 8;

/// A compiled JSON Schema.
pub(super) struct JsonSchema {
    validator: Validator,
    title: Option<String>,
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
        let title = schema.get("title").and_then(serde_json::Value::as_str).map(str::to_owned);
        // Its time is linear in the text, whatever the pattern.
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        let validator = options.build(&schema).map_err(|error| error.to_string())?;
        Ok(Self { validator, title })
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
        if depth(&value) > EXPLAINED_DEPTH_MAX {
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
}
