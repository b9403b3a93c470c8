//! Clients in Python for the servers that are packages. They share no code with the clients of the sinks.

use std::path::Path;
use std::process::Command;

use super::packages::run;

/// Each folder's name contains the version, so that another version is downloaded separately. The testkit uses these
/// folders.
const REDIS: &str = "redis-py-8.1.0";
const MQTT: &str = "paho-mqtt-2.2.0";
const RABBITMQ: &str = "pika-1.4.4";

/// Downloads what is missing.
pub(super) fn prepare() -> Result<(), String> {
    super::once(REDIS, |folder| install(folder, "redis==8.1.0"))?;
    super::once(MQTT, |folder| install(folder, "paho-mqtt==2.2.0"))?;
    super::once(RABBITMQ, |folder| install(folder, "pika==1.4.4"))
}

fn install(folder: &Path, package: &str) -> Result<(), String> {
    run(Command::new("python3").args(["-m", "pip", "install", "-q", "--target"]).arg(folder).arg(package))
}
