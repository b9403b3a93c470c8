//! One relay through every network fault, one after another.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use postrider::encode::Plain;
use postrider::relay::{Policy, Relay, Subscription};
use postrider::sink::Sink;
use postrider::store::{Start, sqlite::SqliteStore};
use postrider_testkit::eventually;
use postrider_testkit::proxy::{Fault, Proxy, Side};
use postrider_testkit::verify::{Sighting, Verdict, verify};

use super::counted::Counted;
use super::shop::Shop;

const WINDOW: usize = 100;

/// A network fault, and how its effect is observed.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    /// Open connections are cut, and new ones work.
    Cut,
    /// No data passes until the relay considers the destination down. Open connections are cut, so that the fault
    /// affects all connections.
    Outage(Fault),
    /// The same, only for the open connections.
    OutageOfOpen(Fault),
    /// All data passes, but later.
    Late(Fault),
}

const TROUBLES: [Trouble; 10] = [
    Trouble::Cut,
    Trouble::Late(Fault::Delay(Duration::from_millis(50))),
    Trouble::OutageOfOpen(Fault::Blackhole),
    Trouble::Outage(Fault::Blackhole),
    Trouble::OutageOfOpen(Fault::DropFrom(Side::Client)),
    Trouble::OutageOfOpen(Fault::DropFrom(Side::Server)),
    Trouble::OutageOfOpen(Fault::LoseResponse),
    Trouble::Late(Fault::Slow { bytes_per_second: 30_000 }),
    Trouble::Outage(Fault::Refuse),
    Trouble::Outage(Fault::CutAfter(Side::Client, 20)),
];

/// Delivers events through all faults to a sink behind the proxy, and compares the written events with the received
/// ones. No attempt may be counted.
pub(crate) async fn all_troubles(
    name: &str,
    proxy: &Proxy,
    sink: impl Sink + 'static,
    seen: impl Fn() -> Vec<Sighting>,
) {
    let mut shop = Shop::open();
    let (sink, ambiguous) = Counted::new(sink);
    let policy = Policy::default()
        .window_events_max(WINDOW)
        .lease(Duration::from_secs(6))
        .probe_min(Duration::from_millis(100))
        .probe_max(Duration::from_millis(500));
    let subscription =
        Subscription::new("network", sink).start(Start::Beginning).encoder(Plain).policy(policy);
    let store = Arc::new(SqliteStore::open(shop.database()).unwrap());
    let relay = Relay::builder().outbox(store, [subscription]).spawn().await.unwrap();
    let down = || relay.status()[0].state.destinations_down > 0;
    for trouble in TROUBLES {
        let before = (shop.last_or_none(), proxy.stats(), Instant::now());
        shop.write(200);
        relay.wake();
        until(trouble, || shop.floor() > before.0).await;
        match trouble {
            Trouble::Cut => proxy.cut(),
            Trouble::Late(fault) | Trouble::OutageOfOpen(fault) => proxy.set(fault),
            Trouble::Outage(fault) => {
                proxy.set(fault);
                proxy.cut();
            }
        }
        shop.write(100);
        relay.wake();
        match trouble {
            Trouble::Cut => until(trouble, || proxy.stats().broken > before.1.broken).await,
            Trouble::Outage(_) | Trouble::OutageOfOpen(_) => until(trouble, down).await,
            // Everything is delivered, and no outage is reported.
            Trouble::Late(_) => {
                until(trouble, || {
                    assert!(!down(), "{trouble:?} was taken for an outage");
                    shop.floor() == shop.last()
                })
                .await;
            }
        }
        let lasted = before.2.elapsed();
        proxy.set(Fault::None);
        let well = Instant::now();
        until(trouble, || shop.floor() == shop.last() && shop.parked() == 0).await;
        println!("{name}, {trouble:?}: lasted {lasted:?}, all settled {:?} after it", well.elapsed());
        assert_eq!(shop.attempts(), 0, "{trouble:?} was counted against events");
    }
    relay.shutdown().await.unwrap();
    let verdict: Verdict = verify(&shop.written, &seen());
    let (open, takeovers) = (ambiguous.load(Ordering::SeqCst), shop.takeovers());
    println!("{name}: {verdict}; {open} open outcomes, {takeovers} takeovers, 0 attempts counted");
    assert!(verdict.is_clean(), "{verdict}");
    assert!(verdict.duplicates <= open + takeovers * WINDOW, "{verdict}; {open} open, {takeovers} takeovers");
}

impl Shop {
    /// The last position; 0 if there is none.
    fn last_or_none(&self) -> i64 {
        if self.written.is_empty() { 0 } else { self.last() }
    }
}

async fn until(trouble: Trouble, mut condition: impl FnMut() -> bool) {
    eventually(&format!("{trouble:?} has its effect"), async || condition()).await;
}
