//! A shop to run commands on: one outbox, one file, one subscription.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus};

use postrider_testkit::eventually_blocking;
use rusqlite::Connection;
use serde_json::Value;

use crate::program::Program;

pub(crate) const GOOD: &str = "[outbox.shop]\nurl = 'sqlite:shop.db'\n[sink.out]\ntype = 'file'\npath = 'events.jsonl'\n\
    [subscription.orders]\nsink = 'out'\nstart = 'beginning'\n";

/// With its tables and one event.
pub(crate) fn ready() -> Program {
    let program = Program::with_config(GOOD);
    for args in [&["migrate", "up"][..], &["write", "--type", "shop.opened"]] {
        let ran = program.run(args);
        assert_eq!(ran.exit, Some(0), "{ran:?}");
    }
    program
}

/// With a subscription as well, which has delivered that event.
pub(crate) fn delivered() -> Program {
    let program = ready();
    let ran = program.run(&["relay", "--drain"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    program
}

pub(crate) fn run_sql(program: &Program, sql: &str) {
    Connection::open(program.path().join("shop.db")).unwrap().execute_batch(sql).unwrap();
}

/// The number of events in the outbox.
pub(crate) fn events(program: &Program) -> i64 {
    number(program, "SELECT count(*) FROM postrider_events")
}

/// The result of a query.
pub(crate) fn number(program: &Program, sql: &str) -> i64 {
    let connection = Connection::open(program.path().join("shop.db")).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// The first row of `status --json`.
pub(crate) fn status(program: &Program) -> Value {
    let ran = program.run(&["status", "--json"]);
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    serde_json::from_str::<Value>(&ran.stdout).unwrap()[0].clone()
}

/// A program that runs until it is stopped, or the test ends.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.0.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Reads its standard error until a line contains this text, and returns the line. Standard error must be piped.
    pub(crate) fn until_it_says(&mut self, words: &str) -> String {
        let stderr = self.0.stderr.as_mut().unwrap();
        let mut lines = BufReader::new(stderr).lines().map(Result::unwrap);
        lines.find(|line| line.contains(words)).unwrap_or_else(|| panic!("it ended without saying {words:?}"))
    }

    /// Waits for its end. Returns its exit code and its standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let ended = until(|| self.0.try_wait().unwrap());
        let mut said = String::new();
        if let Some(mut stderr) = self.0.stderr.take() {
            stderr.read_to_string(&mut said).unwrap();
        }
        (ExitStatus::code(&ended), said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Polls until there is a value.
pub(crate) fn until<T>(poll: impl FnMut() -> Option<T>) -> T {
    eventually_blocking("the test continues", poll)
}
