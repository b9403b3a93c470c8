//! Events as signed HTTP requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use postrider::{Clock as _, SystemClock};
use postrider_sinks::webhook::Verifier;

use crate::program::Program;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A request: lines of its head, and its body.
type Request = (Vec<String>, Vec<u8>);

/// Answers every request with a status and sends the request to the test.
fn endpoint(status: u16) -> (String, Receiver<Request>) {
    endpoint_on(TcpListener::bind("127.0.0.1:0").unwrap(), status)
}

pub(crate) fn endpoint_on(listener: TcpListener, status: u16) -> (String, Receiver<Request>) {
    let url = format!("http://{}/P4TH-T0KEN", listener.local_addr().unwrap());
    let (tell, reported) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let head: Vec<String> =
                stream.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            let length = header(&head, "content-length").unwrap_or("0").parse().unwrap();
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let answer = format!("HTTP/1.1 {status} Said\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            let _ = tell.send((head, body));
        }
    });
    (url, reported)
}

fn header<'a>(head: &'a [String], name: &str) -> Option<&'a str> {
    let mut lines = head.iter().filter_map(|line| line.split_once(": "));
    lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

fn program(url: &str, more: &str) -> Program {
    let config = format!(
        "[outbox.shop]\nurl = 'sqlite:shop.db'\n[sink.hook]\ntype = 'webhook'\nurl = 'env:HOOK_URL'\n{more}\n\
         [subscription.orders]\nsink = 'hook'\nstart = 'beginning'\n"
    );
    Program::with_config(&config).variable("HOOK_URL", url).file("secret.txt", SECRET)
}

fn run(program: &Program, args: &[&str]) -> String {
    let ran = program.run(args);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    ran.stdout + &ran.stderr
}

/// The id that `write` printed.
fn id_in(written: &str) -> Option<&str> {
    written.strip_prefix("id=")?.split(' ').next()
}

#[test]
fn an_event_arrives_signed_with_the_secret_of_a_file() {
    let (url, requests) = endpoint(204);
    let program =
        program(&url, "secret = 'file:secret.txt'\nallow_networks = ['127.0.0.1']\nencoder = 'plain'");
    run(&program, &["migrate", "up"]);
    let written = run(&program, &["write", "--type", "order.placed", "--payload", "{\"total\": 12}"]);
    let log = run(&program, &["relay", "--drain", "-vv"]);
    let (head, body) = requests.recv().unwrap();
    assert_eq!(body, b"{\"total\": 12}");
    let id = Verifier::new([SECRET]).unwrap().verify(|name| header(&head, name), &body);
    assert_eq!(id.ok(), id_in(&written));
    assert_eq!(header(&head, "postrider-type"), Some("order.placed"));
    for output in [log, run(&program, &["config", "show"]), run(&program, &["doctor"])] {
        assert!(!output.contains("T0KEN") && !output.contains("MfKQ"), "{output}");
    }
}

#[test]
fn an_endpoint_that_is_gone_pauses_the_subscription() {
    let (url, requests) = endpoint(410);
    let program = program(&url, "allow_private = true");
    run(&program, &["migrate", "up"]);
    run(&program, &["write", "--type", "order.placed"]);
    let relay = crate::shop::Running::start(program.command(&["relay"]));
    requests.recv().unwrap();
    let paused = crate::shop::until(|| {
        let status = crate::shop::status(&program);
        (status["state"] == "paused").then(|| status["reason"].as_str().unwrap().to_owned())
    });
    assert!(paused.contains("410"), "{paused}");
    relay.signal("TERM");
    assert_eq!(relay.end().0, Some(0));
}

#[test]
fn a_loopback_endpoint_is_refused_unless_it_is_allowed() {
    let (url, requests) = endpoint(204);
    let program = program(&url, "");
    run(&program, &["migrate", "up"]);
    let ran = program.run(&["relay", "--drain"]);
    assert_ne!(ran.exit, Some(0));
    assert!(ran.stderr.contains("127.0.0.1, a loopback address"), "{ran:?}");
    assert!(!ran.stderr.contains("T0KEN"), "{ran:?}");
    assert!(requests.try_recv().is_err());
}

