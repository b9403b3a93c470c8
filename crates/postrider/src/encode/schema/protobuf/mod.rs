//! Protobuf: a message type compiled for writing its binary form straight from JSON text.
//!
//! Fields are written in the order of their numbers and entries of maps in the order of their keys, so that the same event gives
//! the same bytes in every process.

mod compile;
pub(super) mod file;
#[cfg(test)]
mod tests;
mod compiled;
mod well_known;
mod write;

use prost_reflect::MessageDescriptor;

use self::compiled::{Message, MessageId};
pub(super) use self::well_known::put_time;
pub(super) use self::write::put_varint;
use super::Rules;
use super::dropped::DroppedFields;
use super::json::Document;
use super::number::{Fit, object};

/// A compiled message type.
#[derive(Debug)]
pub(super) struct ProtobufWriter {
    messages: Vec<Message>,
    root: MessageId,
    name: String,
    /// Where the message is in its file: its index, below the index of the message that contains it.
    indexes: Vec<i32>,
}

impl ProtobufWriter {
    /// Compiles a message type.
    ///
    /// # Errors
    /// What is not supported, as one sentence.
    pub(super) fn compile(descriptor: &MessageDescriptor) -> Result<Self, String> {
        let (messages, root) = compile::compile(descriptor)?;
        // The path contains a field number before each index.
        let indexes = descriptor.path().iter().skip(1).step_by(2).copied().collect();
        Ok(Self { messages, root, name: descriptor.full_name().to_owned(), indexes })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn indexes(&self) -> &[i32] {
        &self.indexes
    }

    /// Appends the message of a JSON object. If it fails, what was appended is incomplete.
    pub(super) fn write(
        &self,
        document: &Document<'_>,
        rules: Rules,
        dropped: &DroppedFields,
        out: &mut Vec<u8>,
    ) -> Fit<()> {
        let root = object(document)?;
        let mut writer = write::Writer::new(&self.messages, rules, out);
        writer.message(self.root, root)?;
        writer.report(document, dropped);
        Ok(())
    }
}
