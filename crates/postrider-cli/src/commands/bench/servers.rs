//! What to measure: given servers, or some of our own that end with this process.

/// The URL of the PostgreSQL server to measure.
pub(super) fn postgres() -> Result<String, postrider_bench::Error> {
    if let Ok(url) = std::env::var("POSTRIDER_BENCH_URL") {
        return Ok(url);
    }
    let started = postrider_testkit::servers::postgres::url();
    let started = started
        .ok_or("no PostgreSQL server can be started here: put the URL of one into POSTRIDER_BENCH_URL")?;
    Ok(started.to_owned())
}

/// A Kafka cluster to measure; a server of our own ends when this is dropped.
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
            .ok_or("no Kafka can be started here: put the address of one into POSTRIDER_BENCH_KAFKA")?;
        Ok(Self { brokers: started.brokers(), _started: Some(started) })
    }
}
