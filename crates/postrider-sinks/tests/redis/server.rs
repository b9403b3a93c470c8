//! What the sink reports about the settings of its server.

use postrider_sinks::redis::{Redis as RedisSink, RedisConfig};
use postrider_testkit::servers::redis::{PASSWORD, Redis, USER_WITH_FEW_RIGHTS};

use super::stream::config;

async fn weaknesses(redis: &Redis) -> String {
    let server = RedisSink::open(&config(redis)).unwrap().server().await.unwrap();
    assert!(server.knows_durability());
    let found: Vec<String> = server.weaknesses().iter().map(ToString::to_string).collect();
    found.join("\n")
}

#[tokio::test]
async fn the_durability_that_the_settings_of_the_server_give_is_reported() {
    let Some(redis) = Redis::private() else { return };
    for (setting, value, expected) in [
        ("appendfsync", "always", ""),
        ("appendfsync", "everysec", "two seconds"),
        ("appendfsync", "no", "30 seconds"),
        ("appendonly", "no", "loses all streams"),
        ("save", "3600 1", "last snapshot"),
    ] {
        redis.command(&["CONFIG", "SET", setting, value]);
        let found = weaknesses(&redis).await;
        assert!(
            found.contains(expected) && found.is_empty() == expected.is_empty(),
            "{setting} {value}: {found}"
        );
    }
    redis.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    redis.command(&["CONFIG", "SET", "maxmemory", "1gb"]);
    assert!(weaknesses(&redis).await.contains("deletes whole streams"));
    redis.command(&["REPLICAOF", "127.0.0.1", "1"]);
    assert!(weaknesses(&redis).await.contains("is a replica"));
}

#[tokio::test]
async fn a_user_without_the_right_to_read_settings_gets_no_wrong_answer() {
    let Some(redis) = Redis::private() else { return };
    let config = RedisConfig::new(redis.address()).user(USER_WITH_FEW_RIGHTS, PASSWORD);
    let server = RedisSink::open(&config).unwrap().server().await.unwrap();
    assert!(!server.knows_durability() && server.weaknesses().is_empty(), "{server:?}");
    let wrong = RedisConfig::new("127.0.0.1:1");
    let error = RedisSink::open(&wrong).unwrap().server().await.unwrap_err().report();
    assert!(error.contains("redis 127.0.0.1:1"), "{error}");
}
