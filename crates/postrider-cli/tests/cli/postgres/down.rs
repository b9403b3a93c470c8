//! A server that is down at the start.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use super::{Shop, config};
use crate::program::Program;
use crate::shop::{Running, until};

#[test]
fn a_relay_waits_for_its_database_and_logs_it_once() {
    let Some(shop) = Shop::new() else { return };
    shop.ready();
    // A port without a listener until this test listens and forwards everything to the server.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (front, name) = shop.url.rsplit_once('/').unwrap();
    let server = front.rsplit_once('@').unwrap().1.to_owned();
    let program = Program::with_config(&config(&format!("postgres://postgres@127.0.0.1:{port}/{name}")));
    let mut command = program.command(&["relay", "--drain"]);
    command.stderr(Stdio::piped());
    let mut relay = Running::start(command);
    let mut log = BufReader::new(relay.0.stderr.take().unwrap());
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    assert!(
        line.contains("the database is not reachable; retrying") && line.contains("Connection refused"),
        "{line}"
    );

    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = std::net::TcpStream::connect(&server).unwrap();
            pass(client.try_clone().unwrap(), server.try_clone().unwrap());
            pass(server, client);
        }
    });
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    assert_eq!(until(|| relay.0.try_wait().unwrap()).code(), Some(0), "{rest}");
    assert!(!rest.contains("not reachable") && rest.contains("the database is reachable again"), "{rest}");
    assert_eq!(shop.number("SELECT floor FROM postrider.subscriptions"), 1);
}

fn pass(mut from: std::net::TcpStream, mut to: std::net::TcpStream) {
    std::thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            if to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
}

#[test]
fn a_waiting_relay_can_be_stopped() {
    let program = Program::with_config(&config("postgres://127.0.0.1:1/shop"));
    let mut command = program.command(&["relay"]);
    command.stderr(Stdio::piped());
    let mut relay = Running::start(command);
    let mut line = String::new();
    BufReader::new(relay.0.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    relay.signal("TERM");
    assert_eq!(relay.end().0, Some(0), "{line}");
}

#[test]
fn a_killed_relay_is_replaced_at_once() {
    let Some(shop) = Shop::new() else { return };
    crate::restarted::a_killed_relay_is_replaced_at_once(
        &crate::shop::GOOD.replace("sqlite:shop.db", &shop.url),
    );
}
