//! `docs/src/metrics.md`

use std::fmt::Write;

use postrider::telemetry::{LabelValues, METRICS, MetricKind};

use super::{GENERATED, cell};

const INTRODUCTION: &str = "\
With the feature `metrics` the library reports numbers to the recorder that your program installs for the crate
[`metrics`](https://docs.rs/metrics). Without the feature, or without a recorder, nothing is counted. For Prometheus:

```toml
[dependencies]
postrider = { path = \"../postrider/crates/postrider\", features = [\"actions\", \"metrics\", \"sqlx-postgres\"] }
metrics = \"0.24\"
metrics-exporter-prometheus = { version = \"0.18\", default-features = false }
```

```rust,ignore
let exporter = PrometheusBuilder::new().build_recorder();
let others = exporter.handle();
let (recorder, histograms) = postrider::telemetry::FixedBuckets::new(exporter);
metrics::set_global_recorder(recorder)?;
postrider::telemetry::describe();
// A route of your service awaits relay.handle().refresh_metrics(), which sets the gauges of the database, and
// returns others.render() + &histograms.render(). If your program has histograms of its own, call others.run_upkeep()
// every few seconds: without the exporter's own listener nothing else does, and its memory grows.
```

The command `postrider relay` serves them at `/metrics` if `listen` of `[http]` is set; see [Monitoring](monitoring.md). Spans are on the page
[Traces](traces.md).

Gauges of the database (the first eight below, from `postrider_oldest_undelivered_age_seconds` on) come from one overview per outbox that is read
when the metrics are requested, and at most every five seconds. Every relay of an outbox exports them: use `max by (outbox, subscription)`.
`postrider relay` also exports the standard `process_*` metrics on Linux.

Labels have a limited number of values: a closed list, or one value for each thing that the program has registered. No label contains
an event's type, key or id, a topic, a URL or the text of an error.

Each histogram has the buckets that `METRICS` lists for it. `FixedBuckets` counts an observation in its bucket at once; another
recorder works too, with `set_buckets_for_metric` and `Metric::buckets`, but keeps each observation until it is read
([why](../../adr/0110-fixed-histogram-buckets.md)).
";

/// Every metric with its labels.
pub fn metrics() -> String {
    let mut page = format!(
        "# Metrics\n\n{GENERATED}\n\n{INTRODUCTION}\n| metric | kind | labels | what it counts |\n|---|---|---|---|\n"
    );
    for metric in METRICS {
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Numbers(_) => "histogram",
            MetricKind::Seconds(_) => "histogram, seconds",
            _ => "",
        };
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{}`", label.name)).collect();
        let _ =
            writeln!(page, "| `{}` | {kind} | {} | {} |", metric.name, labels.join(", "), cell(metric.help));
    }
    let _ = write!(page, "\n## Labels\n\n| label | value | meaning |\n|---|---|---|\n");
    let mut seen = Vec::new();
    for label in METRICS.iter().flat_map(|metric| metric.labels) {
        if seen.contains(&label) {
            continue;
        }
        seen.push(label);
        match label.values {
            LabelValues::Closed(list) => {
                for (value, meaning) in list {
                    let _ = writeln!(page, "| `{}` | `{value}` | {} |", label.name, cell(meaning));
                }
            }
            LabelValues::Registered(what) => {
                let _ = writeln!(page, "| `{}` | | {} |", label.name, cell(what));
            }
            LabelValues::ErrorCodes => {
                let _ =
                    writeln!(page, "| `{}` | | an [error code](errors.md), such as `PR-0301` |", label.name);
            }
            _ => {}
        }
    }
    page
}
