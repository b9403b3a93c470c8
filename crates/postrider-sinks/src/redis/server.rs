//! What the settings of the server mean for events that it has acknowledged.

use std::collections::HashMap;
use std::fmt;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};

/// Streams exist since this version.
const VERSION_MIN: u32 = 5;
/// With a smaller limit the server refuses events of the default `message_max`.
const BULK_BYTES_MIN: u64 = 8 * 1024 * 1024;

/// The settings and the state of a server, as far as this user may read them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Server {
    info: HashMap<String, String>,
    settings: HashMap<String, String>,
}

/// A setting with which an acknowledged event can be lost, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Weakness {
    /// What the setting is, and what it means.
    pub what: String,
    /// Nothing can be added at all.
    pub is_fatal: bool,
}

impl Server {
    /// Reads them. Settings that this user may not read stay unknown.
    pub(super) async fn read(connection: &mut MultiplexedConnection) -> Result<Self, RedisError> {
        let mut server = Self::default();
        let mut answered = connection.send_packed_command(&redis::cmd("PING")).await;
        if let Ok(Value::ServerError(error)) = answered {
            answered = Err(error.into());
        }
        answered?;
        let info = connection.send_packed_command(&redis::cmd("INFO")).await?;
        if let Some(text) = text(info) {
            let lines = text.lines().filter_map(|line| line.split_once(':'));
            server.info = lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
        }
        for name in
            ["appendonly", "appendfsync", "save", "maxmemory-policy", "maxmemory", "proto-max-bulk-len"]
        {
            let mut get = redis::cmd("CONFIG");
            let value = connection.send_packed_command(get.arg("GET").arg(name)).await?;
            if let Value::Array(pair) = value
                && let Some(value) = pair.into_iter().nth(1).and_then(text)
            {
                server.settings.insert(name.to_owned(), value);
            }
        }
        Ok(server)
    }

    /// Settings with which acknowledged events can be lost, or nothing can be added.
    pub fn weaknesses(&self) -> Vec<Weakness> {
        let mut found = Vec::new();
        let mut add = |is_fatal: bool, what: &str| found.push(Weakness { what: what.to_owned(), is_fatal });
        let info = |name: &str| self.info.get(name).map(String::as_str);
        let setting = |name: &str| self.settings.get(name).map(String::as_str);
        let version =
            info("redis_version").and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        if version.is_some_and(|version| version < VERSION_MIN) {
            add(true, "the server is older than Redis 5, which added streams");
        }
        if info("role") == Some("slave") {
            add(true, "the server is a replica, which does not accept writes: connect to the primary");
        }
        if info("cluster_enabled") == Some("1") {
            add(true, "the server belongs to a Redis Cluster, which is not supported");
        }
        match (setting("appendonly"), setting("appendfsync")) {
            (Some("no"), _) if setting("save").is_none_or(str::is_empty) => add(
                false,
                "appendonly is no and there are no snapshots: a restart of the server loses all streams; set appendonly yes",
            ),
            (Some("no"), _) => add(
                false,
                "appendonly is no: a crash loses the events since the last snapshot; set appendonly yes",
            ),
            (Some("yes"), Some("no")) => add(
                false,
                "appendfsync is no: a power failure loses what the operating system had not written, often 30 seconds; set appendfsync everysec or always",
            ),
            (Some("yes"), Some("everysec")) => add(
                false,
                "appendfsync is everysec: a power failure loses up to two seconds of acknowledged events; set appendfsync always if that is too much",
            ),
            _ => {}
        }
        if setting("maxmemory-policy").is_some_and(|policy| policy.starts_with("allkeys"))
            && setting("maxmemory") != Some("0")
        {
            add(
                false,
                "maxmemory-policy is allkeys-*: a full server deletes whole streams; set it to noeviction",
            );
        }
        if info("aof_last_write_status").is_some_and(|status| status != "ok") {
            add(true, "the last write to the append-only file failed: check the disk of the server");
        }
        let bulk = setting("proto-max-bulk-len").and_then(|value| value.parse::<u64>().ok());
        if bulk.is_some_and(|bulk| bulk < BULK_BYTES_MIN) {
            add(
                false,
                "proto-max-bulk-len is below 8 MiB: the server closes the connection of larger events; set `message_max` below it",
            );
        }
        found
    }

    /// Whether this user may read the settings for durability.
    pub fn knows_durability(&self) -> bool {
        self.settings.contains_key("appendonly")
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = "unknown (no right to CONFIG GET)";
        let setting = |name: &str| self.settings.get(name).map_or(unknown, String::as_str);
        write!(f, "Redis {}", self.info.get("redis_version").map_or("of unknown version", String::as_str))?;
        write!(f, ", appendonly {}", setting("appendonly"))?;
        if setting("appendonly") == "yes" {
            write!(f, ", appendfsync {}", setting("appendfsync"))?;
        }
        let replicas = self.info.get("connected_slaves").map_or("an unknown number of", String::as_str);
        write!(f, ", {replicas} replica(s)")
    }
}

impl fmt::Display for Weakness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(settings: &[(&str, &str)], info: &[(&str, &str)]) -> Server {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        Server { info: map(info), settings: map(settings) }
    }

    #[test]
    fn settings_that_lose_events_are_named() {
        let safe = [("appendonly", "yes"), ("appendfsync", "always"), ("maxmemory-policy", "noeviction")];
        assert_eq!(server(&safe, &[("role", "master")]).weaknesses(), []);
        for (settings, info, expected, is_fatal) in [
            (&[("appendonly", "no"), ("save", "")][..], &[][..], "loses all streams", false),
            (&[("appendonly", "no"), ("save", "3600 1")], &[], "last snapshot", false),
            (&[("appendonly", "yes"), ("appendfsync", "no")], &[], "30 seconds", false),
            (&[("appendonly", "yes"), ("appendfsync", "everysec")], &[], "two seconds", false),
            (
                &[("maxmemory-policy", "allkeys-lru"), ("maxmemory", "100")],
                &[],
                "deletes whole streams",
                false,
            ),
            (&[("proto-max-bulk-len", "1048576")], &[], "message_max", false),
            (&[], &[("role", "slave")], "replica", true),
            (&[], &[("redis_version", "4.0.14")], "older than Redis 5", true),
            (&[], &[("cluster_enabled", "1")], "Cluster", true),
            (&[], &[("aof_last_write_status", "err")], "disk", true),
        ] {
            let found = server(settings, info).weaknesses();
            let [weakness] = &found[..] else { panic!("{expected}: {found:?}") };
            assert!(weakness.what.contains(expected) && weakness.is_fatal == is_fatal, "{weakness:?}");
        }
    }

    #[test]
    fn what_the_user_may_not_read_is_unknown() {
        let unknown = server(&[], &[]);
        assert!(!unknown.knows_durability() && unknown.weaknesses().is_empty());
        assert!(unknown.to_string().contains("unknown"), "{unknown}");
    }
}
