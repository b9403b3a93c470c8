//! A real Prometheus next to a relay on PostgreSQL: every panel of the board has data under load, and an open transaction, a
//! stopped relay and a changed history fire their alerts and clear them.

use std::process::Stdio;

use super::Shop;
use crate::http::free;
use crate::monitoring::{Prometheus, queries};
use crate::program::Program;
use crate::shop::{Running, status, until};

fn relay(program: &Program) -> Running {
    let mut command = program.command(&["relay"]);
    command.stderr(Stdio::null());
    Running::start(command)
}

fn write(shop: &Shop) {
    shop.sql("INSERT INTO postrider.events (type, payload) SELECT 'order.placed', '{}' FROM generate_series(1, 20)");
}

#[test]
fn an_open_transaction_a_stopped_relay_and_a_changed_history_fire_their_alerts_and_clear() {
    let Some(shop) = Shop::new() else { return };
    let address = free();
    let config = format!("[http]\nlisten = '{address}'\n{}lease = '2s'\n", super::config(&shop.url));
    let program = Program::with_config(&config);
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    let Some(prometheus) = Prometheus::start(program.path(), address) else { return };
    let running = relay(&program);
    until(|| (status(&program)["state"] == "leading").then_some(()));
    // An error of the database, for the panel that shows them.
    shop.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    for (title, expr) in queries() {
        until(|| {
            write(&shop);
            let found = prometheus.query(&expr);
            let is_number =
                |row: &serde_json::Value| row["value"][1].as_str().is_some_and(|text| text != "NaN");
            let has_data = found.iter().any(is_number);
            if !has_data {
                println!("{title}: no data yet: {found:?}");
            }
            has_data.then_some(())
        });
    }
    let quiet = || until(|| prometheus.firing().is_empty().then_some(()));
    let fires = |alert: &str| until(|| prometheus.firing().contains(alert).then_some(()));
    quiet();

    let open = shop.open("INSERT INTO postrider.events (type, payload) VALUES ('late', '')");
    fires("PostriderOpenTransactionOld");
    drop(open);
    quiet();

    running.signal("TERM");
    assert_eq!(running.end().0, Some(0));
    fires("PostriderTargetMissing");
    let running = relay(&program);
    quiet();

    until(|| (status(&program)["backlog"]["events"] == 0).then_some(()));
    shop.sql("TRUNCATE postrider.events RESTART IDENTITY");
    write(&shop);
    fires("PostriderHalted");
    let accepted = program.run(&["accept-history", "orders", "--from", "beginning"]);
    assert_eq!(accepted.exit, Some(0), "{accepted:?}");
    quiet();
    until(|| (status(&program)["backlog"]["events"] == 0).then_some(()));
    running.signal("TERM");
    assert_eq!(running.end().0, Some(0));
}
