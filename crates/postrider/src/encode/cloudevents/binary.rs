//! Binary mode: the unchanged payload, with attributes in headers.

use super::super::{Encoded, Encoder, Outgoing, Plain};
use super::Source;
use super::attributes::attributes;
use super::source::percent_encoded;
use crate::{Headers, Result};

/// Sends a CloudEvent in binary mode: the payload byte for byte, without a copy, and each attribute in a header. The
/// content type is the event's `content-type` header, else `application/json`.
#[derive(Debug, Clone, Default)]
pub struct CloudEventsBinary {
    source: Source,
    sends_action_params: bool,
    binding: Binding,
}

/// How a protocol carries attributes. Must match the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Binding {
    /// HTTP and NATS: `ce-`. Characters outside printable ASCII, space, `"` and `%` are percent-encoded.
    #[default]
    Http,
    /// Kafka: `ce_`. Values are UTF-8.
    Kafka,
    /// AMQP: `cloudEvents_`. Values are UTF-8.
    Amqp,
    /// MQTT 5: no prefix. Values are UTF-8.
    Mqtt,
}

impl Binding {
    /// The prefix of attribute names.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Http => "ce-",
            Self::Kafka => "ce_",
            Self::Amqp => "cloudEvents_",
            Self::Mqtt => "",
        }
    }

    fn header(self, (name, value): (&str, impl AsRef<str>)) -> (String, String) {
        let value = value.as_ref();
        let value = match self {
            Self::Http => percent_encoded(value, |c| c.is_ascii_graphic() && !"\"%".contains(c)).into_owned(),
            Self::Kafka | Self::Amqp | Self::Mqtt => value.to_owned(),
        };
        (format!("{}{name}", self.prefix()), value)
    }
}

impl CloudEventsBinary {
    /// With this source, in headers for HTTP.
    pub fn new(source: Source) -> Self {
        Self { source, ..Self::default() }
    }

    /// Whether the parameters of an event's action are sent too, as the attribute `actionparams`. They may be larger than a
    /// destination allows for headers.
    #[must_use]
    pub fn action_params(mut self, sends: bool) -> Self {
        self.sends_action_params = sends;
        self
    }

    /// Sets the protocol of the destination.
    #[must_use]
    pub fn binding(mut self, binding: Binding) -> Self {
        self.binding = binding;
        self
    }
}

impl Encoder for CloudEventsBinary {
    fn encode(&self, outgoing: &Outgoing<'_>) -> Result<Encoded> {
        Plain.encode(outgoing)
    }

    fn headers(&self, outgoing: &Outgoing<'_>) -> Headers {
        attributes(outgoing, &self.source, self.sends_action_params)
            .into_iter()
            .map(|a| self.binding.header(a))
            .collect()
    }
}
