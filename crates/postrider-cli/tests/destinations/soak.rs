//! Many events from PostgreSQL to a destination while relays are killed with -9 and the destination is stopped, killed
//! and suspended. `SOAK_EVENTS` sets their number; `xtask soak` sets 100,000.

use postrider_testkit::eventually_blocking;
use postrider_testkit::servers::endpoint::Endpoint;
use postrider_testkit::servers::mosquitto::Mosquitto;
use postrider_testkit::servers::redis::Redis;

use super::destination::{Destination, MqttTopic, Stream, Topic};
use super::relays::Relays;
use super::shop::Shop;

const RELAYS: usize = 3;
/// The maximum number of duplicates per takeover and per outage.
const WINDOW: u64 = 500;
const SUBSCRIPTION: &str = "stock";
const TAKEN_FOR_DOWN: &str = "destination is down; failures do not count";

/// The fault in the middle of a round.
#[derive(Debug, Clone, Copy)]
enum Blow {
    /// kill -9 for the relay that leads.
    Leader,
    /// kill -9 for every relay.
    Relays,
    /// The destination is stopped cleanly, and the leader killed while it is down.
    Stop,
    /// kill -9 for the destination.
    Kill,
    /// The destination is suspended until it is considered down.
    Pause,
}

const BLOWS: [Blow; 5] = [Blow::Leader, Blow::Stop, Blow::Relays, Blow::Kill, Blow::Pause];

#[test]
fn kafka_receives_everything_in_order_while_relays_and_the_broker_are_killed() {
    let Some(topic) = Topic::create("stock", 6, false) else { return };
    soak("kafka", &topic);
}

#[test]
fn kafka_with_transactions_receives_everything_in_order_while_relays_and_the_broker_are_killed() {
    let Some(topic) = Topic::create("stock", 6, true) else { return };
    soak("kafka with transactions", &topic);
}

#[test]
fn a_webhook_receives_everything_in_order_while_relays_and_the_endpoint_are_killed() {
    let Some(endpoint) = Endpoint::private() else { return };
    soak("webhook", &endpoint);
}

#[test]
fn redis_receives_everything_in_order_while_relays_and_the_server_are_killed() {
    let Some(redis) = Redis::private() else { return };
    soak("redis", &Stream { redis, name: "stock", fencing: false });
}

#[test]
fn redis_with_a_fence_receives_everything_in_order_while_relays_and_the_server_are_killed() {
    let Some(redis) = Redis::private() else { return };
    soak("redis with a fence", &Stream { redis, name: "stock", fencing: true });
}

#[test]
fn mqtt_receives_everything_in_order_while_relays_are_killed_and_the_broker_restarts() {
    let Some(broker) = Mosquitto::private() else { return };
    broker.subscribe("stock", "stock");
    soak("mqtt", &MqttTopic { broker, name: "stock", qos: 1 });
}

fn soak(name: &str, destination: &dyn Destination) {
    let Some(shop) = Shop::open() else { return };
    let events: usize = std::env::var("SOAK_EVENTS").ok().and_then(|n| n.parse().ok()).unwrap_or(3_000);
    // Rounds of some thousand events, and each fault at least once.
    let rounds = (events / 4_000).max(BLOWS.len());
    let sink = destination.sink();
    let sink_name =
        sink.lines().next().unwrap().trim_matches(['[', ']']).trim_start_matches("sink.").to_owned();
    let config = format!(
        "[outbox.shop]\nurl = '{}'\n{sink}[subscription.{SUBSCRIPTION}]\nsink = '{sink_name}'\nstart = 'beginning'\n\
         window_events_max = {WINDOW}\nlease = '3s'\nprobe_max = '2s'\npublish_timeout = '10s'\n",
        shop.url
    );
    let mut relays = Relays::start(&shop, &config, RELAYS);
    let (mut outages, mut leaders_killed, mut others_killed) = (0, 0, 0);
    for round in 0..rounds {
        let (begin, blow) = (shop.last(), BLOWS[round % BLOWS.len()]);
        let writing = shop.write(events / rounds);
        // The fault occurs while the relay delivers and the writers write.
        eventually_blocking(&format!("round {round}"), || shop.floor(SUBSCRIPTION) > begin);
        match blow {
            Blow::Leader => relays.kill_leader(),
            Blow::Relays => relays.kill_all(),
            Blow::Stop | Blow::Kill | Blow::Pause => {
                let leader = relays.leader();
                let noticed = relays.times(&leader, TAKEN_FOR_DOWN);
                match blow {
                    Blow::Stop => destination.stop(),
                    Blow::Kill => destination.kill(),
                    _ => destination.pause(),
                }
                let more = shop.write(400);
                if matches!(blow, Blow::Stop) {
                    relays.kill_leader();
                    leaders_killed += 1;
                } else {
                    eventually_blocking("an outage that is noticed", || {
                        relays.times(&leader, TAKEN_FOR_DOWN) > noticed
                    });
                }
                if matches!(blow, Blow::Pause) {
                    destination.resume()
                } else {
                    destination.start()
                }
                more.finish();
            }
        }
        match blow {
            Blow::Leader => leaders_killed += 1,
            Blow::Relays => {
                (leaders_killed, others_killed) = (leaders_killed + 1, others_killed + RELAYS - 1)
            }
            Blow::Stop | Blow::Kill | Blow::Pause => outages += 1,
        }
        writing.finish();
    }
    let last = shop.last();
    let parked = || shop.number("SELECT count(*) FROM postrider.parked");
    eventually_blocking("everything settled", || shop.floor(SUBSCRIPTION) >= last && parked() == 0);
    relays.shut_down();
    let (takeovers, attempts) = (shop.takeovers(SUBSCRIPTION), shop.attempts());
    // Relays that took over and could not publish, because the destination was down, repeat nothing.
    let bound = WINDOW * (leaders_killed + outages);
    let verdict = destination.check(&shop.written(), bound);
    println!(
        "{name}: {rounds} rounds, {leaders_killed} leaders and {others_killed} others killed, {takeovers} takeovers, {outages} outages, {attempts} attempts counted"
    );
    println!("{name}: {}", verdict.as_ref().unwrap_or_else(|objection| objection));
    assert!(verdict.is_ok(), "{verdict:?}");
    assert_eq!(attempts, 0, "attempts were counted");
    assert!(takeovers >= 3, "only {takeovers} relays were killed while they led");
}
