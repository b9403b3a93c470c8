//! The HTTP listener of a relay: metrics, liveness, readiness, and what hostile clients may do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use postrider_testkit::servers::skipped;
use serde_json::Value;

use crate::program::Program;
use crate::shop::{self, GOOD, Running, until};

/// A port that was free.
pub(crate) fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Sends a request and returns the status and the body; `None` if nothing listens.
pub(crate) fn request(address: SocketAddr, text: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(text.as_bytes()).ok()?;
    let mut answer = String::new();
    // A server that refuses a request may close the connection before all of it was sent.
    let _ = stream.read_to_string(&mut answer);
    let status = answer.split_once(' ')?.1.get(..3)?.parse().ok()?;
    Some((status, answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned()))
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    request(address, &format!("GET {path} HTTP/1.1\r\nhost: relay\r\nconnection: close\r\n\r\n"))
}

/// The body of `/metrics`.
pub(crate) fn metrics(address: SocketAddr) -> String {
    let (status, body) = get(address, "/metrics").unwrap();
    assert_eq!(status, 200, "{body}");
    body
}

/// The value of the only series with this beginning.
pub(crate) fn metric(page: &str, start: &str) -> Option<f64> {
    let line = page.lines().find(|line| line.starts_with(start))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

/// Runs `promtool` with this input, if there is one. Returns what it printed, and whether it was content.
pub(crate) fn promtool(args: &[&str], input: &str) -> Option<(bool, String)> {
    let mut command = Command::new("promtool");
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        skipped("prometheus", "promtool is not installed; as root: apt-get install prometheus");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    let text = [done.stdout, done.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    Some((done.status.success(), text))
}

fn relay(program: &Program, more: &[&str]) -> Running {
    let mut command = program.command(&[&["relay"], more].concat());
    command.stderr(Stdio::null());
    Running::start(command)
}

fn listening() -> (Program, SocketAddr) {
    let address = free();
    let program = Program::with_config(&format!("[http]\nlisten = '{address}'\n{GOOD}"));
    for args in [&["migrate", "up"][..], &["write", "--type", "shop.opened"]] {
        let ran = program.run(args);
        assert_eq!(ran.exit, Some(0), "{ran:?}");
    }
    (program, address)
}

#[test]
fn a_relay_serves_metrics_liveness_and_readiness() {
    let (program, address) = listening();
    let before = program.run(&["healthcheck"]);
    assert_eq!(before.exit, Some(1), "{before:?}");
    assert!(before.stderr.contains("PR-0612"), "{before:?}");
    let relay = relay(&program, &[]);
    until(|| (get(address, "/readyz")?.0 == 200).then_some(()));
    assert_eq!(get(address, "/livez").unwrap(), (200, "ok\n".to_owned()));
    let page = until(|| {
        let page = metrics(address);
        (metric(&page, "postrider_attempts_total{outbox=\"shop\",subscription=\"orders\",sink=\"out\",outcome=\"acknowledged\"}")
            == Some(1.0))
        .then_some(page)
    });
    for series in ["postrider_lease_held{", "postrider_build_info{", "process_resident_memory_bytes "] {
        assert!(metric(&page, series).is_some_and(|value| value > 0.0), "{series} in {page}");
    }
    // The overview is up to five seconds old.
    until(|| (metric(&metrics(address), "postrider_oldest_undelivered_age_seconds{")? == 0.0).then_some(()));
    if let Some((is_content, said)) = promtool(&["check", "metrics"], &page) {
        assert!(is_content && said.is_empty(), "{said}");
    }
    let health = program.run(&["healthcheck", "--json"]);
    assert_eq!(health.exit, Some(0), "{health:?}");
    assert_eq!(serde_json::from_str::<Value>(&health.stdout).unwrap()["ready"], true);
    relay.signal("TERM");
    assert_eq!(relay.end().0, Some(0));
    assert_eq!(get(address, "/livez"), None, "the listener ends with the relay");
}

#[test]
fn only_get_and_head_of_known_paths_are_answered_and_long_requests_are_refused() {
    let (program, address) = listening();
    let _relay = relay(&program, &[]);
    until(|| (get(address, "/readyz")?.0 == 200).then_some(()));
    assert_eq!(get(address, "/").unwrap().0, 404);
    assert_eq!(get(address, "/metrics/../../etc/passwd").unwrap().0, 404);
    let post = "POST /metrics HTTP/1.1\r\nhost: relay\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(request(address, post).unwrap().0, 405);
    let long = format!("GET /livez HTTP/1.1\r\nhost: relay\r\nx: {}\r\n\r\n", "a".repeat(100_000));
    assert!(request(address, &long).is_none_or(|(status, _)| status == 431), "a long header");
    let many = format!("GET /livez HTTP/1.1\r\nhost: relay\r\n{}\r\n", "x: y\r\n".repeat(100));
    assert!(request(address, &many).is_none_or(|(status, _)| status == 431), "many headers");
    assert!(request(address, "\0\0\0\0\r\n\r\n").is_none_or(|(status, _)| status == 400));
    // Clients that say nothing do not prevent an answer to another one.
    let _silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(get(address, "/livez").unwrap().0, 200);
}

#[test]
fn an_address_that_others_can_reach_must_be_allowed() {
    for (address, allowed, fits) in [
        ("0.0.0.0:9464", false, false),
        ("0.0.0.0:9464", true, true),
        ("[::1]:9464", false, true),
        ("shop:1", true, false),
    ] {
        let program =
            Program::with_config(&format!("[http]\nlisten = '{address}'\nallow_remote = {allowed}\n{GOOD}"));
        let ran = program.run(&["config", "check"]);
        assert_eq!(ran.exit == Some(0), fits, "{address}: {ran:?}");
    }
}

#[test]
fn a_port_that_is_in_use_is_reported_before_the_relay_starts() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let program = shop::ready();
    let listen = format!("http.listen={}", taken.local_addr().unwrap());
    let ran = program.run(&["relay", "--drain", "--set", &listen]);
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("PR-0611"), "{ran:?}");
}

