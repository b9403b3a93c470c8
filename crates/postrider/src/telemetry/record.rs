//! Gives numbers to the recorder of the program. Without the feature `metrics` there is none.

#![cfg_attr(not(feature = "metrics"), expect(unused_variables, reason = "there is no recorder"))]

use std::sync::Arc;
#[cfg(feature = "actions")]
use std::time::Duration;

use super::{LabelValues, Metric};

/// The value of a label: one of a closed list, or the name of something that the program registered.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "relay"), allow(dead_code, reason = "actions have constant names"))]
pub(crate) enum Value {
    Static(&'static str),
    Shared(Arc<str>),
}

impl Value {
    fn as_str(&self) -> &str {
        match self {
            Self::Static(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Static(text)
    }
}

impl From<&Arc<str>> for Value {
    fn from(text: &Arc<str>) -> Self {
        Self::Shared(text.clone())
    }
}

/// Adds one to a counter. `values`: one for each of its labels, in their order.
#[cfg(feature = "actions")]
pub(crate) fn add_one<const N: usize>(metric: &'static Metric, values: [&'static str; N]) {
    add(metric, values.map(Value::Static), 1);
}

/// Adds a number to a counter.
pub(crate) fn add<const N: usize>(metric: &'static Metric, values: [Value; N], number: u64) {
    check(metric, &values);
    #[cfg(feature = "metrics")]
    ::metrics::counter!(metric.name, labels(metric, values)).increment(number);
}

/// Sets a gauge.
#[cfg(feature = "relay")]
pub(crate) fn set<const N: usize>(metric: &'static Metric, values: [Value; N], number: f64) {
    check(metric, &values);
    #[cfg(feature = "metrics")]
    ::metrics::gauge!(metric.name, labels(metric, values)).set(number);
}

/// Adds a duration to a histogram.
#[cfg(feature = "actions")]
pub(crate) fn observe<const N: usize>(
    metric: &'static Metric,
    values: [&'static str; N],
    duration: Duration,
) {
    observe_all(metric, values.map(Value::Static), [duration.as_secs_f64()]);
}

/// Adds numbers to a histogram, which is looked up once.
pub(crate) fn observe_all<const N: usize>(
    metric: &'static Metric,
    values: [Value; N],
    numbers: impl IntoIterator<Item = f64>,
) {
    check(metric, &values);
    #[cfg(feature = "metrics")]
    {
        let histogram = ::metrics::histogram!(metric.name, labels(metric, values));
        numbers.into_iter().for_each(|number| histogram.record(number));
    }
}

#[cfg(feature = "metrics")]
fn labels<const N: usize>(metric: &'static Metric, values: [Value; N]) -> Vec<::metrics::Label> {
    let pairs = metric.labels.iter().zip(values);
    let label = |(label, value): (&super::Label, Value)| match value {
        Value::Static(value) => ::metrics::Label::from_static_parts(label.name, value),
        Value::Shared(value) => ::metrics::Label::new(label.name, value),
    };
    pairs.map(label).collect()
}

/// In tests, a value outside of the closed list of its label is found where it is recorded.
fn check(metric: &Metric, values: &[Value]) {
    debug_assert_eq!(metric.labels.len(), values.len(), "{}", metric.name);
    debug_assert!(
        metric.labels.iter().zip(values).all(|(label, value)| match label.values {
            LabelValues::Closed(list) => list.iter().any(|(known, _)| *known == value.as_str()),
            LabelValues::Registered(_) | LabelValues::ErrorCodes => true,
        }),
        "{}: {values:?}",
        metric.name
    );
}
