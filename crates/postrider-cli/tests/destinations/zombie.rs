//! A relay that is suspended until after its lease has expired, with events in flight, and continues after another
//! relay has taken over.
//!
//! The zombie connects to the broker through a proxy that delays its last data, so that it arrives after the other
//! relay has published. Each relay marks its records with its name.

use std::time::Duration;

use postrider_testkit::eventually_blocking;
use postrider_testkit::proxy::{Fault, Proxy};
use postrider_testkit::servers::free_port;
use postrider_testkit::servers::kafka::{Isolation, Kafka, Listener};

use super::relays::Relay;
use super::shop::Shop;

const TOPIC: &str = "stock";
const LEASE: Duration = Duration::from_secs(4);
/// Long enough that the other relay takes the lease and publishes.
const HELD_BACK: Duration = Duration::from_secs(20);
/// The size of a batch of records; other requests of a client are smaller.
const BATCH_BYTES_MIN: u64 = 1_000;

#[test]
fn with_transactions_no_message_of_a_zombie_is_seen_after_the_takeover() {
    let Some(seen) = wake_a_zombie(true) else { return };
    println!("with transactions: {seen:?}");
    assert!(seen.before > 0 && seen.of_successor > 0, "{seen:?}");
    assert_eq!(seen.after, 0, "the zombie was heard after the takeover: {seen:?}");
}

/// The result of the test above if the broker did not fence.
#[test]
fn without_transactions_messages_of_a_zombie_are_seen_after_the_takeover() {
    let Some(seen) = wake_a_zombie(false) else { return };
    println!("without transactions: {seen:?}");
    assert!(seen.after > 0, "this way of making a zombie proves nothing: {seen:?}");
}

/// The records that a reader of committed records sees, in a topic with one partition.
#[derive(Debug)]
struct Seen {
    /// Records of the first relay before the first one of its successor.
    before: usize,
    of_successor: usize,
    /// Records of the first relay after the first one of its successor.
    after: usize,
    /// Records that only a reader of uncommitted records sees: the broker aborted them.
    #[allow(dead_code, reason = "it is printed")]
    aborted: usize,
}

fn wake_a_zombie(transactional: bool) -> Option<Seen> {
    let shop = Shop::open()?;
    let network = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let port = free_port().unwrap();
    let proxy = network.block_on(Proxy::to(port)).unwrap();
    let kafka = Kafka::behind(port, proxy.port())?;
    kafka.create_topic(TOPIC, 1, &[]);
    let start = |name: &str, brokers: String| {
        let config = format!(
            "[outbox.shop]\nurl = '{}'\n\
             [sink.kafka]\ntype = 'kafka'\nbrokers = '{brokers}'\ntopic = '{TOPIC}'\nencoder = 'plain'\n\
             delivery_timeout = '60s'\ntransactional = {transactional}\n\
             [subscription.stock]\nsink = 'kafka'\nstart = 'beginning'\nlease = '{}s'\npublish_timeout = '90s'\n\
             window_events_max = 500\nbatches_in_flight_max = 4\n\
             [[subscription.stock.rule]]\nheaders = {{ relay = '{name}' }}\n",
            shop.url,
            LEASE.as_secs()
        );
        let file = shop.folder.path().join(format!("{name}.toml"));
        std::fs::write(&file, config).unwrap();
        Relay::start(shop.folder.path(), &file, name)
    };
    let floor = || shop.floor("stock");

    let first = start("first", kafka.brokers_of(Listener::Proxied));
    shop.write(400).finish();
    eventually_blocking("the first leads", || floor() >= shop.last());
    let second = start("second", kafka.brokers());
    second.wait_until_it_says("standby: ");

    let writing = shop.write(4_000);
    let settled = floor();
    eventually_blocking("the first is at work", || floor() > settled);
    proxy.set(Fault::Delay(HELD_BACK));
    eventually_blocking("a batch is held back", || proxy.stats().delayed >= BATCH_BYTES_MIN);
    first.signal("STOP");
    writing.finish();
    second.wait_until_it_says("leading");
    let taken_over = floor();
    eventually_blocking("the second publishes", || floor() > taken_over);
    let late = proxy.stats().to_server;
    proxy.set(Fault::None);
    eventually_blocking("what was held back arrives", || proxy.stats().to_server > late);

    // It resumes, continues with its batch, and learns that it no longer leads.
    first.signal("CONT");
    first.wait_until_it_says("no longer leading");
    eventually_blocking("the second has settled all", || floor() >= shop.last());
    second.shut_down();
    drop(first);
    Some(read(&kafka))
}

fn read(kafka: &Kafka) -> Seen {
    let relays = |isolation: Isolation| -> Vec<String> {
        let records = kafka.read(TOPIC, isolation);
        let relay = |headers: &[(String, Vec<u8>)]| {
            let header = headers.iter().find(|(name, _)| name == "relay").unwrap();
            String::from_utf8(header.1.clone()).unwrap()
        };
        records.iter().map(|record| relay(&record.headers)).collect()
    };
    let committed = relays(Isolation::Committed);
    let takeover = committed.iter().position(|relay| relay == "second").unwrap();
    let after = committed[takeover..].iter().filter(|relay| *relay == "first").count();
    Seen {
        before: takeover,
        of_successor: committed.len() - takeover - after,
        after,
        aborted: relays(Isolation::Uncommitted).len() - committed.len(),
    }
}
