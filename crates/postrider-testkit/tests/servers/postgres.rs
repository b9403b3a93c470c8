//! The private PostgreSQL servers behave as other tests assume.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "clippy does not take helpers for tests")]

use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use postrider_testkit::servers::Controlled as _;
use postrider_testkit::servers::postgres::{self, Options, Server};

/// Sends a request for TLS, which a server answers immediately.
fn asks(server: &Server) -> std::io::Result<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port()))?;
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    std::io::Write::write_all(&mut stream, &[0, 0, 0, 8, 4, 210, 22, 47])?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    Ok(answer[0])
}

#[test]
fn a_server_can_be_stopped_killed_and_suspended_and_keeps_its_port() {
    let Some(server) = postgres::own(Options::default()) else { return };
    assert_eq!(asks(&server).unwrap(), b'N');
    server.stop().unwrap();
    asks(&server).unwrap_err();
    server.start().unwrap();
    asks(&server).unwrap();
    server.kill().unwrap();
    asks(&server).unwrap_err();
    server.start().unwrap();
    server.pause().unwrap();
    asks(&server).unwrap_err();
    server.resume().unwrap();
    assert_eq!(asks(&server).unwrap(), b'N');
}

#[test]
fn a_dropped_server_leaves_nothing_behind_even_if_it_was_suspended() {
    let Some(server) = postgres::own(Options::default()) else { return };
    let (folder, port) = (server.data().parent().unwrap().to_owned(), server.port());
    assert!(folder.exists());
    server.pause().unwrap();
    drop(server);
    assert!(!folder.exists());
    TcpStream::connect(("127.0.0.1", port)).unwrap_err();
}

#[test]
fn a_standby_replicates_and_can_be_promoted_once() {
    let Some(primary) = postgres::own(Options::default()) else { return };
    let standby = primary.standby().unwrap();
    let signal = |server: &Server| Path::new(&server.data()).join("standby.signal").exists();
    assert!(signal(&standby) && !signal(&primary));
    primary.promote().unwrap_err();
    standby.promote().unwrap();
    assert!(!signal(&standby));
    assert_eq!(asks(&standby).unwrap(), b'N');
}

#[test]
fn writes_after_a_backup_are_absent_after_a_restore() {
    let Some(server) = postgres::own(Options::default()) else { return };
    let copy = server.back_up().unwrap();
    let later = server.data().join("written_later");
    std::fs::write(&later, "").unwrap();
    server.restore(&copy).unwrap();
    assert!(!later.exists());
    assert_eq!(asks(&server).unwrap(), b'N');
}

#[test]
fn a_version_that_is_not_installed_is_named() {
    let error = Options::default().version("9").start().unwrap_err();
    assert!(error.contains("no PostgreSQL 9"), "{error}");
}
