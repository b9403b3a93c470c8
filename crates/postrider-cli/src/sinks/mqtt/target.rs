//! The broker of an MQTT sink.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postrider::encode::cloudevents::Binding;
use postrider::sink::{Destinations, Sink};
use postrider::{BoxFuture, Code, Result};
use postrider_sinks::mqtt::{Mqtt, MqttConfig, Qos, Tls};

use crate::config::Problem;
use crate::config::settings::ConfigTable;
use crate::doctor::{Check, Subject};
use crate::sinks::{SinkUser, Target};

const QOS: [(&str, Qos); 2] = [("1", Qos::AtLeastOnce), ("2", Qos::ExactlyOnce)];

#[derive(Debug, PartialEq)]
struct Topics(MqttConfig);

pub(super) fn read(table: &ConfigTable<'_>) -> Result<Arc<dyn Target>, Problem> {
    let mut config = MqttConfig::new(table.required("address", table.text("address")?)?);
    config.client_id = table.required("client_id", table.text("client_id")?)?;
    config.username = table.text("username")?;
    config.password = table.secret("password")?.map(|password| password.expose_secret().to_owned());
    config.topic = table.text("topic")?;
    config.qos = table.choice("qos", &QOS)?;
    config.retain = table.bool("retain")?;
    config.require_subscriber = table.bool("require_subscriber")?;
    config.message_bytes_max = table.count("message_max")?;
    config.in_flight_max = table.count("in_flight_max")?;
    config.timeout = table.duration("timeout")?;
    config.connect_timeout = table.duration("connect_timeout")?;
    config.tls = tls(table)?;
    config.check().map_err(|error| table.table_problem(Code::ConfigValue, error.message()))?;
    Ok(Arc::new(Topics(config)))
}

fn tls(table: &ConfigTable<'_>) -> Result<Option<Tls>, Problem> {
    let mut tls = Tls::default();
    tls.ca = table.path("tls_ca")?;
    tls.certificate = table.path("tls_certificate")?;
    tls.key = table.path("tls_key")?;
    if !table.bool("tls")? && tls != Tls::default() {
        return Err(table.problem("tls", Code::ConfigValue, "is false, but certificates are configured"));
    }
    Ok(table.bool("tls")?.then_some(tls))
}

impl Target for Topics {
    fn open(&self, _: &SinkUser<'_>) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(Mqtt::open(&self.0)?))
    }

    fn destinations(&self) -> Destinations {
        if self.0.topic.is_some() { Destinations::Fixed } else { Destinations::Topics }
    }

    fn binding(&self) -> Binding {
        Binding::Mqtt
    }

    fn publish_timeout_above(&self) -> Duration {
        self.0.timeout
    }

    /// Connects and logs in, without publishing.
    fn check<'a>(&'a self, subject: &'a mut Subject<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let broker = match Mqtt::open(&self.0) {
                Ok(mqtt) => mqtt.broker().await,
                Err(error) => return subject.fail(Check::SinkReachable, error.message()),
            };
            match broker {
                Ok(broker) => subject.ok(Check::SinkReachable, format!("{self}, {broker}")),
                Err(error) => {
                    let fix = "check `address`, user and password, and that the broker is running, speaks MQTT 5, and is reachable from here";
                    return subject.fail_with(Check::SinkReachable, error.message(), fix);
                }
            }
            let what = "MQTT does not report whether the broker stores messages on disk and how many it keeps for a session; \
                        with Mosquitto: persistence, autosave_interval, max_queued_messages";
            subject.unchecked(Check::SinkDurable, what);
        })
    }
}

impl fmt::Display for Topics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mqtt {}", self.0.address)
    }
}
