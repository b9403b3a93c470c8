//! Kafka is killed under load, for as long as `OUTAGE_SECONDS` says: five seconds, or a minute in `make soak`. What alerts,
//! readiness and status said all the while is checked afterwards.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use postrider::{Clock, SystemClock};
use postrider_testkit::servers::kafka::{Isolation, Kafka};
use serde_json::Value;

use super::Shop;
use crate::http::{free, get, metric};
use crate::monitoring::Prometheus;
use crate::program::Program;
use crate::shop::{Running, status, until};
use crate::story::{found, found_with};

/// Records every attempt that is counted against an event.
const COUNT_ATTEMPTS: &str = "
    CREATE TABLE counted (attempts bigint NOT NULL);
    CREATE FUNCTION count_attempts() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.counted VALUES (NEW.attempts);
        RETURN NULL;
    END $$;
    CREATE TRIGGER count_attempts AFTER INSERT OR UPDATE ON postrider.parked
        FOR EACH ROW WHEN (NEW.attempts > 0) EXECUTE FUNCTION count_attempts()";

/// What an operator could see at one moment.
struct Sample {
    second: f64,
    ready: Option<u16>,
    status: Value,
    firing: BTreeSet<String>,
}

impl Sample {
    fn is_down(&self) -> bool {
        !self.status["destinations_down"].as_array().unwrap().is_empty()
    }
}

