//! What `doctor` finds about brokers: that they answer, and what they lose in a crash.

use std::process::Command;

use postrider_testkit::servers::mosquitto::{
    Listener, Mosquitto, PASSWORD as MQTT_PASSWORD, USER as MQTT_USER,
};
use postrider_testkit::servers::redis::{PASSWORD, Redis, USER};

/// The findings of `doctor` about a sink: `ok PD-0001 what`.
fn doctor(sink: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("postrider.toml"), sink).unwrap();
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_postrider"));
    doctor.args(["doctor", "--json"]).current_dir(folder.path()).env("SINK_PASSWORD", PASSWORD);
    let printed = doctor.output().unwrap();
    let text = String::from_utf8(printed.stdout).unwrap();
    assert!(!text.contains(PASSWORD) && !String::from_utf8_lossy(&printed.stderr).contains(PASSWORD));
    let findings: serde_json::Value = serde_json::from_str(&text).unwrap();
    let findings = findings.as_array().unwrap().iter();
    let line = |finding: &serde_json::Value| {
        let text = |key: &str| finding[key].as_str().unwrap().to_owned();
        format!("{} {} {}", text("outcome"), text("code"), text("what"))
    };
    findings.map(line).collect()
}

fn assert_finds(findings: &[String], expected: &str, what: &str) {
    let found = findings.iter().any(|finding| finding.starts_with(expected) && finding.contains(what));
    assert!(found, "no {expected:?} with {what:?} in {findings:#?}");
}

#[test]
fn doctor_reports_what_redis_loses_in_a_crash() {
    let Some(redis) = Redis::private() else { return };
    let sink = |address: &str| {
        format!(
            "[sink.redis]\ntype = 'redis'\naddress = '{address}'\nusername = '{USER}'\npassword = 'env:SINK_PASSWORD'\n\
             connect_timeout = '1s'\n"
        )
    };
    let findings = doctor(&sink(&redis.address()));
    assert_finds(&findings, "ok PD-0001", "appendfsync everysec");
    assert_finds(&findings, "warn PD-0007", "two seconds");
    redis.command(&["CONFIG", "SET", "appendfsync", "always"]);
    assert_finds(&doctor(&sink(&redis.address())), "ok PD-0007", "appendfsync always");
    redis.command(&["REPLICAOF", "127.0.0.1", "1"]);
    assert_finds(&doctor(&sink(&redis.address())), "fail PD-0001", "is a replica");
    assert_finds(&doctor(&sink("127.0.0.1:1")), "fail PD-0001", "127.0.0.1:1");
}

#[test]
fn doctor_reports_the_limits_of_an_mqtt_broker_and_what_it_cannot_know() {
    let Some(broker) = Mosquitto::with("max_qos 1\n") else { return };
    assert_eq!(MQTT_PASSWORD, PASSWORD);
    let sink = |address: String, qos: u8| {
        format!(
            "[sink.mqtt]\ntype = 'mqtt'\naddress = '{address}'\nusername = '{MQTT_USER}'\npassword = 'env:SINK_PASSWORD'\n\
             qos = '{qos}'\nconnect_timeout = '1s'\n"
        )
    };
    let address = broker.address(Listener::Plain);
    let findings = doctor(&sink(address.clone(), 1));
    assert_finds(&findings, "ok PD-0001", "QoS up to 1");
    assert_finds(&findings, "warn PD-0007", "cannot be checked");
    assert_finds(&doctor(&sink(address, 2)), "fail PD-0001", "QoS up to 1, not 2");
}
