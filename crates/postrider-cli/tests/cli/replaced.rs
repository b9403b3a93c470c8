//! A SQLite file that is deleted, restored or replaced while a relay has it open.

use std::path::PathBuf;
use std::process::Stdio;

use crate::program::Program;
use crate::shop::{Running, run_sql, until};

/// A relay with its log in a file.
struct Logged {
    relay: Running,
    log: PathBuf,
}

impl Logged {
    fn start(program: &Program, name: &str) -> Self {
        let log = program.path().join(name);
        let mut command = program.command(&["relay"]);
        command.stderr(Stdio::from(std::fs::File::create(&log).unwrap()));
        Self { relay: Running::start(command), log }
    }

    fn says(&self, words: &str) {
        until(|| std::fs::read_to_string(&self.log).unwrap().contains(words).then_some(()));
    }

    fn stop(self) {
        self.relay.signal("TERM");
        assert_eq!(self.relay.end().0, Some(0));
    }
}

fn config(layout: &str) -> String {
    format!(
        "[outbox.shop]\nurl = 'sqlite:shop.db'\nlayout = '{layout}'\n[sink.out]\ntype = 'file'\npath = 'events.jsonl'\n\
         [subscription.orders]\nsink = 'out'\nstart = 'beginning'\nlease = '1s'\n"
    )
}

fn write(program: &Program, id: &str) {
    let ran =
        program.run(&["write", "--type", "a", "--aggregate", &format!("Order:{id}"), "--payload", "{}"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
}

fn arrived(program: &Program, number: usize) {
    let path = program.path().join("events.jsonl");
    until(|| (std::fs::read_to_string(&path).unwrap_or_default().lines().count() >= number).then_some(()));
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), number);
}

fn delete(program: &Program) {
    for name in ["shop.db", "shop.db-wal", "shop.db-shm"] {
        let _ = std::fs::remove_file(program.path().join(name));
    }
}

#[test]
fn a_file_that_is_deleted_and_restored_is_noticed_and_used_again_without_a_restart() {
    for layout in ["postrider", "outbox_events"] {
        let program = Program::with_config(&config(layout));
        assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
        let relay = Logged::start(&program, "relay.log");
        write(&program, "1");
        arrived(&program, 1);
        let floor = || crate::shop::status(&program)["backlog"]["events"] == 0;
        until(|| floor().then_some(()));
        let backup = program.path().join("backup.db");
        run_sql(&program, &format!("VACUUM INTO '{}'", backup.display()));
        write(&program, "2");
        arrived(&program, 2);

        delete(&program);
        relay.says("shop.db was deleted while it was open");
        assert!(!program.path().join("shop.db").exists(), "{layout}: no file is created in its place");
        std::fs::rename(&backup, program.path().join("shop.db")).unwrap();
        relay.says("is reachable again");
        write(&program, "3");
        // The event that was lost with the file is not there, and the first one is not repeated.
        arrived(&program, 3);
        relay.stop();
    }
}

#[test]
fn a_relay_whose_file_was_replaced_by_another_outbox_says_so_and_writes_nothing_to_the_old_one() {
    let program = Program::with_config(&config("postrider"));
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    let relay = Logged::start(&program, "relay.log");
    write(&program, "1");
    arrived(&program, 1);
    let other = Program::with_config(&config("postrider"));
    assert_eq!(other.run(&["migrate", "up"]).exit, Some(0));
    write(&other, "2");
    delete(&program);
    std::fs::rename(other.path().join("shop.db"), program.path().join("shop.db")).unwrap();
    relay.says("PR-0313");
    relay.says("restart the relay");
    relay.stop();
    let relay = Logged::start(&program, "second.log");
    arrived(&program, 2);
    relay.stop();
}
