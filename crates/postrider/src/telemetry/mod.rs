//! What a program can observe: spans of the crate `tracing`, and numbers.
//!
//! Spans are there with the features `actions` and `relay`. Numbers need the feature `metrics`: they go to the recorder that
//! the program installs for the crate [`metrics`](https://docs.rs/metrics), such as an exporter for Prometheus. Without a
//! recorder they cost a check. [`METRICS`] and [`SPANS`] list all of them; the reasons are in
//! `adr/0071-metrics-through-a-facade.md` of the repository.

#[cfg(feature = "metrics")]
mod buckets;
mod metric;
mod names;
#[cfg(feature = "otel")]
mod otel;
#[cfg(any(feature = "actions", feature = "relay"))]
mod record;

#[cfg(feature = "metrics")]
pub use buckets::{FixedBuckets, Histograms};
pub use metric::{Label, LabelValues, Metric, MetricKind, SpanFields};
pub use names::*;
#[cfg(feature = "otel")]
pub use otel::current_trace;
#[cfg(feature = "relay")]
pub(crate) use record::{Value, add, observe_all, set};
#[cfg(feature = "actions")]
pub(crate) use record::{add_one, observe};

/// Gives the description and the unit of every metric to the recorder of the program. Call it once, after the recorder is
/// installed.
#[cfg(feature = "metrics")]
pub fn describe() {
    for metric in METRICS {
        match metric.kind {
            MetricKind::Counter => {
                ::metrics::describe_counter!(metric.name, ::metrics::Unit::Count, metric.help);
            }
            MetricKind::Gauge => ::metrics::describe_gauge!(metric.name, metric.help),
            MetricKind::Numbers(_) => {
                ::metrics::describe_histogram!(metric.name, ::metrics::Unit::Count, metric.help);
            }
            MetricKind::Seconds(_) => {
                ::metrics::describe_histogram!(metric.name, ::metrics::Unit::Seconds, metric.help);
            }
        }
    }
}
