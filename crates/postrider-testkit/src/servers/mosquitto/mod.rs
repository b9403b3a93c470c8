//! Mosquitto, a broker for MQTT, on loopback: one that a test process shares, or private ones that a test controls.
//!
//! If a broker cannot be started, a line `SKIPPED: mosquitto: reason` is printed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::account::Account;
use super::certificate::Certificate;
use super::keeper::Keeper;
use super::server_folder::ServerFolder;
use super::{cache, free_port, python, skipped};

const SCRIPT: &str = include_str!("client.py");
/// The name that `xtask` gives to its download.
const CLIENT: &str = "paho-mqtt-2.2.0";
/// The last line of the log of a start.
const READY: &str = "running";

/// A user that may use all topics.
pub const USER: &str = "postrider";
/// A user that may publish to topics below `allowed/`.
pub const USER_WITH_FEW_RIGHTS: &str = "stranger";
/// The password of both users.
pub const PASSWORD: &str = "not-a-secret";

/// The broker of this test process, started at the first call. If it cannot be started, prints why and returns `None`.
/// Do not stop it: other tests use it.
pub fn shared() -> Option<&'static Mosquitto> {
    static BROKER: OnceLock<Option<Mosquitto>> = OnceLock::new();
    BROKER.get_or_init(Mosquitto::private).as_ref()
}

/// A running broker. It is removed when this value is dropped, or when the process ends in any way.
#[derive(Debug)]
pub struct Mosquitto {
    packages: PathBuf,
    certificate: Certificate,
    ports: [u16; 3],
    keeper: Mutex<Keeper>,
}

/// A listener of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// No password and no encryption; all topics.
    Plain,
    /// With a password.
    Password,
    /// With encryption and a password.
    Tls,
}

/// A message as the client in Python receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Its topic.
    pub topic: String,
    /// Its payload.
    pub payload: Vec<u8>,
    /// Its content type.
    pub content_type: String,
    /// Its user properties, in their order.
    pub properties: Vec<(String, String)>,
}

impl Mosquitto {
    /// Starts a private broker. If it cannot be started, prints why and returns `None`.
    pub fn private() -> Option<Self> {
        Self::with("")
    }

    /// Starts a private broker with further lines of its configuration. Those of listeners apply to [`Listener::Plain`].
    pub fn with(lines: &str) -> Option<Self> {
        // The second try has other ports: another process may take one between its choice and the start.
        Self::set_up(lines)
            .or_else(|_| Self::set_up(lines))
            .inspect_err(|reason| skipped("mosquitto", reason))
            .ok()
    }

    fn set_up(lines: &str) -> Result<Self, String> {
        let folders =
            ["/usr/sbin", "/usr/bin", "/usr/local/sbin"].map(|folder| Path::new(folder).join("mosquitto"));
        let program = folders.into_iter().find(|program| program.exists());
        let program = program.ok_or("no mosquitto: run `cargo run -p xtask -- servers`")?;
        let packages = cache().join(CLIENT);
        if !packages.exists() {
            return Err(format!("no {}: run `cargo run -p xtask -- servers`", packages.display()));
        }
        let folder = ServerFolder::new("mosquitto", Account::unprivileged()?)?;
        let ports = [free_port()?, free_port()?, free_port()?];
        let certificate = prepare(&folder, ports, lines).inspect_err(|_| folder.remove())?;
        let mut server = folder.account.command(&program);
        server.arg("-c").arg(folder.path.join("mosquitto.conf"));
        let keeper = Keeper::new(&folder.path, &server, "KILL").inspect_err(|_| folder.remove())?;
        let broker = Self { packages, certificate, ports, keeper: Mutex::new(keeper) };
        broker.try_start()?;
        Ok(broker)
    }

    /// The port of a listener.
    pub fn port(&self, listener: Listener) -> u16 {
        let [plain, password, tls] = self.ports;
        match listener {
            Listener::Plain => plain,
            Listener::Password => password,
            Listener::Tls => tls,
        }
    }

    /// `host:port` of a listener.
    pub fn address(&self, listener: Listener) -> String {
        format!("127.0.0.1:{}", self.port(listener))
    }

    /// The root certificate for TLS.
    pub fn certificate(&self) -> PathBuf {
        self.certificate.authority.clone()
    }

    /// Starts it again with the same data and ports.
    ///
    /// # Panics
    /// If it does not start.
    #[allow(clippy::panic, reason = "a test that cannot go on fails")]
    pub fn start(&self) {
        if let Err(reason) = self.try_start() {
            panic!("mosquitto did not start again: {reason}");
        }
    }

