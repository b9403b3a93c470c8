//! Closed pipes, full disks, and Ctrl-C.

use std::io::{BufRead, BufReader, Write, pipe};
use std::process::{Command, Stdio};

use crate::program::Program;
use crate::shop::{self, Running, until};

#[test]
fn a_closed_pipe_ends_every_command_silently() {
    let program = shop::delivered();
    for args in [
        &["status"][..],
        &["status", "--json"],
        &["migrate", "status"],
        &["migrate", "print"],
        &["doctor"],
        &["write", "--type", "a"],
    ] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let output = program.command(args).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.as_ref()), (Some(141), ""), "{args:?}");
    }
    assert_eq!(shop::events(&program), 2, "the event was committed before it was printed");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_behind_standard_output_is_reported_with_what_is_committed() {
    let program = shop::ready().file("lines", &"{\"type\":\"a\",\"payload\":1}\n".repeat(5));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let lines = std::fs::File::open(program.path().join("lines")).unwrap();
    let args = ["write", "--lines", "--batch", "2"];
    let output = program.command(&args).stdin(lines).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("committed 2 events: lines 1 to 2"), "{said}");
    assert!(said.contains("error[PR-0610]"), "{said}");
    assert_eq!(shop::events(&program), 1 + 2);
}

#[test]
fn an_interrupt_while_lines_are_read_keeps_the_committed_batches() {
    for signal in ["INT", "TERM"] {
        let program = shop::ready();
        let mut command = program.command(&["write", "--lines", "--batch", "2"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut writing = Running::start(command);
        let mut input = writing.0.stdin.take().unwrap();
        input.write_all("{\"type\":\"a\",\"payload\":1}\n".repeat(3).as_bytes()).unwrap();
        let mut printed = BufReader::new(writing.0.stdout.take().unwrap()).lines();
        // Two are committed and printed, the third waits for a fourth.
        assert!(printed.next().is_some() && printed.next().is_some());
        writing.signal(signal);
        let (exit, said) = writing.end();
        assert_eq!(exit, Some(130), "{said}");
        assert!(said.contains("committed 2 events: lines 1 to 2"), "{said}");
        assert_eq!(shop::events(&program), 1 + 2);
        drop(input);
    }
}

#[test]
fn a_second_signal_ends_a_relay_that_cannot_finish() {
    let program = shop::ready();
    let large = "x".repeat(1_000_000);
    program.run_with(&["write", "--type", "large", "--payload", "-"], large.as_bytes());
    // The pipe is not read, so the event stays in flight.
    let mut command = program.command(&["relay", "--set", "sink.out.type=stdout"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut relay = Running::start(command);
    let mut first = [0];
    std::io::Read::read_exact(relay.0.stdout.as_mut().unwrap(), &mut first).unwrap();
    let ended = until(|| {
        relay.signal("INT");
        relay.0.try_wait().unwrap()
    });
    assert_eq!(ended.code(), Some(130));
    let status = shop::status(&program);
    assert_eq!(status["state"], "leading", "its lease runs on: {status}");
}

/// Runs a command in a read-only folder. `None` if this machine cannot create one.
fn on_a_read_only_disk(program: &Program, args: &[&str]) -> Option<(Option<i32>, String, String)> {
    let script = "mount --bind . . && mount -o remount,ro,bind . && cd \"$PWD\" && exec \"$@\"";
    let inside = |then: &[&str]| -> Command {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh"]).args(then).current_dir(program.path());
        command
    };
    inside(&["true"]).output().ok().filter(|output| output.status.success())?;
    let all = [&[env!("CARGO_BIN_EXE_postrider")], args].concat();
    let output = inside(&all).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Some((output.status.code(), text(output.stdout), text(output.stderr)))
}

#[test]
#[cfg(target_os = "linux")]
fn a_read_only_disk_can_be_inspected_and_is_reported_by_commands_that_write() {
    let program = shop::delivered();
    let before = program.files();
    let Some((exit, table, said)) = on_a_read_only_disk(&program, &["status"]) else {
        eprintln!("this machine cannot mount a folder read-only; not tested");
        return;
    };
    assert_eq!((exit, said.as_str()), (Some(0), ""));
    assert!(table.contains("shop/orders   no relay"), "{table}");
    for args in [&["relay"][..], &["migrate", "up"], &["write", "--type", "a"]] {
        let (exit, data, said) = on_a_read_only_disk(&program, args).unwrap();
        assert_eq!((exit, data.as_str()), (Some(3), ""), "{args:?}: {said}");
        assert!(said.contains("cannot open shop.db") && said.contains("nothing was"), "{args:?}: {said}");
    }
    let (exit, table, _) = on_a_read_only_disk(&program, &["doctor"]).unwrap();
    assert_eq!(exit, Some(5));
    let failed = table.lines().filter(|line| line.starts_with("FAIL"));
    let codes: Vec<&str> = failed.filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(codes, ["PD-0001", "PD-0102"], "{table}");
    assert!(program.files() == before);
}
