//! `postrider dashboard`: safe without configuration, refused where it would not be.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;

use crate::http::{free, request};
use crate::program::Program;
use crate::shop::{self, GOOD, Running};

const TOKENS: &str = "tokens = [{ name = 'alice', role = 'operator', token = 'env:ALICE' }, { name = 'bob', role = 'viewer', token = 'env:BOB' }]\n";

/// Starts it, and returns the line that it prints.
fn started(program: &Program, args: &[&str]) -> (Running, String) {
    let mut command = program.command(&[&["dashboard"], args].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = Running::start(command);
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (running, line.trim().to_owned())
}

fn post(address: SocketAddr, path: &str, cookie: &str, form: &str) -> (u16, String) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\norigin: http://{address}\r\nconnection: close\r\ncookie: {cookie}\r\ncontent-length: {}\r\n\r\n{form}",
        form.len()
    );
    // With the headers: the cookie is one of them.
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

#[test]
fn a_link_for_one_person_is_printed_and_works_once() {
    let program = shop::delivered();
    let address = free();
    let (mut running, line) = started(&program, &["--set", &format!("dashboard.listen={address}")]);
    let (start, secret) = line.split_once("/login#link=").unwrap();
    assert_eq!(start, format!("http://{address}"));
    let (status, answer) = post(address, "/login", "", &format!("secret={secret}"));
    assert_eq!(status, 303, "{answer}");
    let cookie = answer.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap();
    let get = |path: &str| {
        let text = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n"
        );
        request(address, &text).unwrap()
    };
    let (status, page) = get("/");
    assert!(status == 200 && page.contains("orders") && page.contains("viewer"), "{page}");
    let (status, page) = get("/doctor");
    assert!(status == 200 && page.contains("outbox shop"), "{page}");
    // The default role changes nothing.
    assert_eq!(post(address, "/o/shop/subscriptions/orders/pause", cookie, "reason=x").0, 403);
    assert_eq!(post(address, "/login", "", &format!("secret={secret}")).0, 401);
    // A name that leads here is not enough.
    let foreign = "GET / HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    assert_eq!(request(address, foreign).unwrap().0, 421);
    running.0.kill().unwrap();
}

#[test]
fn an_address_that_others_reach_needs_tokens_and_tokens_are_never_printed() {
    let remote = "[dashboard]\nlisten = '0.0.0.0:9465'\n";
    let program = Program::with_config(&format!("{remote}{GOOD}"));
    let refused = program.run(&["config", "check"]);
    assert_eq!(refused.exit, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("other machines can reach this address"), "{refused:?}");
    assert_eq!(program.run(&["dashboard"]).exit, Some(2));

    let secret = "canary-canary-canary";
    let with = |alice: &str, bob: &str| {
        let program = Program::with_config(&format!("{remote}{TOKENS}{GOOD}"));
        program.variable("ALICE", alice).variable("BOB", bob)
    };
    let shown = with(secret, "another-long-secret").run(&["config", "show"]);
    assert!(shown.exit == Some(0) && !shown.stdout.contains("canary"), "{shown:?}");
    for (alice, bob, why) in
        [(secret, secret, "is the same as another one"), ("canary", secret, "fewer than 16 characters")]
    {
        let refused = with(alice, bob).run(&["config", "check"]);
        assert_eq!(refused.exit, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(why) && !refused.stderr.contains("canary"), "{refused:?}");
    }
}

#[test]
fn people_with_tokens_act_under_their_names() {
    let address = free();
    let program = Program::with_config(&format!("[dashboard]\nlisten = '{address}'\n{TOKENS}{GOOD}"))
        .variable("ALICE", "a-token-of-alice-0001")
        .variable("BOB", "a-token-of-bob-000002");
    for args in [&["migrate", "up"][..], &["write", "--type", "shop.opened"], &["relay", "--drain"]] {
        assert_eq!(program.run(args).exit, Some(0));
    }
    let (mut running, line) = started(&program, &[]);
    assert_eq!(line, format!("http://{address}/"));
    let (_, answer) = post(address, "/login", "", "secret=a-token-of-alice-0001");
    let cookie = answer.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap().to_owned();
    let (status, answer) =
        post(address, "/o/shop/subscriptions/orders/pause", &cookie, "reason=the+broker+moves");
    assert_eq!(status, 303, "{answer}");
    running.0.kill().unwrap();
    let audit = program.run(&["audit", "list", "--json"]);
    assert!(
        audit.stdout.contains("alice (dashboard)") && audit.stdout.contains("the broker moves"),
        "{audit:?}"
    );
}
