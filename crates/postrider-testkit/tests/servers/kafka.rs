//! The private Kafka server behaves as other tests assume.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "durations are printed, not asserted")]

use std::time::Instant;

use postrider_testkit::servers::kafka::{Isolation, Kafka};

#[test]
fn a_broker_keeps_its_data_and_address_when_it_is_killed_stopped_and_restarted() {
    let began = Instant::now();
    let Some(kafka) = Kafka::private() else { return };
    println!("started in {:?}", began.elapsed());
    let brokers = kafka.brokers();
    kafka.create_topic("kept", 2, &[]);
    println!("memory {:?} MiB", kafka.memory_bytes().map(|bytes| bytes >> 20));
    kafka.kill();
    let began = Instant::now();
    kafka.start();
    println!("started after kill -9 in {:?}", began.elapsed());
    kafka.stop();
    let began = Instant::now();
    kafka.start();
    println!("started after a stop in {:?}", began.elapsed());
    kafka.pause();
    kafka.resume();
    assert_eq!((kafka.brokers(), kafka.topics()), (brokers, vec!["kept".to_owned()]));
    assert_eq!(kafka.read("kept", Isolation::Committed), []);
}
