//! The server's settings, ports, users and certificate.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::free_port;
use super::installed::run;

/// A user with all permissions, for `PLAIN` and `SCRAM-SHA-256`.
pub const USER: &str = "postrider";
/// A user without permissions, for `PLAIN`.
pub const USER_WITHOUT_RIGHTS: &str = "stranger";
/// The password of both users.
pub const PASSWORD: &str = "not-a-secret";

/// A listener of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// No password and no encryption; all permissions.
    Plain,
    /// Password, no encryption.
    Sasl,
    /// Encryption, no password; all permissions.
    Tls,
    /// Encryption and password.
    SaslTls,
    /// As [`Listener::Plain`], but it advertises the proxy of [`Kafka::behind`](super::Kafka::behind) to clients.
    Proxied,
}

#[derive(Debug)]
pub(super) struct Ports {
    listeners: [u16; 4],
    controller: u16,
    proxied: Option<Proxied>,
}

/// A listener that clients reach through a proxy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Proxied {
    /// The port that the server listens on.
    pub(super) listens: u16,
    /// The address that the broker advertises to clients.
    pub(super) advertises: u16,
}

impl Ports {
    /// Finds free ports, all different, outside the range of outgoing connections, so that they stay free while the
    /// server is stopped.
    pub(super) fn free(proxied: Option<Proxied>) -> Result<Self, String> {
        let mut ports: Vec<u16> = Vec::new();
        while ports.len() < 5 {
            let port = free_port()?;
            if !ports.contains(&port) && proxied.is_none_or(|proxied| proxied.listens != port) {
                ports.push(port);
            }
        }
        match ports[..] {
            [plain, sasl, tls, sasl_tls, controller] => {
                Ok(Self { listeners: [plain, sasl, tls, sasl_tls], controller, proxied })
            }
            _ => Err("no free ports".to_owned()),
        }
    }

    /// The port for clients.
    pub(super) fn of(&self, listener: Listener) -> u16 {
        let [plain, sasl, tls, sasl_tls] = self.listeners;
        match listener {
            Listener::Plain => plain,
            Listener::Sasl => sasl,
            Listener::Tls => tls,
            Listener::SaslTls => sasl_tls,
            Listener::Proxied => self.proxied.map_or(plain, |proxied| proxied.advertises),
        }
    }
}

pub(super) fn certificate(folder: &Path) -> PathBuf {
    folder.join("certificate.pem")
}

/// Writes the settings and a self-signed certificate for 127.0.0.1.
pub(super) fn write(folder: &Path, ports: &Ports) -> Result<(), String> {
    let (key, certificate) = (folder.join("key.pem"), certificate(folder));
    let mut request = Command::new("openssl");
    request.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]);
    request.args(["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]);
    run(request.arg("-keyout").arg(&key).arg("-out").arg(&certificate))?;
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    let both = read(&key)? + &read(&certificate)?;
    let written = std::fs::write(folder.join("both.pem"), both)
        .and_then(|()| std::fs::write(folder.join("server.properties"), text(folder, ports)));
    written.map_err(|e| format!("cannot write the server's settings: {e}"))
}

fn text(folder: &Path, ports: &Ports) -> String {
    let [plain, sasl, tls, sasl_tls] = ports.listeners;
    let controller = ports.controller;
    let folder = folder.display();
    let clients = format!(
        "PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl},SSL://127.0.0.1:{tls},\
         SASL_SSL://127.0.0.1:{sasl_tls}"
    );
    let proxied = |port: fn(Proxied) -> u16| {
        ports.proxied.map(|proxied| format!(",PROXIED://127.0.0.1:{}", port(proxied))).unwrap_or_default()
    };
    let (listens, advertises) = (proxied(|ports| ports.listens), proxied(|ports| ports.advertises));
    let login = |listener: &str| {
        let users: String =
            [USER, USER_WITHOUT_RIGHTS].map(|user| format!(" user_{user}=\"{PASSWORD}\"")).concat();
        format!(
            "listener.name.{listener}.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256\n\
             listener.name.{listener}.plain.sasl.jaas.config=\
             org.apache.kafka.common.security.plain.PlainLoginModule required{users};\n\
             listener.name.{listener}.scram-sha-256.sasl.jaas.config=\
             org.apache.kafka.common.security.scram.ScramLoginModule required;\n"
        )
    };
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listeners={clients}{listens},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={clients}{advertises}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL
{}{}ssl.keystore.type=PEM
ssl.keystore.location={folder}/both.pem
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:{USER}
log.dirs={folder}/data
num.partitions=3
num.network.threads=1
num.io.threads=4
log.cleaner.dedupe.buffer.size=2097152
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=200
broker.session.timeout.ms=3000
",
        login("sasl_plaintext"),
        login("sasl_ssl"),
    )
}
