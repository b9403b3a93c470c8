//! The command next to a program with handlers on the same outbox.

use postrider::Event;
use postrider::relay::{Relay, Subscription};
use postrider::store::sqlite::SqliteStore;
use std::sync::Arc;

use crate::shop;

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_with_the_name_of_a_handler_is_refused_and_the_doctor_names_it() {
    let program = shop::ready();
    let doctor = program.run(&["doctor"]);
    assert!(!doctor.stdout.contains("is a handler"), "{doctor:?}");
    let store = SqliteStore::open(program.path().join("shop.db")).unwrap();
    // Its call fails, so that the event is left for the next relay.
    let handler = Subscription::handler("orders", |_: Arc<Event>, _| async { Err("not now")? });
    let relay = Relay::builder().name("mailer").outbox(store, [handler]).spawn().await.unwrap();
    relay.shutdown().await.unwrap();

    let refused = program.run(&["relay", "--drain"]);
    assert_eq!(refused.exit, Some(1), "{refused:?}");
    let says = "error[PR-0406]: subscription \"orders\" is a handler of a program: mailer#";
    assert!(refused.stderr.contains(says) && refused.stderr.contains("--replace-handlers"), "{refused:?}");
    let doctor = program.run(&["doctor"]);
    assert!(doctor.stdout.contains("PD-0004") && doctor.stdout.contains("registered it at"), "{doctor:?}");
    let audit = program.run(&["audit", "list"]);
    assert!(audit.stdout.contains("serve as handler"), "{audit:?}");

    let replaced = program.run(&["relay", "--drain", "--replace-handlers"]);
    assert_eq!(replaced.exit, Some(0), "{replaced:?}");
    let again = program.run(&["relay", "--drain"]);
    assert_eq!(again.exit, Some(0), "{again:?}");
    let doctor = program.run(&["doctor"]);
    assert!(!doctor.stdout.contains("is a handler"), "{doctor:?}");
}
