//! A relay that is killed and started again does not wait for its own lease.

use std::process::Stdio;

use postrider_testkit::eventually_blocking;

use crate::program::Program;
use crate::shop::{GOOD, Running};

/// Far longer than a test may take.
const LEASE: &str = "lease = '1h'\n";

/// `config` ends within the subscription `orders`, which writes to `events.jsonl`.
pub(crate) fn a_killed_relay_is_replaced_at_once(config: &str) {
    let program = Program::with_config(&format!("{config}{LEASE}"));
    let ok = |args: &[&str]| {
        let ran = program.run(args);
        assert_eq!(ran.exit, Some(0), "{args:?}: {ran:?}");
    };
    let write = || ok(&["write", "--type", "order.placed", "--aggregate", "Order:1"]);
    let delivered = || std::fs::read_to_string(program.path().join("events.jsonl")).unwrap_or_default();
    ok(&["migrate", "up"]);
    write();
    let mut command = program.command(&["relay"]);
    command.stderr(Stdio::null());
    let running = Running::start(command);
    eventually_blocking("the first event is delivered", || delivered().lines().count() == 1);
    let standby = program.run(&["relay", "--drain"]);
    assert!(standby.stderr.contains("another relay holds the lease"), "{standby:?}");
    running.signal("KILL");
    running.end();
    write();
    ok(&["relay", "--drain", "--timeout", "60s"]);
    assert!(delivered().lines().count() >= 2, "{}", delivered());
    let mut files: Vec<_> =
        std::fs::read_dir(program.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    files.retain(|name| name.to_string_lossy().contains("-relay-"));
    assert!(files.is_empty(), "locks are removed: {files:?}");
}

#[test]
fn a_killed_relay_is_replaced_at_once_on_sqlite() {
    a_killed_relay_is_replaced_at_once(GOOD);
    let rows = GOOD.replace("shop.db'\n", "shop.db'\nlayout = 'outbox_events'\n");
    a_killed_relay_is_replaced_at_once(&rows.replace("start = 'beginning'\n", ""));
}
