//! Limits of encoding one event, so that a small payload cannot become a large message or a long computation.

/// The largest encoded payload. A schema with long defaults could make much more out of `[{},{},{}]`.
pub(super) const ENCODED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Values written for one event, including those of branches of unions that are tried. Trying nested unions of a recursive
/// schema would otherwise take time that grows with a power of the depth.
pub(super) const STEPS_MAX: usize = 4_000_000;

/// The largest schema file.
pub(super) const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The number of schemas of one encoder.
pub(super) const BINDINGS_MAX: usize = 1_000;

/// Files that one Protobuf file may import, directly or not.
pub(super) const IMPORTS_MAX: usize = 200;