#[test]
fn a_destination_that_is_down_is_ready_and_visible_in_metrics_and_status() {
    let (program, address) = listening();
    let set = [
        "sink.out.type=webhook",
        // No process listens on this port.
        "sink.out.url=http://127.0.0.1:9/",
        "sink.out.allow_private=true",
        "subscription.orders.backoff_min=10ms",
        "subscription.orders.probe_min=10ms",
        "http.stalled_after=1s",
    ];
    let set: Vec<&str> = set.iter().flat_map(|key| ["--set", key]).collect();
    let _relay = relay(&program, &set);
    until(|| (get(address, "/readyz")?.0 == 200).then_some(()));
    until(|| (metric(&metrics(address), "postrider_breaker_open{")? == 1.0).then_some(()));
    // The event is older than `stalled_after`, and nothing is delivered: the destination is the reason.
    until(|| (metric(&metrics(address), "postrider_oldest_undelivered_age_seconds{")? > 1.5).then_some(()));
    let (status, body) = get(address, "/readyz").unwrap();
    assert_eq!(status, 200, "{body}");
    let row = until(|| {
        let row = shop::status(&program);
        (!row["destinations_down"].as_array().unwrap().is_empty()).then_some(row)
    });
    assert!(row["destinations_down"][0]["error"].as_str().unwrap().contains("127.0.0.1:9"), "{row}");
    assert_eq!(row["relays"][0]["role"], "leading", "{row}");
    assert_eq!(row["relays"][0]["version"], env!("CARGO_PKG_VERSION"), "{row}");
}

