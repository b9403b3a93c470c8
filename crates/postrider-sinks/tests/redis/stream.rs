//! A new stream, a sink that adds to it, and its reader.

use std::sync::Arc;
use std::time::Duration;

use postrider::encode::{Encoder, Plain};
use postrider::sink::Message;
use postrider::{Event, Position};
use postrider_sinks::redis::{Redis as RedisSink, RedisConfig};
use postrider_testkit::servers::redis::{Entry, Redis};

pub(crate) const LEASE: Duration = Duration::from_secs(20);

/// A unique name.
pub(crate) fn name(what: &str) -> String {
    format!("{what}-{}", uuid::Uuid::now_v7().simple())
}

pub(crate) fn config(redis: &Redis) -> RedisConfig {
    RedisConfig::new(redis.address()).timeout(Duration::from_secs(2)).connect_timeout(Duration::from_secs(1))
}

pub(crate) fn open(config: &RedisConfig) -> Arc<RedisSink> {
    Arc::new(RedisSink::open(config).unwrap())
}

/// A message of this key to this stream.
pub(crate) fn to(stream: &str, key: &str, number: usize) -> Message {
    let encoder: Arc<dyn Encoder> = Arc::new(Plain);
    let event = Event::new("redis.tested", format!("{key} {number}")).with_key(key);
    let position = Position::new(i64::try_from(number).unwrap() + 1);
    Message::encode(&encoder, position, Arc::new(event), stream.into()).unwrap()
}

/// The bodies of entries.
pub(crate) fn bodies(entries: &[Entry]) -> Vec<String> {
    let body = |entry: &Entry| String::from_utf8(entry.field("body").unwrap().to_vec()).unwrap();
    entries.iter().map(body).collect()
}
