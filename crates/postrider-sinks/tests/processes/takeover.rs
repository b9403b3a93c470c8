//! Two relays on one file: the standby takes over, the old one wakes and changes nothing.

use super::examples::RelayProcess;
use super::shop::{Shop, wait_for};

const LEASE_MS: u64 = 500;
const WINDOW: usize = 100;

/// Notes the epoch of every change of a subscription's progress, whoever makes it.
const WATCH: &str = "
    CREATE TABLE settles (number INTEGER PRIMARY KEY, epoch INTEGER NOT NULL);
    CREATE TRIGGER watch AFTER UPDATE OF done ON postrider_subscriptions
    BEGIN
        INSERT INTO settles (epoch) VALUES (new.epoch);
    END";

#[test]
fn a_standby_takes_over_and_the_old_relay_once_woken_settles_nothing() {
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

    old.signal("STOP");
    shop.write(50);
    assert_eq!(shop.wait_until_delivered().lost, 0, "the standby carries on");
    assert_eq!(epoch(), 2);
    let settles_of_old = number("SELECT count(*) FROM settles WHERE epoch = 1");
    old.signal("CONT");
    shop.write(50);
    let verdict = shop.wait_until_delivered();
    // The woken relay has had time to try: a third one, started now, had time to see the lease.
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