    fn try_start(&self) -> Result<(), String> {
        self.keeper().start(READY)
    }

    /// Stops it cleanly. It then writes its sessions and messages to disk. Returns when it has ended.
    pub fn stop(&self) {
        self.end("TERM");
    }

    /// Kills it with `kill -9`: messages since its last save are lost. Returns when it has ended.
    pub fn kill(&self) {
        self.end("KILL");
    }

    /// Suspends it: connections stay open and get no response.
    pub fn pause(&self) {
        _ = self.keeper().pause();
    }

    /// Resumes it.
    pub fn resume(&self) {
        _ = self.keeper().signal("CONT");
    }

    fn end(&self, signal: &str) {
        let mut keeper = self.keeper();
        if keeper.pid.is_some() {
            // A suspended server cannot stop.
            _ = keeper.signal(signal).and(keeper.signal("CONT")).and(keeper.wait());
        }
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder of the Python client, for `PYTHONPATH`.
    pub fn packages(&self) -> &Path {
        &self.packages
    }

    /// Creates a session that stays when its client disconnects, and subscribes it with QoS 2. From then on the broker keeps
    /// messages of these topics for it.
    pub fn subscribe(&self, session: &str, filter: &str) {
        self.python(&["subscribe", session, filter]);
    }

    /// Receives what the broker has kept for a session, in its order. The messages are then gone.
    pub fn receive(&self, session: &str) -> Vec<Received> {
        self.python(&["receive", session]).lines().map(received).collect()
    }

    #[allow(clippy::panic, reason = "a test that cannot go on fails")]
    fn python(&self, arguments: &[&str]) -> String {
        let port = self.port(Listener::Plain).to_string();
        let answer = python::answer(SCRIPT, &self.packages, &[&[&*port], arguments].concat());
        answer.unwrap_or_else(|reason| panic!("python {arguments:?}: {reason}"))
    }
}

/// Writes the configuration, users, rights and certificate.
fn prepare(folder: &ServerFolder, ports: [u16; 3], lines: &str) -> Result<Certificate, String> {
    let certificate = Certificate::make(&folder.path)?;
    let file = |name: &str| folder.path.join(name);
    let write = |name: &str, text: String| {
        std::fs::write(file(name), text).map_err(|e| format!("{name} cannot be written: {e}"))
    };
    let [plain, password, tls] = ports;
    let at = folder.path.display();
    let secure = format!("allow_anonymous false\npassword_file {at}/users\nacl_file {at}/rights\n");
    write(
        "mosquitto.conf",
        format!(
            "per_listener_settings true\npersistence true\npersistence_location {at}/data/\nmax_queued_messages 0\n\
             log_dest stderr\n\
             listener {plain} 127.0.0.1\nallow_anonymous true\n{lines}\n\
             listener {password} 127.0.0.1\n{secure}\
             listener {tls} 127.0.0.1\n{secure}cafile {at}/authority.pem\ncertfile {at}/server.pem\nkeyfile {at}/server.key\n"
        ),
    )?;
    write("users", format!("{USER}:{PASSWORD}\n{USER_WITH_FEW_RIGHTS}:{PASSWORD}\n"))?;
    write(
        "rights",
        format!("user {USER}\ntopic readwrite #\nuser {USER_WITH_FEW_RIGHTS}\ntopic write allowed/#\n"),
    )?;
    let hashed = Command::new("mosquitto_passwd").arg("-U").arg(file("users")).stdin(Stdio::null()).status();
    if !hashed.is_ok_and(|status| status.success()) {
        return Err("mosquitto_passwd failed".to_owned());
    }
    std::fs::create_dir(folder.data()).map_err(|e| format!("no folder for the data: {e}"))?;
    for name in ["data", "users", "rights", "authority.pem", "server.pem", "server.key"] {
        folder.account.give(&file(name))?;
    }
    Ok(certificate)
}

/// Topic, payload, content type, then name and value of each property.
fn received(line: &str) -> Received {
    let fields = python::fields(line);
    let (head, rest) = fields.split_at(3.min(fields.len()));
    let text = |at: usize| head.get(at).map(|field| python::text(field)).unwrap_or_default();
    let property = |pair: &[Vec<u8>]| (python::text(&pair[0]), python::text(&pair[1]));
    Received {
        topic: text(0),
        payload: head.get(1).cloned().unwrap_or_default(),
        content_type: text(2),
        properties: rest.chunks_exact(2).map(property).collect(),
    }
}

impl Received {
    /// The value of a user property, by its exact name.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }
}
