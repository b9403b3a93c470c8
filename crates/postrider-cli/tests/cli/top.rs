//! `postrider top`: in a terminal, and without one.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;

use crate::shop::{self, Running};

/// Output must arrive within this time, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn one_report_for_programs_is_that_of_status() {
    let program = shop::delivered();
    let top: Value = serde_json::from_str(&program.run(&["top", "--once", "--json"]).stdout).unwrap();
    let status: Value = serde_json::from_str(&program.run(&["status", "--json"]).stdout).unwrap();
    for key in ["outbox", "subscription", "state", "floor", "backlog", "parked"] {
        assert_eq!(top[0][key], status[0][key], "{key}");
    }
    let table = program.run(&["top", "--once"]).stdout;
    assert!(table.contains("shop/orders") && table.contains("done up to"), "{table}");
}

#[test]
fn without_a_terminal_it_prints_lines() {
    let program = shop::delivered();
    let mut command = program.command(&["top", "--interval", "100ms"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = Running::start(command);
    let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains("shop/orders  state: no relay") && !line.contains('\u{1b}'), "{line}");
    }
    running.0.kill().unwrap();
}

/// `top` in a terminal of its own.
struct Terminal {
    child: Child,
    keys: File,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn open(mut command: Command) -> Self {
        let leader = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&leader).unwrap();
        unlockpt(&leader).unwrap();
        let name = ptsname(&leader, Vec::new()).unwrap().into_string().unwrap();
        let open = || File::options().read(true).write(true).open(&name).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&leader, size).unwrap();
        let child = command.stdin(open()).stdout(open()).stderr(open()).spawn().unwrap();
        let keys = File::from(leader);
        let mut screen = keys.try_clone().unwrap();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut part = [0; 4_096];
            while let Ok(read @ 1..) = screen.read(&mut part) {
                if sender.send(part[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        // The test keeps one side open, so that the mode can be read after the program ended.
        Self { child, keys, output, seen: String::new() }
    }

    /// Waits until the program has printed this.
    fn until(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let part = self
                .output
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("no {text:?} in {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&part));
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.keys).unwrap().local_modes.contains(LocalModes::ICANON)
    }
}

/// What restores the screen that was there before.
const RESTORED: &str = "\u{1b}[?1049l";

#[test]
fn every_way_to_end_it_restores_the_terminal() {
    let program = shop::delivered();
    for end in ["q", "\u{3}", "\u{1b}"] {
        let mut terminal = Terminal::open(program.command(&["top"]));
        terminal.until("shop/orders");
        assert!(terminal.is_raw());
        terminal.press(end);
        terminal.until(RESTORED);
        assert_eq!(terminal.child.wait().unwrap().code(), Some(0), "{end:?}");
        assert!(!terminal.is_raw(), "{end:?}");
    }
}

#[test]
fn a_signal_restores_the_terminal_too() {
    let program = shop::delivered();
    let mut terminal = Terminal::open(program.command(&["top"]));
    terminal.until("shop/orders");
    let pid = terminal.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    terminal.until(RESTORED);
    terminal.child.wait().unwrap();
    assert!(!terminal.is_raw());
}
