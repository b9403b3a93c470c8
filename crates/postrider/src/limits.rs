//! Every limit on an event, with unit and reason. The relay's limits are in its `Policy`.

/// Limits on the events that a writer accepts. Checked before any SQL runs.
///
/// Start from the default; each field has a method of the same name that sets it:
///
/// ```
/// use postrider::{Limits, Outbox};
///
/// let outbox = Outbox::new().limits(Limits::default().payload_bytes_max(64 * 1024));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Type, aggregate type, aggregate id, key, topic, namespace and producer. Fits every layout and broker.
    pub text_bytes_max: usize,
    /// Name of a header.
    pub header_name_bytes_max: usize,
    /// Value of a header. Brokers store headers with every message; large data belongs in the payload.
    pub header_value_bytes_max: usize,
    /// Number of headers of one event.
    pub headers_max: usize,
    /// Payload. The smallest default limit on messages among the supported brokers is 1 MiB.
    pub payload_bytes_max: usize,
    /// Number of events in one call. Limits the statement and the memory it needs.
    pub events_per_call_max: usize,
}

crate::setters! { Limits:
    text_bytes_max: usize,
    header_name_bytes_max: usize,
    header_value_bytes_max: usize,
    headers_max: usize,
    payload_bytes_max: usize,
    events_per_call_max: usize,
}

/// Limits on the events that a relay reads, in bytes. Plain SQL can write larger events than the library does; an event
/// beyond these limits is parked as dead, with the reason, and is never loaded into memory. The payload has no separate
/// limit: the page, the read-ahead and the batch limit the bytes in memory, and one event always fits.
impl Limits {
    /// Type, aggregate type, aggregate id, key, topic, namespace and producer, each. The SQL that reads them contains
    /// the same number.
    pub const READ_TEXT_BYTES_MAX: usize = 4 * 1024;
    /// All headers as stored in the table: four times what the library writes.
    pub const READ_HEADERS_BYTES_MAX: usize = 1024 * 1024;
    /// The action as stored in the table: four times the largest parameters that the library writes.
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
