//! A recorder of metrics that can be switched off, so that one process measures with it and without it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use postrider::telemetry::{FixedBuckets, Histograms};
use tokio::task::JoinHandle;

use crate::Error;

/// How often the metrics are read: more often than Prometheus does by default.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);

static IS_ON: AtomicBool = AtomicBool::new(false);

/// As long as it exists, metrics are recorded, and read once per second.
pub(crate) struct Recording(JoinHandle<()>);

impl Recording {
    /// Needs a runtime.
    pub(crate) fn start() -> Result<Self, Error> {
        static INSTALLED: OnceLock<(PrometheusHandle, Histograms)> = OnceLock::new();
        let (others, histograms) = match INSTALLED.get() {
            Some(installed) => installed.clone(),
            None => {
                // The same as that of the command.
                let exporter = PrometheusBuilder::new().build_recorder();
                let others = exporter.handle();
                let (recorder, histograms) = FixedBuckets::new(exporter);
                metrics::set_global_recorder(Switched(recorder))?;
                INSTALLED.get_or_init(|| (others, histograms)).clone()
            }
        };
        IS_ON.store(true, Ordering::Relaxed);
        Ok(Self(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(SCRAPE_INTERVAL);
            loop {
                ticks.tick().await;
                std::hint::black_box(others.render() + &histograms.render());
            }
        })))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        IS_ON.store(false, Ordering::Relaxed);
        self.0.abort();
    }
}

/// Does nothing while it is off, as without a recorder.
struct Switched(FixedBuckets<PrometheusRecorder>);

impl metrics::Recorder for Switched {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.0.describe_counter(key, unit, text);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.0.describe_gauge(key, unit, text);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.0.describe_histogram(key, unit, text);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        match IS_ON.load(Ordering::Relaxed) {
            true => self.0.register_counter(key, metadata),
            false => Counter::noop(),
        }
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        match IS_ON.load(Ordering::Relaxed) {
            true => self.0.register_gauge(key, metadata),
            false => Gauge::noop(),
        }
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        match IS_ON.load(Ordering::Relaxed) {
            true => self.0.register_histogram(key, metadata),
            false => Histogram::noop(),
        }
    }
}
