//! To Redis Streams.

use std::sync::Arc;

use postrider::sink::Sink;
use postrider_sinks::redis::{Redis, RedisConfig};

use super::{Broker, Publish, compare};
use crate::records::Record;
use crate::{Error, Report, Usage, redis};

struct Streams<'a>(&'a str);

impl Broker for Streams<'_> {
    const NAMES: (&'static str, &'static str) = ("Redis", "redis");

    async fn alone(&self, place: &str, records: &[Record]) -> Result<Usage, Error> {
        redis::alone(self.0, place, records).await
    }

    fn sink(&self, place: &str) -> Result<Arc<dyn Sink>, Error> {
        Ok(Arc::new(Redis::open(&RedisConfig::new(self.0).stream(place))?))
    }

    async fn remove(&self, place: &str) -> Result<u64, Error> {
        redis::remove(self.0, place).await
    }
}

/// Runs it from a new schema of a server to streams of a Redis server at `host:port`. `progress` is called with each next
/// step.
///
/// # Errors
/// An error of a server or the relay, or if a stream does not contain each event once.
pub async fn postgres_to_redis(
    url: &str,
    address: &str,
    publish: Publish,
    progress: impl Fn(&str),
) -> Result<Report, Error> {
    compare(url, &Streams(address), publish, progress).await
}
