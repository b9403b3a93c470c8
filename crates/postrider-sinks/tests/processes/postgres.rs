//! Relays as processes on one PostgreSQL database: stopped, woken and killed.

use std::time::Duration;

use super::examples::RelayProcess;
use super::postgres_shop::PostgresShop;
use super::shop::{let_pass, wait_for};

const WINDOW: usize = 100;

/// Long enough for the test to act before the relay settles by itself.
const SLOW_FLUSH_MS: u64 = 2_000;

#[test]
fn on_postgres_a_relay_that_wakes_after_its_lease_changes_nothing() {
    let Some(shop) = PostgresShop::open() else { return };
    let floor = || shop.number("SELECT coalesce(max(floor), 0) FROM postrider.subscriptions");
    let old = RelayProcess::start_with(shop.url_for("old"), &shop.output, 60_000, SLOW_FLUSH_MS, WINDOW);
    shop.write(30);
    assert_eq!(shop.wait_until_delivered().lost, 0);
    old.signal("STOP");
    assert_eq!(floor(), 0, "it has delivered and not settled");

    // Its lease is taken from it; by its own clock it still has most of a minute.
    shop.run("UPDATE postrider.leases SET expires_at = clock_timestamp() - interval '1 second'");
    let new = RelayProcess::start(shop.url_for("new"), &shop.output, 60_000, WINDOW);
    shop.write(30);
    let last = shop.number("SELECT max(position) FROM postrider.events");
    assert!(wait_for(|| floor() == last), "the new one settles all");
    let epoch = shop.number("SELECT epoch FROM postrider.subscriptions");
    let before = shop.changes_of("old");

    // When it wakes its flush is overdue: it tries to settle what it knew, and the server sees it try.
    let_pass(Duration::from_millis(SLOW_FLUSH_MS));
    shop.run("CREATE TABLE woken AS SELECT clock_timestamp() AS at");
    old.signal("CONT");
    let tried = "SELECT count(*) FROM pg_stat_activity, woken
                 WHERE datname = current_database() AND application_name = 'old' AND query_start > woken.at";
    assert!(wait_for(|| shop.number(tried) > 0), "the woken relay did not speak to the server");
    shop.write(30);
    let last = shop.number("SELECT max(position) FROM postrider.events");
    assert!(wait_for(|| floor() == last), "the new one goes on");
    let_pass(Duration::from_millis(SLOW_FLUSH_MS));
    assert_eq!(shop.changes_of("old"), before, "it changed progress, parked rows or the lease");
    assert_eq!(shop.number("SELECT epoch FROM postrider.subscriptions"), epoch);
    let verdict = shop.verdict();
    println!("woken relay: {verdict}; its changes after it was stopped: 0");
    assert!(verdict.is_clean() && verdict.duplicates <= 2 * WINDOW, "{verdict}");
    drop((old, new));
}

const LEASE_MS: u64 = 500;
const KILLS: u64 = 6;

#[test]
fn on_postgres_any_of_three_relays_may_be_killed_and_the_others_go_on() {
    let Some(shop) = PostgresShop::open() else { return };
    let start = |name: String| {
        let relay = RelayProcess::start(shop.url_for(&name), &shop.output, LEASE_MS, WINDOW);
        (name, relay)
    };
    let mut relays: Vec<_> = (0..3).map(|number| start(format!("relay_{number}"))).collect();
    let (mut leaders_killed, mut longest_ms) = (0, 0);
    for kill in 0..KILLS {
        shop.write(25);
        assert_eq!(shop.wait_until_delivered().lost, 0);
        let leads = |name: &str| {
            shop.number(&format!(
                "SELECT count(*) FROM (SELECT relay FROM changes ORDER BY number DESC LIMIT 1) AS latest
                 WHERE relay = '{name}'"
            )) == 1
        };
        // The leader and one that stands by, in turns.
        let index = relays.iter().position(|(name, _)| leads(name) == (kill % 2 == 0)).unwrap();
        let (name, relay) = relays.remove(index);
        let led = leads(&name);
        relay.kill();
        shop.run("DROP TABLE IF EXISTS killed; CREATE TABLE killed AS SELECT clock_timestamp() AS at");
        shop.write(25);
        let verdict = shop.wait_until_delivered();
        assert!(verdict.is_clean(), "{verdict}");
        if led {
            leaders_killed += 1;
            let after = "SELECT (extract(epoch FROM l.acquired_at - killed.at) * 1000)::bigint
                         FROM postrider.leases AS l, killed";
            longest_ms = longest_ms.max(shop.number(after));
        }
        relays.push(start(format!("relay_{}", kill + 3)));
    }
    let verdict = shop.verdict();
    println!(
        "{KILLS} kills, {leaders_killed} of the leader: {verdict}; the lease of {LEASE_MS} ms was taken over at \
         most {longest_ms} ms after a kill"
    );
    assert!(leaders_killed >= 2, "only {leaders_killed} leaders were killed");
    assert!(verdict.duplicates <= leaders_killed * WINDOW, "{verdict}");
}
