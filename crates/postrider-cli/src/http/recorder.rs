//! The metrics of this process, as Prometheus reads them.

use std::sync::OnceLock;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use postrider::telemetry::METRICS;
use postrider::{Code, Error};

use super::process;

/// How often the exporter takes the observations of histograms out of memory.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Collects the metrics of this process.
#[derive(Clone)]
pub struct Recorder(PrometheusHandle);

impl Recorder {
    /// Installs it. Metrics that were recorded before are lost, so call it before a relay starts. A second call returns the
    /// same one.
    ///
    /// # Errors
    /// [`Code::RelayStopped`] if this process has another recorder.
    pub fn install() -> Result<Self, Error> {
        static INSTALLED: OnceLock<PrometheusHandle> = OnceLock::new();
        if let Some(handle) = INSTALLED.get() {
            return Ok(Self(handle.clone()));
        }
        let failed = |e| Error::new(Code::RelayStopped, "cannot collect metrics").with_source(e);
        let mut builder = PrometheusBuilder::new();
        for metric in METRICS {
            if let Some(buckets) = metric.buckets() {
                let name = Matcher::Full(metric.name.to_owned());
                builder = builder.set_buckets_for_metric(name, buckets).map_err(failed)?;
            }
        }
        let handle = builder.install_recorder().map_err(failed)?;
        postrider::telemetry::describe();
        Ok(Self(INSTALLED.get_or_init(|| handle).clone()))
    }

    /// Bounds the memory of histograms while nothing reads the metrics. Never returns.
    pub async fn keep_up(self) {
        let mut ticks = tokio::time::interval(UPKEEP_INTERVAL);
        loop {
            ticks.tick().await;
            self.0.run_upkeep();
        }
    }

    /// Every metric, in the text format of Prometheus.
    pub(super) fn text(&self) -> String {
        let mut text = self.0.render();
        process::write(&mut text);
        text
    }
}
