//! The server of a Redis sink.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use postrider::encode::cloudevents::Binding;
use postrider::sink::{Destinations, Sink};
use postrider::{BoxFuture, Code, Result};
use postrider_sinks::redis::{Redis, RedisConfig, Replicas, Tls};

use crate::config::Problem;
use crate::config::settings::ConfigTable;
use crate::doctor::{Check, Subject};
use crate::sinks::{SinkUser, Target};

#[derive(Debug, PartialEq)]
struct Streams {
    /// Without the key of the fence, which depends on the subscription.
    config: RedisConfig,
    /// The prefix of that key, if relays are fenced.
    fence: Option<String>,
}

pub(super) fn read(table: &ConfigTable<'_>) -> Result<Arc<dyn Target>, Problem> {
    let mut config = RedisConfig::new(table.required("address", table.text("address")?)?);
    config.database = table.count("database")?;
    config.username = table.text("username")?;
    config.password = table.secret("password")?.map(|password| password.expose_secret().to_owned());
    config.stream = table.text("stream")?;
    config.create_streams = table.bool("create_streams")?;
    config.max_len = table.optional_count::<u64>("max_len")?.and_then(NonZeroU64::new);
    config.message_bytes_max = table.count("message_max")?;
    config.timeout = table.duration("timeout")?;
    config.connect_timeout = table.duration("connect_timeout")?;
    let timeout = table.duration("replicas_timeout")?;
    config.replicas = table.optional_count("replicas")?.map(|count| Replicas::new(count, timeout));
    config.tls = tls(table)?;
    config.check().map_err(|error| table.table_problem(Code::ConfigValue, error.message()))?;
    let prefix = table.required("fence", table.text("fence")?)?;
    Ok(Arc::new(Streams { config, fence: table.bool("fencing")?.then_some(prefix) }))
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

impl Target for Streams {
    /// One fence per outbox and subscription: a relay that takes over a subscription fences its previous owner, and no
    /// other relay.
    fn open(&self, user: &SinkUser<'_>) -> Result<Arc<dyn Sink>> {
        let mut config = self.config.clone();
        config.fence =
            self.fence.as_ref().map(|prefix| format!("{prefix}.{}.{}", user.outbox, user.subscription));
        Ok(Arc::new(Redis::open(&config)?))
    }

    fn is_shared(&self) -> bool {
        self.fence.is_none()
    }

    fn destinations(&self) -> Destinations {
        if self.config.stream.is_some() { Destinations::Fixed } else { Destinations::Names }
    }

    /// CloudEvents define no binding for Redis. Fields have the restrictions of Kafka's headers: none.
    fn binding(&self) -> Binding {
        Binding::Kafka
    }

    fn publish_timeout_above(&self) -> Duration {
        self.config.timeout + self.config.replicas.map_or(Duration::ZERO, |replicas| replicas.timeout)
    }

    /// Connects, logs in, and reads the settings that decide what survives a crash of the server.
    fn check<'a>(&'a self, subject: &'a mut Subject<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let redis = match Redis::open(&self.config) {
                Ok(redis) => redis,
                Err(error) => return subject.fail(Check::SinkReachable, error.message()),
            };
            let server = match redis.server().await {
                Ok(server) => server,
                Err(error) => {
                    let fix = "check `address`, user and password, and that the server is running and reachable from here";
                    return subject.fail_with(Check::SinkReachable, error.message(), fix);
                }
            };
            let (fatal, weak): (Vec<_>, Vec<_>) =
                server.weaknesses().into_iter().partition(|weakness| weakness.is_fatal);
            match &fatal[..] {
                [] => subject.ok(Check::SinkReachable, format!("{self}, {server}")),
                [first, ..] => subject.fail(Check::SinkReachable, format!("{self}: {first}")),
            }
            if !server.knows_durability() {
                subject.unchecked(Check::SinkDurable, "this user may not run CONFIG GET");
            } else if weak.is_empty() {
                subject.ok(Check::SinkDurable, server.to_string());
            }
            for weakness in weak {
                subject.warn(Check::SinkDurable, weakness.to_string());
            }
        })
    }
}

impl fmt::Display for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "redis {}", self.config.address)
    }
}
