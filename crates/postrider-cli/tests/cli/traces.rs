//! The spans of a relay, as a collector receives them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;

use crate::http::free;
use crate::program::Program;
use crate::shop::GOOD;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// A request to the collector: its first line, its headers, and what it contains.
struct Received {
    head: String,
    spans: ExportTraceServiceRequest,
}

/// A collector that answers every request with this status.
fn collector(status: &'static str) -> (SocketAddr, Receiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (send, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            stream.read_exact(&mut body).unwrap();
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            let spans = ExportTraceServiceRequest::decode(&body[..]).unwrap();
            if send.send(Received { head, spans }).is_err() {
                return;
            }
        }
    });
    (address, received)
}

/// A shop whose only event was written in a trace.
fn shop(endpoint: &str) -> Program {
    let traces = format!(
        "[traces]\nendpoint = '{endpoint}'\nauthorization = 'env:TOKEN'\nservice_name = 'shop-relay'\n{GOOD}"
    );
    let program = Program::with_config(&traces).variable("TOKEN", "Bearer a-secret-token");
    let parent = format!("traceparent=00-{TRACE}-{SPAN}-01");
    let write = ["write", "--type", "shop.opened", "--payload", "a-hidden-payload", "--header", &parent];
    for args in [&["migrate", "up"][..], &write] {
        let ran = program.run(args);
        assert_eq!(ran.exit, Some(0), "{ran:?}");
    }
    program
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The relay delivers the event, whatever the collector does. Returns its log.
fn delivers(program: &Program) -> String {
    let ran = program.run(&["relay", "--drain"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let delivered = std::fs::read_to_string(program.path().join("events.jsonl")).unwrap();
    assert_eq!(delivered.lines().count(), 1, "{delivered}");
    assert!(!ran.stderr.contains("a-secret-token"), "{ran:?}");
    ran.stderr
}

#[test]
fn a_collector_receives_the_span_of_a_batch_with_a_link_to_the_writer() {
    let (address, received) = collector("200 OK");
    let log = delivers(&shop(&format!("http://{address}/")));
    assert!(!log.contains("cannot be exported"), "{log}");
    let Received { head, spans } = received.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(head.to_lowercase().contains("\r\nauthorization: bearer a-secret-token\r\n"), "{head}");
    let of_service = &spans.resource_spans[0];
    let resource = format!("{:?}", of_service.resource);
    assert!(resource.contains("service.name") && resource.contains("shop-relay"), "{resource}");
    let mut all = spans.resource_spans.iter().flat_map(|of| &of.scope_spans).flat_map(|of| &of.spans);
    let publish = all.find(|span| span.name == "publish").expect("the span of the batch");
    let [link] = &publish.links[..] else { panic!("one event, one link: {publish:?}") };
    assert_eq!((hex(&link.trace_id).as_str(), hex(&link.span_id).as_str()), (TRACE, SPAN));
    assert!(publish.events.is_empty(), "log lines are not exported: {publish:?}");
    assert!(!format!("{spans:?}").contains("a-hidden-payload"), "{spans:?}");
}

#[test]
fn a_collector_that_is_down_or_refuses_changes_no_delivery() {
    let log = delivers(&shop(&format!("http://{}", free())));
    assert_eq!(log.matches("spans cannot be exported").count(), 1, "{log}");
    let (address, received) = collector("503 Service Unavailable");
    let log = delivers(&shop(&format!("http://{address}")));
    assert!(received.try_recv().is_ok());
    assert_eq!(log.matches("spans cannot be exported").count(), 1, "{log}");
}

#[test]
fn a_collector_that_never_answers_changes_no_delivery() {
    // Connections are accepted by the operating system, and no process reads them.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    delivers(&shop(&format!("http://{}", listener.local_addr().unwrap())));
}

#[test]
fn an_endpoint_that_is_no_url_or_has_a_password_is_refused() {
    for (endpoint, why) in [
        ("127.0.0.1:4318", "write it as http://"),
        ("http://", "write it as http://"),
        ("http://me:a-secret-token@localhost", "must not contain a user"),
        ("http://localhost?key=a", "must not contain a user"),
        ("http://local host", "white space"),
    ] {
        let program = Program::with_config(&format!("[traces]\nendpoint = '{endpoint}'\n{GOOD}"));
        let ran = program.run(&["config", "check"]);
        assert_ne!(ran.exit, Some(0), "{ran:?}");
        assert!(ran.stderr.contains("traces.endpoint") && ran.stderr.contains(why), "{ran:?}");
    }
}
