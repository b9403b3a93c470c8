//! Builds the exporter.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{
    Protocol, SpanExporter as OtlpExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider, SpanData, SpanExporter,
};
use postrider::{Code, Error, Result};
use reqwest::redirect::Policy;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::{Layer, Registry};

use crate::config::settings::TracesSettings;

/// How long a collector may take for a batch of spans, and for the last one when the relay ends.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Spans that wait; further ones are dropped.
const QUEUE_SPANS_MAX: usize = 2_048;

/// Spans of one request.
const BATCH_SPANS_MAX: usize = 512;

/// How long a span waits for others.
const BATCH_DELAY: Duration = Duration::from_secs(1);

/// Sends spans until it is closed.
#[derive(Debug)]
pub struct Traces(SdkTracerProvider);

impl Traces {
    /// Connects to nothing yet. Call it outside of a runtime: the client of the exporting thread blocks.
    ///
    /// # Errors
    /// `PR-0604` if the settings cannot be used.
    pub(crate) fn open(settings: &TracesSettings, relay: Option<&str>) -> Result<Self> {
        let invalid = |error: String| {
            Error::new(Code::ConfigValue, format!("traces.endpoint cannot be used: {error}"))
                .with_hint("write it as http://HOST:PORT or https://HOST:PORT")
        };
        let client = reqwest::blocking::Client::builder()
            .tls_backend_preconfigured(postrider_sinks::webhook::tls_client(None)?)
            .timeout(TIMEOUT)
            // A redirect would get the secret of the header, too.
            .redirect(Policy::none())
            .no_proxy()
            .build()
            .map_err(|error| invalid(error.to_string()))?;
        let secret = settings.authorization.as_ref();
        let headers: HashMap<String, String> = secret
            .map(|value| ("authorization".to_owned(), value.expose_secret().to_owned()))
            .into_iter()
            .collect();
        let exporter = OtlpExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", settings.endpoint))
            .with_timeout(TIMEOUT)
            .with_headers(headers)
            .build()
            .map_err(|error| invalid(error.to_string()))?;
        let exporter =
            Reporting { exporter, endpoint: settings.endpoint.clone(), is_down: AtomicBool::new(false) };
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_SPANS_MAX)
            .with_max_export_batch_size(BATCH_SPANS_MAX)
            .with_scheduled_delay(BATCH_DELAY);
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches.build()).build();
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let instance = relay.map(|name| KeyValue::new("service.instance.id", name.to_owned()));
        let resource = Resource::builder_empty()
            .with_service_name(settings.service_name.clone())
            .with_attributes([version].into_iter().chain(instance))
            .build();
        Ok(Self(SdkTracerProvider::builder().with_span_processor(processor).with_resource(resource).build()))
    }

    /// Records the spans of Postrider, and nothing else: no log lines, and no spans of the exporter's own client.
    pub(crate) fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        let is_ours = |of: &Metadata<'_>| {
            of.is_span() && *of.level() <= Level::INFO && of.target().starts_with("postrider")
        };
        let filter = FilterFn::new(is_ours).with_max_level_hint(LevelFilter::INFO);
        tracing_opentelemetry::layer().with_tracer(self.0.tracer("postrider")).with_filter(filter).boxed()
    }

    /// Sends the spans that wait, for a limited time.
    pub(crate) fn close(self) {
        if let Err(error) = self.0.shutdown_with_timeout(TIMEOUT) {
            tracing::debug!(%error, "the last spans were not exported");
        }
    }
}

/// Logs the beginning and the end of an outage of the collector.
struct Reporting {
    exporter: OtlpExporter,
    endpoint: String,
    is_down: AtomicBool,
}

impl SpanExporter for Reporting {
    fn export(&self, batch: Vec<SpanData>) -> impl Future<Output = OTelSdkResult> + Send {
        let exported = self.exporter.export(batch);
        async move {
            let result = exported.await;
            let was_down = self.is_down.swap(result.is_err(), Ordering::Relaxed);
            match &result {
                Err(error) if !was_down => {
                    tracing::warn!(endpoint = self.endpoint, %error, "spans cannot be exported and are dropped");
                }
                Ok(()) if was_down => tracing::info!(endpoint = self.endpoint, "spans are exported again"),
                _ => {}
            }
            result
        }
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl fmt::Debug for Reporting {
    /// Not the exporter: it has the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporting").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
