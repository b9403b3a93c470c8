//! Relays that are suspended, resumed and killed.

use std::time::Duration;

use super::case::{Shop, case};
use crate::examples::RelayProcess;
use crate::shop::{let_pass, wait_for};

const WINDOW: usize = 100;

/// Long enough that the test acts before the relay settles.
const SLOW_FLUSH_MS: u64 = 2_000;

case! {
    fn a_relay_that_resumes_after_its_lease_expired_changes_nothing(shop) {
        let old = RelayProcess::start_with(shop.url_for("old"), shop.output(), 60_000, SLOW_FLUSH_MS, WINDOW);
        shop.write(30);
        assert_eq!(shop.wait_until_delivered().lost, 0);
        old.signal("STOP");
        assert_eq!(shop.floor(), 0, "it has delivered and not settled");

        // Its lease is removed; by its own clock, most of a minute is left.
        shop.end_lease();
        let new = RelayProcess::start(shop.url_for("new"), shop.output(), 60_000, WINDOW);
        shop.write(30);
        let last = shop.last_position();
        assert!(wait_for(|| shop.floor() == last), "the new one settles all");
        let epoch = shop.epoch();
        let before = shop.changes_of("old");
        assert!(before > 0, "what it changed while it led was noted");

        // When it continues, its flush is overdue: it tries to settle, and the server receives the attempt.
        let_pass(Duration::from_millis(SLOW_FLUSH_MS));
        let heard = shop.heard_of("old");
        old.signal("CONT");
        assert!(wait_for(|| shop.heard_of("old") > heard), "the woken relay did not speak to the server");
        shop.write(30);
        let last = shop.last_position();
        assert!(wait_for(|| shop.floor() == last), "the new one goes on");
        let_pass(Duration::from_millis(SLOW_FLUSH_MS));
        assert_eq!(shop.changes_of("old"), before, "it changed progress, parked rows or the lease");
        assert_eq!(shop.epoch(), epoch);
        let verdict = shop.verdict();
        println!("woken relay: {verdict}; its changes after it was stopped: 0");
        assert!(verdict.is_clean() && verdict.duplicates <= 2 * WINDOW, "{verdict}");
        drop((old, new));
    }
}

const LEASE_MS: u64 = 500;
const KILLS: u64 = 6;

case! {
    fn any_of_three_relays_may_be_killed_and_the_others_continue(shop) {
        let start = |name: String| {
            let relay = RelayProcess::start(shop.url_for(&name), shop.output(), LEASE_MS, WINDOW);
            (name, relay)
        };
        let mut relays: Vec<_> = (0..3).map(|number| start(format!("relay_{number}"))).collect();
        let (mut leaders_killed, mut longest_ms) = (0, 0);
        for kill in 0..KILLS {
            shop.write(25);
            assert_eq!(shop.wait_until_delivered().lost, 0);
            // The leader and a standby, alternately.
            let index = relays.iter().position(|(name, _)| shop.is_led_by(name) == (kill % 2 == 0)).unwrap();
            let (name, relay) = relays.remove(index);
            let led = shop.is_led_by(&name);
            relay.kill();
            let killed_ms = shop.now_ms();
            shop.write(25);
            let verdict = shop.wait_until_delivered();
            assert!(verdict.is_clean(), "{verdict}");
            if led {
                leaders_killed += 1;
                longest_ms = longest_ms.max(shop.lease_taken_ms() - killed_ms);
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
}
