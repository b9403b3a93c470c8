//! Avro: a schema compiled for writing binary Avro straight from JSON text.

mod canonical;
mod compile;
mod defaults;
#[cfg(test)]
mod tests;
mod compiled;
mod union;
mod write;

use std::hash::{DefaultHasher, Hash, Hasher};

use apache_avro::Schema;

use self::compiled::{Type, TypeId};
pub(super) use self::write::{put_long, put_text};
use super::Rules;
use super::dropped::DroppedFields;
use super::json::Document;
use super::number::{Fit, object};

/// A compiled schema of a record.
#[derive(Debug)]
pub(super) struct AvroWriter {
    types: Vec<Type>,
    root: TypeId,
    /// The full name of the record.
    name: String,
    /// CRC-64-AVRO of the canonical form, as single-object encoding contains it.
    fingerprint: [u8; 8],
}

impl AvroWriter {
    /// Compiles the text of a schema.
    ///
    /// # Errors
    /// What is wrong with it, as one sentence.
    pub(super) fn compile(text: &str) -> Result<Self, String> {
        let schema = Schema::parse_str(text).map_err(|error| error.to_string())?;
        let Schema::Record(record) = &schema else {
            return Err("the schema is not a record".into());
        };
        let name = record.name.fullname(None);
        let fingerprint = canonical::fingerprint(text)?;
        let (types, root) = compile::compile(&schema)?;
        Ok(Self { types, root, name, fingerprint })
    }

    /// A number for what the schema defines, whatever its spaces, docs and the order of its keys.
    pub(super) fn content(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        format!("{:?}", self.types).hash(&mut hasher);
        hasher.finish()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn fingerprint(&self) -> [u8; 8] {
        self.fingerprint
    }

    /// Appends the record of a JSON object. If it fails, what was appended is incomplete.
    pub(super) fn write(
        &self,
        document: &Document<'_>,
        rules: Rules,
        dropped: &DroppedFields,
        out: &mut Vec<u8>,
    ) -> Fit<()> {
        let root = object(document)?;
        let mut writer = write::Writer::new(&self.types, rules, out);
        writer.value(self.root, root)?;
        writer.report(document, dropped);
        Ok(())
    }
}
