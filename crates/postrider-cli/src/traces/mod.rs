//! The spans of a relay, sent to an OpenTelemetry collector as OTLP.
//!
//! A span is put into a queue with a limit, and a thread sends what is in it: a collector that is down or slow delays
//! nothing, and costs spans.

#[cfg(feature = "otlp")]
mod export;

#[cfg(feature = "otlp")]
pub use export::Traces;

/// Not in this program: the settings refuse an endpoint.
#[cfg(not(feature = "otlp"))]
#[derive(Debug)]
pub enum Traces {}

#[cfg(not(feature = "otlp"))]
impl Traces {
    pub(crate) fn open(
        _settings: &crate::config::settings::TracesSettings,
        _relay: Option<&str>,
    ) -> postrider::Result<Self> {
        Err(postrider::Error::new(
            postrider::Code::ConfigValue,
            "this program was built without the feature `otlp`",
        ))
    }

    pub(crate) fn layer(
        &self,
    ) -> Box<dyn tracing_subscriber::Layer<tracing_subscriber::Registry> + Send + Sync> {
        match *self {}
    }

    pub(crate) fn close(self) {
        match self {}
    }
}
