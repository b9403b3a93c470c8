//! The Redis sink, through the proxy.

use std::time::Duration;

use postrider_sinks::redis::{Redis as RedisSink, RedisConfig};
use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::redis::{Entry, Redis};
use postrider_testkit::verify::Sighting;

use super::through::all_troubles;

const STREAM: &str = "network";

#[tokio::test(flavor = "multi_thread")]
async fn redis_receives_everything_through_every_network_fault_and_no_attempt_is_counted() {
    through_all(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_with_a_fence_receives_everything_through_every_network_fault_and_no_attempt_is_counted() {
    through_all(Some("fence")).await;
}

async fn through_all(fence: Option<&str>) {
    let Some(redis) = Redis::private() else { return };
    let proxy = Proxy::to(redis.port()).await.unwrap();
    let mut config = RedisConfig::new(proxy.address().to_string())
        .stream(STREAM)
        .timeout(Duration::from_secs(3))
        .connect_timeout(Duration::from_secs(1));
    config.fence = fence.map(str::to_owned);
    let seen = || redis.read(STREAM).iter().map(sighting).collect();
    let name = if fence.is_some() { "redis with a fence" } else { "redis" };
    all_troubles(name, &proxy, RedisSink::open(&config).unwrap(), seen).await;
}

fn sighting(entry: &Entry) -> Sighting {
    let text = |name: &str| std::str::from_utf8(entry.field(name).unwrap()).unwrap().to_owned();
    Sighting {
        id: text("postrider-id").parse().unwrap(),
        key: text("key"),
        version: text("body").parse().unwrap(),
    }
}
