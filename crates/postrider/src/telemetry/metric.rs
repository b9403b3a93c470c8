//! What the list of names consists of: metrics with their labels, and spans with their fields.

/// A number that Postrider reports.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// Begins with `postrider_`, and ends with its unit; a counter ends with `_total`.
    pub name: &'static str,
    /// How it is counted.
    pub kind: MetricKind,
    /// In the order in which the code gives their values.
    pub labels: &'static [Label],
    /// What it counts, as one sentence.
    pub help: &'static str,
}

impl Metric {
    /// The upper limits of its buckets, if it is a histogram.
    pub const fn buckets(&self) -> Option<&'static [f64]> {
        match self.kind {
            MetricKind::Seconds(buckets) | MetricKind::Numbers(buckets) => Some(buckets),
            MetricKind::Counter | MetricKind::Gauge => None,
        }
    }
}

/// How a metric is counted.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum MetricKind {
    /// Only increases.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A number in buckets with these upper limits.
    Numbers(&'static [f64]),
    /// Seconds in buckets with these upper limits.
    Seconds(&'static [f64]),
}

/// A label of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// What it can be.
    pub values: LabelValues,
}

/// The values of a label. There is always a limit to their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LabelValues {
    /// These, each with its meaning.
    Closed(&'static [(&'static str, &'static str)]),
    /// One for each of the things that a program registers.
    Registered(&'static str),
    /// The error codes of this version, such as `PR-0301`.
    ErrorCodes,
}

/// A span of the crate `tracing`, at the level `info`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpanFields {
    /// The name of the span.
    pub name: &'static str,
    /// Its fields, each with its content. Names with dots follow the OpenTelemetry conventions.
    pub fields: &'static [(&'static str, &'static str)],
}
