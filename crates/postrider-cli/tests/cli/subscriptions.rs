//! `postrider subscriptions`, as an operator uses it.

use serde_json::Value;

use crate::program::{Program, Ran};
use crate::shop;

fn json(ran: &Ran) -> Value {
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn a_subscription_is_added_listed_moved_and_removed_on_sqlite() {
    a_subscription_is_added_listed_moved_and_removed(&Program::with_config(shop::GOOD));
}

/// With what is skipped and repeated, and who did it.
pub(crate) fn a_subscription_is_added_listed_moved_and_removed(program: &Program) {
    for args in [&["migrate", "up"][..], &["write", "--type", "shop.opened"], &["relay", "--drain"]] {
        let ran = program.run(args);
        assert_eq!(ran.exit, Some(0), "{ran:?}");
    }
    let ran = program.run(&["subscriptions", "add", "audit", "--start", "now", "--reason", "new"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let ran = program.run(&["subscriptions", "add", "audit"]);
    assert!(ran.stderr.contains("exists already"), "{ran:?}");
    let listed = json(&program.run(&["subscriptions", "list", "--json"]));
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|row| row["subscription"].clone()).collect();
    assert_eq!(names, ["audit", "orders"]);
    let explained = program.run(&["explain", "1"]);
    assert!(explained.stdout.contains("audit: not delivered: it is below the start"), "{explained:?}");
    assert!(explained.stdout.contains("orders: delivered before"), "{explained:?}");

    let ran = program.run(&["subscriptions", "move", "orders", "--to", "beginning"]);
    assert_eq!(ran.exit, Some(2), "{ran:?}");
    assert!(
        ran.stderr.contains("1 event(s) are delivered again") && ran.stderr.contains("add --yes"),
        "{ran:?}"
    );
    let ran =
        program.run(&["subscriptions", "move", "orders", "--to", "beginning", "--yes", "--reason", "lost"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let before = std::fs::read_to_string(program.path().join("events.jsonl")).unwrap().lines().count();
    assert_eq!(program.run(&["relay", "--drain"]).exit, Some(0));
    let after = std::fs::read_to_string(program.path().join("events.jsonl")).unwrap().lines().count();
    assert_eq!((before, after), (1, 2), "the event is delivered again");

    let ran = program.run(&["subscriptions", "remove", "audit", "--yes", "--reason", "gone"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let ran = program.run(&["handlers", "list"]);
    assert!(ran.stderr.contains("only layout eventlog"), "{ran:?}");
    let ran = program.run(&["subscriptions", "remove", "audit", "--yes"]);
    assert!(ran.stderr.contains("error[PR-0305]"), "{ran:?}");
    let audit = json(&program.run(&["audit", "list", "--json"]));
    let actions: Vec<_> = audit.as_array().unwrap().iter().map(|entry| entry["action"].clone()).collect();
    assert_eq!(actions, ["remove", "move", "subscribe"]);
    assert_eq!(audit[1]["reason"], "lost");
}
