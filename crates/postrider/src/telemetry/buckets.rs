//! Histograms that are counted when they are recorded, in the buckets of the list of metrics.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ::metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

use super::{METRICS, Metric};

/// A recorder that counts Postrider's histograms in their buckets, and gives everything else to another recorder.
///
/// An exporter keeps every observation until it is read: at 400,000 events per second that costs a relay 5% of its
/// throughput, and memory. Here an observation is two additions, and the memory is fixed.
/// `adr/0110-fixed-histogram-buckets.md` of the repository has the figures.
#[derive(Debug)]
pub struct FixedBuckets<R> {
    inner: R,
    histograms: Histograms,
}

impl<R> FixedBuckets<R> {
    /// Everything except Postrider's histograms goes to `inner`. The second value has what is not in the output of `inner`.
    pub fn new(inner: R) -> (Self, Histograms) {
        let histograms = Histograms::default();
        (Self { inner, histograms: histograms.clone() }, histograms)
    }
}

impl<R: Recorder> Recorder for FixedBuckets<R> {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.inner.describe_counter(name, unit, text);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.inner.describe_gauge(name, unit, text);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, text: SharedString) {
        self.inner.describe_histogram(name, unit, text);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        self.inner.register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.inner.register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        match self.histograms.get(key) {
            Some(counts) => Histogram::from_arc(counts),
            None => self.inner.register_histogram(key, metadata),
        }
    }
}

/// What a [`FixedBuckets`] has counted. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Histograms(Arc<Mutex<HashMap<Key, Arc<Counts>>>>);

impl Histograms {
    /// Every histogram in the text format of Prometheus, to be appended to the output of the other recorder.
    pub fn render(&self) -> String {
        let mut found: Vec<_> = {
            let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter().map(|(key, counts)| (counts.metric.name, labels(key), counts.clone())).collect()
        };
        found.sort_by(|left, right| (left.0, &left.1).cmp(&(right.0, &right.1)));
        let (mut text, mut last) = (String::new(), "");
        for (name, labels, counts) in found {
            if name != last {
                let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} histogram", counts.metric.help);
                last = name;
            }
            counts.write(&mut text, &labels);
        }
        text
    }

    /// The counts of a histogram of Postrider. Its keys are as few as the values of its labels.
    fn get(&self, key: &Key) -> Option<Arc<Counts>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = all.get(key) {
            return Some(counts.clone());
        }
        let metric = METRICS.iter().find(|metric| metric.name == key.name())?;
        let counts = Arc::new(Counts::new(metric, metric.buckets()?));
        all.insert(key.clone(), counts.clone());
        Some(counts)
    }
}

/// `name="value",` for each label.
fn labels(key: &Key) -> String {
    let mut text = String::new();
    for label in key.labels() {
        let value = label.value().replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
        let _ = write!(text, "{}=\"{value}\",", label.key());
    }
    text
}

#[derive(Debug)]
struct Counts {
    metric: &'static Metric,
    limits: &'static [f64],
    /// One for each limit, and one above the last.
    buckets: Vec<AtomicU64>,
    /// A sum as the bits of a float.
    sum: AtomicU64,
}

impl Counts {
    fn new(metric: &'static Metric, limits: &'static [f64]) -> Self {
        let buckets = std::iter::repeat_with(AtomicU64::default).take(limits.len() + 1).collect();
        Self { metric, limits, buckets, sum: AtomicU64::new(0.0_f64.to_bits()) }
    }

    fn add(&self, value: f64, number: u64) {
        let bucket = self.limits.partition_point(|limit| *limit < value);
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.fetch_add(number, Ordering::Relaxed);
        }
        let more = |bits| Some((f64::from_bits(bits) + value * number as f64).to_bits());
        // The closure never refuses.
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    fn write(&self, text: &mut String, labels: &str) {
        let name = self.metric.name;
        let mut number = 0;
        for (bucket, limit) in self.buckets.iter().zip(self.limits.iter().chain([&f64::INFINITY])) {
            number += bucket.load(Ordering::Relaxed);
            let limit = if limit.is_finite() { limit.to_string() } else { "+Inf".to_owned() };
            let _ = writeln!(text, "{name}_bucket{{{labels}le=\"{limit}\"}} {number}");
        }
        let labels = labels.trim_end_matches(',');
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        let _ = writeln!(text, "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {number}");
    }
}

impl HistogramFn for Counts {
    fn record(&self, value: f64) {
        self.add(value, 1);
    }

    fn record_many(&self, value: f64, count: usize) {
        self.add(value, count as u64);
    }
}

#[cfg(test)]
mod tests {
    use ::metrics::{Label, NoopRecorder};

    use super::*;
    use crate::telemetry::BATCH_EVENTS;

    #[test]
    fn observations_are_counted_in_the_buckets_of_the_list_and_labels_are_escaped() {
        let (recorder, histograms) = FixedBuckets::new(NoopRecorder);
        let label = |value: &str| vec![Label::new("outbox", value.to_owned()), Label::new("sink", "out")];
        let metadata = Metadata::new("", ::metrics::Level::INFO, None);
        let limits = BATCH_EVENTS.buckets().unwrap();
        for outbox in ["shop", "a\"b\\c\nd"] {
            let key = Key::from_parts(BATCH_EVENTS.name, label(outbox));
            let histogram = recorder.register_histogram(&key, &metadata);
            histogram.record(limits[0]);
            histogram.record(limits[0] + 0.5);
            histogram.record_many(f64::from(1_000_000_u32), 3);
        }
        let text = histograms.render();
        let series = |end: &str| {
            let start = format!("{}_{end}", BATCH_EVENTS.name);
            let line = text.lines().find(|line| line.starts_with(&start) && line.contains("\"shop\""));
            line.and_then(|line| line.rsplit_once(' ')).map(|(_, value)| value.to_owned()).unwrap_or_default()
        };
        assert_eq!(series(&format!("bucket{{outbox=\"shop\",sink=\"out\",le=\"{}\"", limits[0])), "1");
        assert_eq!(series(&format!("bucket{{outbox=\"shop\",sink=\"out\",le=\"{}\"", limits[1])), "2");
        assert_eq!(series("bucket{outbox=\"shop\",sink=\"out\",le=\"+Inf\""), "5");
        assert_eq!(series("count{outbox=\"shop\",sink=\"out\"}"), "5");
        assert_eq!(series("sum{"), (2.0 * limits[0] + 0.5 + 3_000_000.0).to_string());
        assert!(text.contains(r#"outbox="a\"b\\c\nd",sink"#), "{text}");
        assert_eq!(text.matches("# TYPE ").count(), 1, "{text}");
    }

    #[test]
    fn the_histograms_of_a_program_go_to_its_own_recorder() {
        let (recorder, histograms) = FixedBuckets::new(NoopRecorder);
        let metadata = Metadata::new("", ::metrics::Level::INFO, None);
        recorder.register_histogram(&Key::from_name("request_seconds"), &metadata).record(1.0);
        assert_eq!(histograms.render(), "");
    }
}