#[test]
fn status_watches_and_says_who_paused_a_subscription_and_what_a_dead_relay_last_knew() {
    let program = shop::delivered();
    let ran = program.run(&["pause", "orders", "--reason", "the warehouse moves"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let row = shop::status(&program);
    assert_eq!(
        (&row["state"], &row["reason"]),
        (&Value::from("paused"), &Value::from("the warehouse moves"))
    );
    assert!(row["by"].as_str().unwrap().contains('@'), "{row}");
    let table = program.run(&["status"]).stdout;
    assert!(table.contains("paused by ") && table.contains(": the warehouse moves"), "{table}");
    assert_eq!(program.run(&["resume", "orders"]).exit, Some(0));

    let set = ["subscription.orders.lease=500ms", "relay.name=first", "sink.out.events_per_second_max=500"];
    let killed = relay(&program, &set.map(|key| ["--set", key]).concat());
    until(|| (shop::status(&program)["relays"][0]["epoch"] == 2).then_some(()));
    let table = program.run(&["status"]).stdout;
    assert!(table.contains("limited to 500 events/s"), "{table}");
    drop(killed);
    let row = until(|| {
        let row = shop::status(&program);
        (row["relays"][0]["role"] == "lost").then_some(row)
    });
    assert!(row["relays"][0]["relay"].as_str().unwrap().starts_with("first#"), "{row}");
    assert_eq!(row["relays"][0]["epoch"], 2, "{row}");
    assert!(program.run(&["status"]).stdout.contains("LOST for "));

    let mut command = program.command(&["status", "--watch", "--interval", "100ms", "--json"]);
    command.stdout(Stdio::piped());
    let mut watching = Running::start(command);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(watching.0.stdout.take().unwrap()));
    for _ in 0..2 {
        let line = lines.next().unwrap().unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap()[0]["subscription"], "orders", "{line}");
    }
}

/// Neither of an event that is delivered, nor of one that is given up, nor of one that waits.
#[test]
fn a_payload_and_a_header_occur_in_no_log_no_metric_and_no_status() {
    let (program, address) = listening();
    let secret = "P4YL0AD";
    for payload in [format!("{{\"a\": \"{secret}\"}}"), format!("{secret}\n{secret}")] {
        let args = [
            "write",
            "--type",
            "order.placed",
            "--aggregate",
            "Order:42",
            "--header",
            "token=H34D3R",
            "--payload",
        ];
        let ran = program.run(&[&args[..], &[&payload]].concat());
        assert_eq!(ran.exit, Some(0), "{ran:?}");
    }
    let mut command = program.command(&["relay", "-vv", "--set", "sink.out.encoder=plain"]);
    command.stderr(Stdio::piped());
    let running = Running::start(command);
    until(|| (shop::status(&program)["parked"]["dead"] == 1).then_some(()));
    let mut shown = metrics(address);
    assert_eq!(program.run(&["pause", "orders"]).exit, Some(0));
    for args in [
        &["status"][..],
        &["status", "--json"],
        &["status", "--by", "type"],
        &["explain", "2"],
        &["explain", "3"],
        &["explain", "--key", "Order/42"],
        &["dead", "list", "--json"],
        &["dead", "show", "3"],
        &["parked", "list"],
        &["events", "list", "--json"],
        &["doctor", "--json"],
        &["audit", "list", "--json"],
    ] {
        let ran = program.run(args);
        assert!(ran.exit == Some(0) || args[0] == "doctor", "{args:?} {ran:?}");
        shown += &(ran.stdout + &ran.stderr);
    }
    running.signal("TERM");
    let (exit, log) = running.end();
    assert_eq!(exit, Some(0), "{log}");
    assert!(log.contains("event dead") && shown.contains("order.placed"), "{log}");
    shown += &log;
    assert!(!shown.contains(secret), "{shown}");
    let delivered = std::fs::read_to_string(program.path().join("events.jsonl")).unwrap();
    assert!(delivered.contains(secret), "{delivered}");
    assert!(!shown.contains("H34D3R"), "{shown}");
    let asked = program.run(&["events", "show", "2", "--payload"]);
    assert!(asked.stdout.contains(secret), "{asked:?}");
}