#[test]
fn invalid_settings_are_reported_before_the_relay_starts() {
    for (more, reported) in [
        ("secret = 'whsec_short'", "sink.hook.secret"),
        ("timeout = '20s'", "subscription.orders.publish_timeout"),
        ("path = 'a'", "\"path\" is a key of type \"file\""),
    ] {
        let ran = program("https://hooks.example/", more).run(&["config", "check"]);
        assert!(ran.exit != Some(0) && ran.stderr.contains(reported), "{more}: {ran:?}");
        assert!(!ran.stderr.contains("whsec_short"), "{ran:?}");
    }
}

fn routed(sink: &str, rules: &str) -> Program {
    Program::with_config(&format!(
        "[outbox.shop]\nurl = 'sqlite:shop.db'\n[sink.out]\n{sink}\n[subscription.orders]\nsink = 'out'\n{rules}"
    ))
}

#[test]
fn rules_that_do_not_fit_the_sink_are_refused_before_the_relay_starts() {
    let rule = |destination: &str| format!("[[subscription.orders.rule]]\ndestination = '{destination}'\n");
    let hook = "type = 'webhook'";
    for (sink, rules, reported) in [
        (hook, String::new(), &["PR-0631", "sink \"out\": without rules", "allow_hosts"][..]),
        (hook, rule("https://{header.tenant}/"), &["PR-0631", "rule 1: the host of the destination"]),
        (hook, rule("{topic}"), &["PR-0631"]),
        (hook, rule("orders.{type}"), &["PR-0630", "does not begin with https://"]),
        (hook, rule("{header.base}/hook"), &["PR-0630", "begins with a value of the event"]),
        (
            "type = 'webhook'\nurl = 'https://h.example/T0KEN'",
            rule("orders"),
            &["PR-0632", "rule 1", "`url`"],
        ),
        ("type = 'kafka'\nbrokers = 'h:1'\ntopic = 'all'", rule("{type}"), &["PR-0632", "rule 1", "`topic`"]),
        ("type = 'webhook'\nallow_hosts = ['https://a']", String::new(), &["PR-0604", "is not a host"]),
    ] {
        for command in [&["config", "check"][..], &["relay", "--drain"]] {
            let ran = routed(sink, &rules).run(command);
            assert_eq!(ran.exit, Some(2), "{sink} {rules}: {ran:?}");
            reported.iter().for_each(|reported| {
                assert!(ran.stderr.contains(reported), "{sink} {rules} {reported}: {ran:?}")
            });
            assert!(!ran.stderr.contains("T0KEN"), "{ran:?}");
        }
    }
    for (sink, rules) in [
        (hook, rule("https://h.example/{type}?id={id}")),
        ("type = 'webhook'\nallow_hosts = ['*.h.example']", rule("https://{header.tenant}.h.example/")),
        ("type = 'webhook'\nallow_hosts = ['*']", String::new()),
        (
            "type = 'kafka'\nbrokers = 'h:1'\ntopic = 'all'",
            "[[subscription.orders.rule]]\nkey = '{id}'\n".into(),
        ),
        ("type = 'kafka'\nbrokers = 'h:1'", rule("{type}")),
    ] {
        let ran = routed(sink, &rules).run(&["config", "check"]);
        assert_eq!(ran.exit, Some(0), "{sink} {rules}: {ran:?}");
    }
}

#[test]
fn a_dead_event_is_logged_with_its_identity_and_reason() {
    let (url, _requests) = endpoint(422);
    let program = program(&url, "allow_private = true\nauthorization = 'Bearer T0KEN'");
    run(&program, &["migrate", "up"]);
    let written = run(
        &program,
        &["write", "--type", "order.placed", "--key", "k-42", "--payload", "{\"p\": \"P4YL0AD\"}"],
    );
    let drained = program.run(&["relay", "--drain"]);
    assert_eq!(drained.exit, Some(1), "{drained:?}");
    let line = drained.stderr.lines().find(|line| line.contains("event dead"));
    let line = line.unwrap_or_else(|| panic!("{drained:?}"));
    let id = id_in(&written).unwrap();
    for part in ["WARN", id, "order.placed", "k-42", "attempts=1", "answered 422"] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    for secret in ["T0KEN", "P4YL0AD"] {
        assert!(!drained.stderr.contains(secret), "{drained:?}");
    }
}

