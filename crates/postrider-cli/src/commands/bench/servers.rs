//! The servers to measure: existing ones, or private ones that end with this process.

use postrider_testkit::servers::mysql::{Kind, Options, Server};
use postrider_testkit::servers::postgres;

/// The URL of the PostgreSQL server to measure.
pub(super) fn postgres_url() -> Result<String, postrider_bench::Error> {
    if let Ok(url) = std::env::var("POSTRIDER_BENCH_URL") {
        return Ok(url);
    }
    let started = postgres::url();
    let started = started
        .ok_or("no PostgreSQL server can be started here: set POSTRIDER_BENCH_URL to the URL of one")?;
    Ok(started.to_owned())
}

/// A PostgreSQL server whose commits are on disk when they are confirmed, with memory for the whole table; a private
/// server ends when this is dropped.
pub(super) struct DurablePostgres {
    pub(super) url: String,
    _started: Option<postgres::Server>,
}

impl DurablePostgres {
    pub(super) fn find() -> Result<Self, postrider_bench::Error> {
        if let Ok(url) = std::env::var("POSTRIDER_BENCH_URL") {
            return Ok(Self { url, _started: None });
        }
        let settings = ["fsync=on", "shared_buffers=1GB", "max_wal_size=4GB"];
        let options = settings.into_iter().fold(postgres::Options::default(), postgres::Options::setting);
        let started = options.start().map_err(|reason| {
            format!("no PostgreSQL server can be started here, {reason}; or set POSTRIDER_BENCH_URL")
        })?;
        Ok(Self { url: started.url().to_owned(), _started: Some(started) })
    }
}

/// A MySQL or MariaDB server to measure, with memory for the whole table; a private server ends when this is dropped.
pub(super) struct MySql {
    pub(super) name: &'static str,
    pub(super) url: String,
    _started: Option<Server>,
}

impl MySql {
    pub(super) fn find(kind: Kind) -> Result<Self, postrider_bench::Error> {
        Self::start(kind, &[])
    }

    /// A server whose commits are on disk when they are confirmed, as they are with the defaults of these servers. Servers of
    /// tests never wait for the disk.
    pub(super) fn durable(kind: Kind) -> Result<Self, postrider_bench::Error> {
        Self::start(
            kind,
            &[
                "innodb_doublewrite=ON",
                "innodb_flush_log_at_trx_commit=1",
                "innodb_flush_method=fsync",
                "sync_binlog=1",
            ],
        )
    }

    fn start(kind: Kind, settings: &[&'static str]) -> Result<Self, postrider_bench::Error> {
        let (name, log) = match kind {
            Kind::MySql => ("MySQL", "innodb_redo_log_capacity=512M"),
            Kind::MariaDb => ("MariaDB", "innodb_log_file_size=512M"),
        };
        if let Ok(url) = std::env::var("POSTRIDER_BENCH_URL") {
            return Ok(Self { name, url, _started: None });
        }
        let own = ["innodb_buffer_pool_size=2G", log];
        let started =
            own.iter().chain(settings).fold(Options::of(kind), |options, setting| options.setting(setting));
        let started = started.start();
        let started = started.map_err(|reason| {
            format!("no {name} server can be started here, {reason}; or set POSTRIDER_BENCH_URL")
        })?;
        Ok(Self { name, url: started.url().to_owned(), _started: Some(started) })
    }
}

/// A Kafka cluster to measure; a private server ends when this is dropped.
#[cfg(feature = "kafka")]
pub(super) struct Kafka {
    pub(super) brokers: String,
    _started: Option<postrider_testkit::servers::kafka::Kafka>,
}

#[cfg(feature = "kafka")]
impl Kafka {
    pub(super) fn find() -> Result<Self, postrider_bench::Error> {
        if let Ok(brokers) = std::env::var("POSTRIDER_BENCH_KAFKA") {
            return Ok(Self { brokers, _started: None });
        }
        let started = postrider_testkit::servers::kafka::Kafka::private();
        let started = started
            .ok_or("no Kafka server can be started here: set POSTRIDER_BENCH_KAFKA to the address of one")?;
        Ok(Self { brokers: started.brokers(), _started: Some(started) })
    }
}

/// A Redis server to measure; a private server ends when this is dropped.
#[cfg(feature = "redis")]
pub(super) struct Redis {
    pub(super) address: String,
    _started: Option<postrider_testkit::servers::redis::Redis>,
}

#[cfg(feature = "redis")]
impl Redis {
    pub(super) fn find() -> Result<Self, postrider_bench::Error> {
        if let Ok(address) = std::env::var("POSTRIDER_BENCH_REDIS") {
            return Ok(Self { address, _started: None });
        }
        let started = postrider_testkit::servers::redis::Redis::private();
        let started = started
            .ok_or("no Redis server can be started here: set POSTRIDER_BENCH_REDIS to the address of one")?;
        Ok(Self { address: started.address(), _started: Some(started) })
    }
}

/// An MQTT broker to measure; a private one ends when this is dropped. It accepts as many messages at once as the sink sends;
/// the default of Mosquitto is 20.
#[cfg(feature = "mqtt")]
pub(super) struct Mosquitto {
    pub(super) address: String,
    _started: Option<postrider_testkit::servers::mosquitto::Mosquitto>,
}

#[cfg(feature = "mqtt")]
impl Mosquitto {
    pub(super) fn find() -> Result<Self, postrider_bench::Error> {
        use postrider_testkit::servers::mosquitto::{Listener, Mosquitto};

        if let Ok(address) = std::env::var("POSTRIDER_BENCH_MQTT") {
            return Ok(Self { address, _started: None });
        }
        let started = Mosquitto::with("max_inflight_messages 1000");
        let started = started
            .ok_or("no MQTT broker can be started here: set POSTRIDER_BENCH_MQTT to the address of one")?;
        Ok(Self { address: started.address(Listener::Plain), _started: Some(started) })
    }
}
