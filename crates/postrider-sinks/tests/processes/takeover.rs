//! Two relays on one file: the standby takes over, the old one continues and changes nothing.

use std::time::Duration;

use super::examples::RelayProcess;
use super::shop::{Shop, let_pass, wait_for};

/// Long enough that a leader renews in time on a busy machine.
const LEASE_MS: u64 = 1_500;
const WINDOW: usize = 100;

/// Records the epoch of every change of a subscription's progress.
const WATCH: &str = "
    CREATE TABLE settles (number INTEGER PRIMARY KEY, epoch INTEGER NOT NULL);
    CREATE TRIGGER watch AFTER UPDATE OF done ON postrider_subscriptions
    BEGIN
        INSERT INTO settles (epoch) VALUES (new.epoch);
    END";

#[test]
fn a_standby_takes_over_and_the_old_relay_settles_nothing_when_it_resumes() {
    let shop = Shop::open();
    let connection = shop.connect();
    connection.execute_batch(WATCH).unwrap();
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let epoch = || number("SELECT ifnull(max(epoch), 0) FROM postrider_subscriptions");

    let old = RelayProcess::start(&shop.database, &shop.output, LEASE_MS, WINDOW);
    shop.write(50);
    assert_eq!(shop.wait_until_delivered().lost, 0);
    let standby = RelayProcess::start(&shop.database, &shop.output, LEASE_MS, WINDOW);
    shop.write(50);
    assert_eq!(shop.wait_until_delivered().lost, 0);
    assert_eq!(epoch(), 1, "the standby waits while the leader renews");

    shop.stop(&old);
    shop.write(50);
    assert_eq!(shop.wait_until_delivered().lost, 0, "the standby carries on");
    assert_eq!(epoch(), 2);
    let settles_of_old = number("SELECT count(*) FROM settles WHERE epoch = 1");
    old.signal("CONT");
    shop.write(50);
    let verdict = shop.wait_until_delivered();
    // The resumed relay has had time to try: a third one, started now, had time to read the lease.
    let third = RelayProcess::start(&shop.database, &shop.output, LEASE_MS, WINDOW);
    standby.kill();
    shop.write(50);
    assert!(wait_for(|| shop.verdict().lost == 0 && epoch() == 3), "one of the two others takes over");
    assert_eq!(number("SELECT count(*) FROM settles WHERE epoch = 1"), settles_of_old);
    let last = shop.verdict();
    println!("{verdict}, then {last}");
    assert!(last.is_clean(), "{last}");
    assert!(last.duplicates <= 3 * WINDOW, "{last}");
    drop((old, third));
}

/// Long enough that the test acts before the relay settles.
const SLOW_FLUSH_MS: u64 = 2_000;

#[test]
fn a_relay_that_resumes_with_unsettled_events_and_an_outdated_lease_moves_no_progress_back() {
    let shop = Shop::open();
    let connection = shop.connect();
    connection
        .execute_batch(
            "CREATE TABLE moves (before INTEGER NOT NULL, after INTEGER NOT NULL);
             CREATE TRIGGER watch AFTER UPDATE OF done ON postrider_subscriptions
             BEGIN INSERT INTO moves VALUES (old.floor, new.floor); END",
        )
        .unwrap();
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();

    let old = RelayProcess::start_with(&shop.database, &shop.output, 60_000, SLOW_FLUSH_MS, WINDOW);
    shop.write(30);
    assert_eq!(shop.wait_until_delivered().lost, 0);
    shop.stop(&old);
    assert_eq!(number("SELECT floor FROM postrider_subscriptions"), 0, "it has delivered and not settled");

    // Its lease is removed; by its own clock, most of a minute is left.
    connection.execute("UPDATE postrider_leases SET expires_at = 0", []).unwrap();
    let new = RelayProcess::start(&shop.database, &shop.output, 60_000, WINDOW);
    shop.write(30);
    let last = number("SELECT max(position) FROM postrider_events");
    assert!(
        wait_for(|| number("SELECT floor FROM postrider_subscriptions") == last),
        "the new one settles all"
    );

    // When it continues, its flush is overdue: it settles what it has delivered before it reads anything newer. It does
    // not report that the settle was refused.
    let_pass(Duration::from_millis(SLOW_FLUSH_MS));
    old.signal("CONT");
    let_pass(Duration::from_millis(SLOW_FLUSH_MS));
    assert_eq!(number("SELECT count(*) FROM moves WHERE after < before"), 0);
    assert_eq!(number("SELECT floor FROM postrider_subscriptions"), last);
    let verdict = shop.verdict();
    assert!(verdict.is_clean() && verdict.duplicates <= 2 * WINDOW, "{verdict}");
    drop((old, new));
}
