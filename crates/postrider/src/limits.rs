//! Every limit on an event, with unit and reason. The relay's own limits are in its `Policy`.

/// What a writer accepts. Checked before any SQL runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Type, aggregate type, aggregate id, key, topic, namespace and producer: what fits every layout and broker.
    pub text_bytes_max: usize,
    /// Name of a header.
    pub header_name_bytes_max: usize,
    /// Value of a header. Brokers carry headers with every message; large data belongs into the payload.
    pub header_value_bytes_max: usize,
    /// Headers of one event.
    pub headers_max: usize,
    /// Payload: the smallest default message limit among the brokers we carry to is 1 MiB.
    pub payload_bytes_max: usize,
    /// Events in one call: bounds the statement and the memory it needs.
    pub events_per_call_max: usize,
}

/// What a relay reads of one event, in bytes. A writer with SQL of its own may exceed what the library accepts; an event beyond
/// these limits is parked as dead, with the reason, and is never held in memory. The payload has no limit of its own: the
/// page, the read-ahead and the batch bound the bytes in memory, and one event always fits.
impl Limits {
    /// Type, aggregate type, aggregate id, key, topic, namespace and producer, each. SQL that reads them has the same number.
    pub const READ_TEXT_BYTES_MAX: usize = 4 * 1024;
    /// All headers as the table has them: four times what the library writes.
    pub const READ_HEADERS_BYTES_MAX: usize = 1024 * 1024;
    /// The action as the table has it: four times the largest parameters that the library writes.
    pub const READ_ACTION_BYTES_MAX: usize = 4 * 1024 * 1024;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            text_bytes_max: 255,
            header_name_bytes_max: 128,
            header_value_bytes_max: 4 * 1024,
            headers_max: 64,
            payload_bytes_max: 1024 * 1024,
            events_per_call_max: 10_000,
        }
    }
}
