//! Limits of schemas, and of encoding one event: a small payload must not become a large message or a long computation, and a
//! schema file must not exhaust the memory or the stack of the process that reads it.

/// The largest encoded payload. A schema with long defaults could make much more out of `[{},{},{}]`.
pub(super) const ENCODED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What encoding one event may cost: a value, a field of a record or message, 64 bytes of a text and a byte of a decimal each
/// cost one step, also in branches of unions that are tried. Trying nested unions of a recursive schema would otherwise take
/// time that grows with a power of the depth, and `[{},{},{}]` for a message with 10,000 fields almost as much.
pub(super) const STEPS_MAX: usize = 4_000_000;

/// The bytes of a text that cost one step.
pub(super) const BYTES_PER_STEP: usize = 64;

/// The largest schema file.
pub(super) const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// All files of one encoder, imports included.
pub(super) const FILES_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// The number of schemas of one encoder.
pub(super) const BINDINGS_MAX: usize = 1_000;

/// Files that one Protobuf file may import, directly or not. Imports of imports are read recursively.
pub(super) const IMPORTS_MAX: usize = 200;

/// Types or messages of a compiled schema: more would be a mistake.
pub(super) const TYPES_MAX: usize = 10_000;

/// Fields of all records or messages of a compiled schema.
pub(super) const FIELDS_MAX: usize = 50_000;

/// The largest `fixed` of Avro. A decimal fills all of its bytes, whatever its value.
pub(super) const FIXED_BYTES_MAX: usize = 1024 * 1024;

/// The defaults of an Avro schema together. One long default may be part of many others.
pub(super) const DEFAULTS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Values that are tried to compile the defaults of an Avro schema. Unions in unions multiply them.
pub(super) const DEFAULT_STEPS_MAX: usize = 1_000_000;

/// Objects of a JSON Schema.
pub(super) const SUBSCHEMAS_MAX: usize = 20_000;

/// References of a JSON Schema. They are compiled and followed recursively, so that a chain of them needs stack.
pub(super) const REFERENCES_MAX: usize = 500;

/// Regular expressions of a JSON Schema. Each is compiled, to at most [`PATTERN_BYTES_MAX`] bytes.
pub(super) const PATTERNS_MAX: usize = 500;

/// The size of a compiled regular expression.
pub(super) const PATTERN_BYTES_MAX: usize = 512 * 1024;
