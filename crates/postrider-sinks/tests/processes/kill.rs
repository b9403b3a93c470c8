//! A relay killed with -9 at random moments while writers run.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::examples::RelayProcess;
use super::shop::{Shop, let_pass};

const WINDOW: usize = 200;

#[test]
fn a_relay_killed_twenty_times_loses_invents_and_reorders_nothing() {
    let kills: usize = std::env::var("KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let shop = Shop::open();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3).map(|seed| shop.writer(seed * 77 + 5, &stop)).collect();
    let seed: u64 = std::env::var("KILL_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| RandomState::new().hash_one("moments"));
    println!("KILL_SEED={seed}");
    let (mut random, mut at_work) = (seed, 0);
    for _ in 0..kills {
        let before = shop.delivered_bytes();
        let relay = RelayProcess::start(&shop.database, &shop.output, 200, WINDOW);
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // At a time between before it leads and long after.
        let_pass(Duration::from_micros((random >> 33) % 900_000));
        relay.kill();
        at_work += usize::from(shop.delivered_bytes() > before);
    }
    stop.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let relay = RelayProcess::start(&shop.database, &shop.output, 200, WINDOW);
    let verdict = shop.wait_until_delivered();
    relay.shut_down();
    println!("{kills} kills, {at_work} of them at work: {verdict}; bound on duplicates {}", kills * WINDOW);
    assert!(verdict.is_clean(), "{verdict}");
    assert!(verdict.written > 1_000, "too little happened: {verdict}");
    assert!(at_work >= kills / 4, "only {at_work} of {kills} kills hit a relay at work");
    assert!(verdict.duplicates > 0, "no kill left anything unsettled: {verdict}");
    assert!(verdict.duplicates <= kills * WINDOW, "{verdict}");
}
