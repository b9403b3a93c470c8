//! A relay killed with -9 at random moments while writers run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::examples::RelayProcess;
use super::shop::{Shop, wait_for};

const WINDOW: usize = 200;

#[test]
fn a_relay_killed_twenty_times_loses_invents_and_reorders_nothing() {
    let kills: usize = std::env::var("KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let shop = Shop::open();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3).map(|seed| shop.writer(seed * 77 + 5, &stop)).collect();
    for kill in 0..kills {
        let relay = RelayProcess::start(&shop.database, &shop.output, 200, WINDOW);
        // The moment depends on how far it got, which no two runs share: sometimes before its first event,
        // sometimes in the middle of its work.
        let before = shop.delivered().len();
        let more = (kill * 37) % 400;
        assert!(wait_for(|| shop.delivered().len() >= before + more), "no progress before kill {kill}");
        relay.kill();
    }
    stop.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let relay = RelayProcess::start(&shop.database, &shop.output, 200, WINDOW);
    let verdict = shop.wait_until_delivered();
    relay.shut_down();
    println!("{kills} kills: {verdict}; bound on duplicates {}", kills * WINDOW);
    assert!(verdict.is_clean(), "{verdict}");
    assert!(verdict.written > 1_000, "too little happened: {verdict}");
    assert!(verdict.duplicates <= kills * WINDOW, "{verdict}");
}
