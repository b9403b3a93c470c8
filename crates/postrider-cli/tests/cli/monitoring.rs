//! Alerts and the board: their own tests, and a real Prometheus next to a destination that is killed.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use postrider::telemetry::METRICS;
use postrider_testkit::servers::endpoint::{Endpoint, SECRET};
use postrider_testkit::servers::skipped;
use serde_json::Value;

use crate::http::{free, get, metric, metrics, promtool, request};
use crate::program::Program;
use crate::shop::{Running, number, run_sql, status, until};

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

fn read(file: &str) -> String {
    std::fs::read_to_string(deploy(file)).unwrap()
}

/// The queries of the board.
pub(crate) fn queries() -> Vec<(String, String)> {
    let board: Value = serde_json::from_str(&read("grafana/postrider.json")).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let query = |panel: &Value| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let expr = text(&panel["targets"][0]["expr"]).replace("$outbox", ".*").replace("$subscription", ".*");
        (text(&panel["title"]), expr)
    };
    panels.iter().map(query).collect()
}

#[test]
fn every_alert_fires_stays_silent_and_clears_in_its_tests() {
    let file = deploy("prometheus/alerts_test.yml");
    let Some((passed, said)) = promtool(&["test", "rules", file.to_str().unwrap()], "") else { return };
    assert!(passed, "{said}");
    let (alerts, tests) = (read("prometheus/alerts.yml"), read("prometheus/alerts_test.yml"));
    for line in alerts.lines() {
        if let Some(name) = line.trim().strip_prefix("- alert: ") {
            let of_alert = format!("ALERTS{{alertname=\"{name}\"");
            assert!(tests.matches(&of_alert).count() >= 2, "{name} has no test");
        }
    }
}

