//! The metrics of this process, as Prometheus reads them.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use postrider::telemetry::{FixedBuckets, Histograms};
use postrider::{Code, Error};

use super::process;

/// Collects the metrics of this process.
#[derive(Clone)]
pub struct Recorder {
    others: PrometheusHandle,
    histograms: Histograms,
}

impl Recorder {
    /// Installs it. Metrics that were recorded before are lost, so call it before a relay starts. A second call returns the
    /// same one.
    ///
    /// # Errors
    /// [`Code::RelayStopped`] if this process has another recorder.
    pub fn install() -> Result<Self, Error> {
        static INSTALLED: OnceLock<Recorder> = OnceLock::new();
        if let Some(installed) = INSTALLED.get() {
            return Ok(installed.clone());
        }
        let exporter = PrometheusBuilder::new().build_recorder();
        let others = exporter.handle();
        let (recorder, histograms) = FixedBuckets::new(exporter);
        metrics::set_global_recorder(recorder).map_err(|_| {
            Error::new(Code::RelayStopped, "cannot collect metrics: this process has another recorder")
        })?;
        postrider::telemetry::describe();
        Ok(INSTALLED.get_or_init(|| Self { others, histograms }).clone())
    }

    /// Every metric, in the text format of Prometheus.
    pub(super) fn text(&self) -> String {
        let mut text = self.others.render() + &self.histograms.render();
        process::write(&mut text);
        text
    }
}