/// Ends a thread.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[test]
fn a_topic_that_is_missing_is_found_by_the_doctor() {
    let Some(kafka) = Kafka::private() else { return };
    kafka.create_topic("orders", 1, &[]);
    let program = Program::with_config(&format!(
        "[outbox.shop]\nurl = 'sqlite:shop.db'\n[sink.kafka]\ntype = 'kafka'\nbrokers = '{}'\ntopic = 'orders'\n\
         [subscription.orders]\nsink = 'kafka'\n",
        kafka.brokers()
    ));
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    let (outcome, what) = found(&program, "PD-0001");
    assert!(outcome == "ok" && what.ends_with("topic \"orders\" can be used"), "{what}");
    let other = |key: &str| found_with(&program, &["--set", key], "PD-0001");
    let (outcome, what) = other("sink.kafka.topic=misspelt");
    assert!(outcome == "fail" && what.contains("topic \"misspelt\" does not exist; create it"), "{what}");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a load has a rate, and an outage has a length")]
fn kafka_is_killed_under_load_and_alerts_readiness_and_status_tell_it() {
    let (Some(kafka), Some(shop)) = (Kafka::private(), Shop::new()) else { return };
    kafka.create_topic("orders", 3, &[]);
    let address = free();
    let config = format!(
        "[http]\nlisten = '{address}'\nstalled_after = '2s'\n[outbox.shop]\nurl = '{}'\n[sink.kafka]\ntype = 'kafka'\n\
         brokers = '{}'\ntopic = 'orders'\ndelivery_timeout = '2s'\n[subscription.orders]\nsink = 'kafka'\n\
         probe_min = '100ms'\nprobe_max = '1s'\n",
        shop.url,
        kafka.brokers()
    );
    let program = Program::with_config(&config);
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    shop.sql(COUNT_ATTEMPTS);
    let Some(prometheus) = Prometheus::start(program.path(), address) else { return };
    let mut command = program.command(&["relay"]);
    command.stderr(Stdio::null());
    let _relay = Running::start(command);
    // The state of the database is read every five seconds: the first answer is from before the relay had the lease.
    let no_relay = "postrider_subscription_state{outbox=\"shop\",subscription=\"orders\",state=\"no_relay\"}";
    until(|| (metric(&get(address, "/metrics")?.1, no_relay)? == 0.0).then_some(()));
    until(|| prometheus.firing().is_empty().then_some(()));
    let seconds = std::env::var("OUTAGE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let clock = SystemClock::new();
    let (loads, watches, written) = (AtomicBool::new(true), AtomicBool::new(true), AtomicU64::new(0));

    let samples = scope(|threads| {
        let load = threads.spawn(|| {
            while loads.load(Ordering::Relaxed) {
                shop.sql(
                    "INSERT INTO postrider.events (type, aggregate_type, aggregate_id, payload)
                     SELECT 'order.placed', 'Order', n::text, '{}' FROM generate_series(1, 20) AS n",
                );
                written.fetch_add(20, Ordering::Relaxed);
                sleep(Duration::from_millis(100));
            }
        });
        let watch = threads.spawn(|| {
            let mut samples = Vec::new();
            while watches.load(Ordering::Relaxed) {
                samples.push(Sample {
                    second: clock.now().elapsed.as_secs_f64(),
                    ready: get(address, "/readyz").map(|(code, _)| code),
                    status: status(&program),
                    firing: prometheus.firing(),
                });
                sleep(Duration::from_millis(200));
            }
            samples
        });
        // If a condition is never met, the threads end, and the test fails instead of waiting for them.
        let _ends = (End(&loads), End(&watches));
        until(|| {
            (shop.number("SELECT coalesce(max(floor), 0) FROM postrider.subscriptions") >= 100).then_some(())
        });
        kafka.kill();
        let killed = clock.now().elapsed;
        until(|| {
            let is_long = clock.now().elapsed - killed >= Duration::from_secs(seconds);
            let firing = prometheus.firing();
            let told = ["PostriderDestinationDown", "PostriderUndeliveredTooOld"];
            (is_long && told.iter().all(|name| firing.contains(*name))).then_some(())
        });
        kafka.start();
        until(|| (!prometheus.firing().contains("PostriderDestinationDown")).then_some(()));
        loads.store(false, Ordering::Relaxed);
        load.join().unwrap();
        until(|| (status(&program)["backlog"]["events"] == 0).then_some(()));
        until(|| prometheus.firing().is_empty().then_some(()));
        watches.store(false, Ordering::Relaxed);
        watch.join().unwrap()
    });

    let down: Vec<&Sample> = samples.iter().filter(|sample| sample.is_down()).collect();
    let (Some(first), Some(last)) = (down.first(), down.last()) else { panic!("status never told it") };
    for sample in &samples {
        // A relay that has just begun is not ready.
        assert!(sample.ready == Some(200) || sample.second < first.second, "not ready: {}", sample.status);
        let is_within = sample.second >= first.second && sample.second <= last.second;
        assert_eq!(sample.is_down(), is_within, "told without a gap: {}", sample.status);
        for other in ["PostriderNoProgress", "PostriderNoRelay", "PostriderDeadEvents", "PostriderHalted"] {
            assert!(!sample.firing.contains(other), "{:?} {}", sample.firing, sample.status);
        }
    }
    for sample in &down {
        let told = &sample.status["destinations_down"][0];
        assert!(told["next_probe_at"].is_string() && told["error"].is_string(), "{told}");
    }
    assert_eq!(shop.number("SELECT count(*) FROM counted"), 0, "no attempt was counted against an event");
    assert_eq!(shop.number("SELECT count(*) FROM postrider.parked"), 0);
    let records = kafka.read("orders", Isolation::Committed);
    let id = |value: &[u8]| serde_json::from_slice::<Value>(value).unwrap()["id"].to_string();
    let ids: BTreeSet<String> = records.iter().map(|record| id(&record.value)).collect();
    let written = written.load(Ordering::Relaxed);
    assert_eq!(ids.len() as u64, written, "every event arrived");
    println!(
        "Kafka was killed for {seconds} s: {written} events written, {} arrived, {} of them twice; {} samples, {} of them with \
         the destination down ({:.1} s), all of them ready; 0 attempts counted",
        ids.len(),
        records.len() - ids.len(),
        samples.len(),
        down.len(),
        last.second - first.second
    );
}
