//! The servers and the stream of a NATS sink.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postrider::sink::{Destinations, Sink};
use postrider::{BoxFuture, Code, Result};
use postrider_sinks::nats::{Login, Nats, NatsConfig, NewStream, Storage, StreamFacts, Tls};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::config::Problem;
use crate::config::settings::ConfigTable;
use crate::doctor::{Check, Subject};
use crate::sinks::{SinkUser, Target};

/// How long the monitoring endpoint may take.
const MONITORING_MAX: Duration = Duration::from_secs(2);

/// The largest answer of the monitoring endpoint that is read.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug, PartialEq)]
struct Stream {
    config: NatsConfig,
    /// Host and port of the monitoring endpoint.
    monitoring: Option<String>,
}

pub(super) fn read(table: &ConfigTable<'_>) -> Result<Arc<dyn Target>, Problem> {
    let url = table.secret("url")?;
    let stream = table.required("stream", table.text("stream")?)?;
    let mut config = NatsConfig::new(table.required("url", url)?.expose_secret(), stream);
    config.subject = table.text("subject")?;
    config.login = login(table)?;
    config.ack_timeout = table.duration("ack_timeout")?;
    config.connection_name = table.required("connection_name", table.text("connection_name")?)?;
    let replicas = table.count("create_replicas")?;
    config.create_stream =
        table.list("create_subjects")?.map(|subjects| NewStream::new(subjects).replicas(replicas));
    config.tls = Tls::default();
    config.tls.is_required = table.bool("tls")?;
    config.tls.ca = table.path("tls_ca")?;
    config.tls.certificate = table.path("tls_certificate")?;
    config.tls.key = table.path("tls_key")?;
    config.check().map_err(|error| table.table_problem(Code::ConfigValue, error.message()))?;
    let monitoring = match table.secret("monitoring")? {
        None => None,
        Some(url) => {
            let host = url.expose_secret().strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
            let host = host.filter(|host| !host.contains(['/', '@', '?', '#']) && host.contains(':'));
            let why = "is not http://HOST:PORT";
            Some(host.ok_or_else(|| table.problem("monitoring", Code::ConfigValue, why))?.to_owned())
        }
    };
    Ok(Arc::new(Stream { config, monitoring }))
}

fn login(table: &ConfigTable<'_>) -> Result<Login, Problem> {
    let secret = |key: &str| Ok(table.secret(key)?.map(|secret| secret.expose_secret().to_owned()));
    let (user, password, token) = (table.text("username")?, secret("password")?, secret("token")?);
    match (user, password, token, secret("nkey_seed")?, table.path("credentials_file")?) {
        (None, None, None, None, None) => Ok(Login::None),
        (Some(user), Some(password), None, None, None) => Ok(Login::Password(user, password)),
        (None, None, Some(token), None, None) => Ok(Login::Token(token)),
        (None, None, None, Some(seed), None) => Ok(Login::NKeySeed(seed)),
        (None, None, None, None, Some(file)) => Ok(Login::CredentialsFile(file)),
        _ => {
            let why = "set one of: username and password, token, nkey_seed, credentials_file";
            Err(table.table_problem(Code::ConfigValue, why))
        }
    }
}

impl Target for Stream {
    fn open(&self, _: &SinkUser<'_>) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(Nats::open(&self.config)?))
    }

    fn destinations(&self) -> Destinations {
        if self.config.subject.is_some() { Destinations::Fixed } else { Destinations::Names }
    }

    /// A batch may also need a new connection, and a question whether the server still answers.
    fn publish_timeout_above(&self) -> Duration {
        self.config.ack_timeout * 2
    }

    /// Connects, and looks at the stream.
    fn check<'a>(&'a self, subject: &'a mut Subject<'_>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let inspected = match Nats::open(&self.config) {
                Ok(sink) => sink.inspect().await,
                Err(error) => Err(error),
            };
            let found = match inspected {
                Ok(found) => found,
                Err(error) => {
                    let what = format!("{self}: {}", error.message());
                    let fix = "check `url` and the login, that the server is running with JetStream, and that its port is reachable from here";
                    return subject.fail_with(Check::SinkReachable, what, fix);
                }
            };
            subject.ok(Check::SinkReachable, format!("{self}, version {}", found.server_version));
            let stream = format!("stream {:?}", self.config.stream);
            match found.stream {
                None if self.config.create_stream.is_some() => {
                    subject.ok(
                        Check::DestinationExists,
                        format!("{stream} does not exist; the relay creates it"),
                    );
                }
                None => subject.fail(Check::DestinationExists, format!("{stream} does not exist")),
                Some(facts) => {
                    let subjects = facts.subjects.join(", ");
                    subject.ok(Check::DestinationExists, format!("{stream} has the subjects {subjects}"));
                    self.check_durability(&stream, &facts, subject).await;
                }
            }
        })
    }
}

impl Stream {
    async fn check_durability(&self, stream: &str, facts: &StreamFacts, subject: &mut Subject<'_>) {
        let check = Check::SinkDurable;
        if facts.never_acknowledges {
            return subject
                .fail(check, format!("{stream} acknowledges nothing (no_ack), so nothing can be delivered"));
        }
        if facts.storage != Storage::File {
            return subject
                .warn(check, format!("{stream} is in memory: a restart of the server loses its events"));
        }
        let replicas = facts.replicas;
        let synced = match &self.monitoring {
            None => Err("the configuration has no `monitoring`".to_owned()),
            Some(host) => match tokio::time::timeout(MONITORING_MAX, syncs(host)).await {
                Ok(answer) => answer,
                Err(_) => Err(format!("{host} does not answer")),
            },
        };
        match synced {
            Ok(true) => subject.ok(check, format!("{stream} is in files on {replicas} server(s), which sync before they acknowledge")),
            Ok(false) => subject.warn(check, format!("{stream}: the server acknowledges before it syncs; a power failure of {replicas} server(s) loses the events since the last sync (set `sync_interval: always`)")),
            Err(why) => subject.warn(check, format!("{stream}: the server may acknowledge before it syncs, as it does by default; not checked: {why}")),
        }
    }
}

/// Whether the server syncs before it acknowledges, according to its monitoring endpoint.
async fn syncs(host: &str) -> Result<bool, String> {
    let failed = |error: std::io::Error| format!("{host}: {error}");
    let mut server = TcpStream::connect(host).await.map_err(failed)?;
    let request = format!("GET /jsz?config=true HTTP/1.0\r\nHost: {host}\r\n\r\n");
    server.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut answer = Vec::new();
    server.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await.map_err(failed)?;
    let start = answer.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |end| end + 4);
    let answer: serde_json::Value = serde_json::from_slice(answer.get(start..).unwrap_or_default())
        .map_err(|_| format!("{host} does not answer as the monitoring of NATS does"))?;
    Ok(answer.pointer("/config/sync_always").and_then(serde_json::Value::as_bool).unwrap_or(false))
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nats {}", self.config.address())
    }
}