#[test]
fn every_alert_has_its_texts_and_a_runbook_and_every_metric_exists() {
    let alerts = read("prometheus/alerts.yml");
    let count = |text: &str| alerts.matches(text).count();
    let number = count("- alert: ");
    for part in ["severity: ", "summary: ", "description: ", "runbook_url: "] {
        assert_eq!(count(part), number, "{part}");
    }
    let docs = deploy("..");
    let mut runbooks = BTreeSet::new();
    for path in alerts.lines().filter_map(|line| line.trim().strip_prefix("runbook_url: ")) {
        let page = std::fs::read_to_string(docs.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert!(runbooks.insert(path) && page.contains("## What to do"), "{path}");
    }
    for check in postrider_cli::doctor::Check::ALL {
        let path = format!("docs/src/runbooks/{}.md", check.runbook());
        let page =
            std::fs::read_to_string(docs.join(&path)).unwrap_or_else(|e| panic!("{check} {path}: {e}"));
        for part in ["## What it means", "## What to do", "## It is over when"] {
            assert!(page.contains(part), "{path} without {part}");
        }
    }
    let used = alerts.clone() + &queries().into_iter().map(|(_, expr)| expr + "\n").collect::<String>();
    let mut found = BTreeSet::new();
    for word in used.split(|c: char| !c.is_ascii_lowercase() && c != '_') {
        if !word.starts_with("postrider_") {
            continue;
        }
        let base =
            ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
        assert!(METRICS.iter().any(|metric| metric.name == word || metric.name == base), "{word}");
        found.insert(word);
    }
    assert!(found.len() > 20, "{found:?}");
}

/// A private Prometheus that reads one relay, with the alerts of this repository; they fire after seconds instead of
/// minutes.
pub(crate) struct Prometheus {
    _process: Running,
    address: SocketAddr,
}

impl Prometheus {
    pub(crate) fn start(folder: &Path, relay: SocketAddr) -> Option<Self> {
        let rules: String = read("prometheus/alerts.yml")
            .lines()
            .map(|line| match line.trim_start().starts_with("for: ") {
                true => "        for: 1s\n".to_owned(),
                false => {
                    line.replace("_age_seconds) > 300", "_age_seconds) > 3")
                        .replace("transaction_age_seconds) > 900", "transaction_age_seconds) > 1")
                        + "\n"
                }
            })
            .collect();
        std::fs::write(folder.join("alerts.yml"), rules).unwrap();
        let config = format!(
            "global:\n  scrape_interval: 500ms\n  scrape_timeout: 500ms\n  evaluation_interval: 500ms\n\
             rule_files: [alerts.yml]\nscrape_configs:\n  - job_name: postrider\n    static_configs:\n      \
             - targets: ['{relay}']\n"
        );
        std::fs::write(folder.join("prometheus.yml"), config).unwrap();
        let address = free();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("tsdb").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let Ok(process) = command.spawn() else {
            skipped("prometheus", "not installed; as root: apt-get install prometheus");
            return None;
        };
        let started = Self { _process: Running(process), address };
        until(|| (get(address, "/-/ready")?.0 == 200).then_some(()));
        Some(started)
    }

    /// The results of a query.
    pub(crate) fn query(&self, expr: &str) -> Vec<Value> {
        let encoded: String = expr.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let text = format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\nhost: prometheus\r\n\r\n");
        let (status, body) = request(self.address, &text).unwrap();
        assert_eq!(status, 200, "{expr}: {body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        answer["data"]["result"].as_array().unwrap_or_else(|| panic!("{expr}: {answer}")).clone()
    }

    pub(crate) fn firing(&self) -> BTreeSet<String> {
        let alerts = self.query("ALERTS{alertstate=\"firing\"}");
        alerts.iter().map(|alert| alert["metric"]["alertname"].as_str().unwrap().to_owned()).collect()
    }
}

fn write(program: &Program, events: usize) {
    let rows: Vec<String> =
        (0..events).map(|key| format!("('order.placed', '{{}}', 'key-{}')", key % 20)).collect();
    run_sql(
        program,
        &format!(
            "PRAGMA busy_timeout = 30000; INSERT INTO postrider_events (type, payload, key) VALUES {}",
            rows.join(",")
        ),
    );
}

#[test]
fn a_destination_that_is_killed_under_load_is_told_by_alerts_readiness_and_status() {
    let Some(endpoint) = Endpoint::private() else { return };
    let address = free();
    let config = format!(
        "[http]\nlisten = '{address}'\nstalled_after = '2s'\n[outbox.shop]\nurl = 'sqlite:shop.db'\n[sink.hook]\n\
         type = 'webhook'\nurl = 'http://127.0.0.1:{}/hook'\nallow_private = true\nsecret = 'file:secret.txt'\n\
         [subscription.orders]\nsink = 'hook'\nprobe_min = '100ms'\nprobe_max = '500ms'\nlease = '3s'\n",
        endpoint.port()
    );
    let program = Program::with_config(&config).file("secret.txt", SECRET);
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    let Some(prometheus) = Prometheus::start(program.path(), address) else { return };
    let mut command = program.command(&["relay"]);
    command.stderr(Stdio::null());
    let _relay = Running::start(command);
    write(&program, 100);
    until(|| (endpoint.received().len() >= 100).then_some(()));
    until(|| prometheus.firing().is_empty().then_some(()));

    endpoint.kill();
    let mut written = 100;
    // The load goes on while the destination is down.
    until(|| {
        write(&program, 10);
        written += 10;
        prometheus.firing().contains("PostriderDestinationDown").then_some(())
    });
    let firing = prometheus.firing();
    for other in ["PostriderNoProgress", "PostriderNoRelay", "PostriderDeadEvents", "PostriderHalted"] {
        assert!(!firing.contains(other), "{firing:?}");
    }
    let row = until(|| {
        let row = status(&program);
        (!row["destinations_down"].as_array().unwrap().is_empty()).then_some(row)
    });
    assert!(row["destinations_down"][0]["next_probe_at"].is_string(), "{row}");
    // Longer than `stalled_after`: the relay is still ready, because its destination is the reason.
    until(|| (metric(&metrics(address), "postrider_oldest_undelivered_age_seconds{")? > 3.0).then_some(()));
    let (ready, body) = get(address, "/readyz").unwrap();
    assert_eq!(ready, 200, "{body}");
    assert_eq!(
        number(&program, "SELECT count(*) FROM postrider_parked WHERE attempts > 0"),
        0,
        "no attempt is used"
    );

    endpoint.start();
    until(|| {
        let row = status(&program);
        let is_over =
            row["backlog"]["events"] == 0 && row["destinations_down"].as_array().unwrap().is_empty();
        is_over.then_some(())
    });
    let ids: BTreeSet<String> = endpoint.received().into_iter().map(|request| request.id).collect();
    assert_eq!(ids.len(), written, "every event arrived");
    assert_eq!(number(&program, "SELECT count(*) FROM postrider_parked"), 0);
    until(|| (!prometheus.firing().contains("PostriderDestinationDown")).then_some(()));
    assert_eq!(
        metric(
            &metrics(address),
            "postrider_events_dead_total{outbox=\"shop\",subscription=\"orders\",reason=\"given_up\"}"
        ),
        Some(0.0)
    );
}