#[test]
fn the_first_failure_of_a_single_event_is_logged() {
    let (url, requests) = endpoint(404);
    let program = program(&url, "allow_private = true");
    run(&program, &["migrate", "up"]);
    run(&program, &["write", "--type", "order.placed"]);
    let mut command = program.command(&["relay"]);
    command.stderr(std::process::Stdio::piped());
    let mut relay = crate::shop::Running::start(command);
    requests.recv().unwrap();
    let mut log = BufReader::new(relay.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = log.find(|line| line.contains("event failed; it will be retried")).unwrap();
    assert!(line.contains("WARN") && line.contains("answered 404"), "{line}");
    relay.signal("TERM");
    assert_eq!(relay.end().0, Some(0));
}

#[test]
fn a_drain_stopped_during_an_outage_exits_as_interrupted() {
    for signal in ["TERM", "INT"] {
        // No process listens there any more.
        let url = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            format!("http://{}/", listener.local_addr().unwrap())
        };
        let program = program(&url, "allow_private = true");
        run(&program, &["migrate", "up"]);
        run(&program, &["write", "--type", "order.placed"]);
        let mut command = program.command(&["relay", "--drain"]);
        command.stderr(std::process::Stdio::piped());
        let mut relay = crate::shop::Running::start(command);
        let mut log = BufReader::new(relay.0.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(log.any(|line| line.contains("destination is down; failures do not count")));
        relay.signal(signal);
        let log: Vec<String> = log.collect();
        assert_eq!(relay.end().0, Some(130), "{log:?}");
        assert!(log.iter().any(|line| line.contains("lease released")), "{log:?}");
    }
}

#[test]
#[cfg(unix)]
fn a_relay_that_is_stopping_ignores_sighup_and_finishes_the_event_in_flight() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let program = program(&url, "allow_private = true");
    run(&program, &["migrate", "up"]);
    run(&program, &["write", "--type", "order.placed"]);
    let mut command = program.command(&["relay"]);
    command.stderr(std::process::Stdio::piped());
    let mut relay = crate::shop::Running::start(command);
    let mut log = BufReader::new(relay.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    // The event stays in flight until the endpoint answers.
    let mut request = listener.accept().unwrap().0;
    relay.signal("TERM");
    assert!(log.any(|line| line.contains("stopping")));
    // A second SIGTERM counts after 200 ms; so would a SIGHUP that is not ignored.
    let clock = SystemClock::new();
    while clock.now().elapsed < Duration::from_millis(400) {
        relay.signal("HUP");
        assert!(log.any(|line| line.contains("SIGHUP is ignored")), "the relay ended");
    }
    request.write_all(b"HTTP/1.1 204 Said\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").unwrap();
    let log: Vec<String> = log.collect();
    assert_eq!(relay.end().0, Some(0), "{log:?}");
    let settled = crate::shop::status(&program);
    assert_eq!(settled["backlog"]["events"], 0, "{settled}");
}

#[test]
fn the_doctor_connects_to_the_endpoint_and_sends_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let url = format!("http://{address}/P4TH-T0KEN");
    let program = program(&url, "allow_private = true");
    run(&program, &["migrate", "up"]);
    let doctor = run(&program, &["doctor"]);
    assert!(doctor.contains("PD-0210") && doctor.contains("no request was sent"), "{doctor}");
    let mut sent = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut sent).unwrap();
    assert!(sent.is_empty(), "{sent:?}");
    drop(listener);
    let ran = program.run(&["doctor"]);
    assert_eq!(ran.exit, Some(5), "{ran:?}");
    assert!(ran.stdout.contains("cannot connect") && !ran.stdout.contains("T0KEN"), "{ran:?}");
}

#[test]
fn a_second_relay_with_the_same_name_stays_standby_and_logs_it() {
    let (url, _requests) = endpoint(204);
    let program = program(&url, "allow_private = true");
    run(&program, &["migrate", "up"]);
    let relay = || {
        let mut command = program.command(&["relay", "--set", "relay.name=twin"]);
        command.stderr(std::process::Stdio::piped());
        let mut relay = crate::shop::Running::start(command);
        let log = BufReader::new(relay.0.stderr.take().unwrap()).lines().map(Result::unwrap);
        (relay, log)
    };
    let (first, mut log) = relay();
    assert!(log.any(|line| line.contains("leading")));
    let (second, mut log) = relay();
    let line = log.find(|line| line.contains("standby: ")).unwrap();
    assert!(line.contains("WARN") && line.contains("same name") && line.contains("twin#"), "{line}");
    let status = crate::shop::status(&program);
    assert!(status["lease"]["holder"].as_str().unwrap().starts_with("twin#"), "{status}");
    for relay in [second, first] {
        relay.signal("TERM");
        assert_eq!(relay.end().0, Some(0));
    }
}
