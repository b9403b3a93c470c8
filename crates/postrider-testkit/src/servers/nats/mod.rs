//! NATS with JetStream on loopback, with one server: one that a test process shares, or private ones that a test
//! controls.
//!
//! `cargo run -p xtask -- servers` downloads it. If a server cannot be started, a line `SKIPPED: nats: reason` is
//! printed.

mod client;

pub use client::Stored;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::account::Account;
use super::certificate::Certificate;
use super::keeper::Keeper;
use super::server_folder::{ServerFolder, cache};
use super::{free_port, skipped};

/// The name that `xtask` gives to its download: the server and a Python client.
const NATS: &str = "nats-2.15.1";

/// The line of its log that reports that it is ready.
const READY: &str = "Server is ready";

/// A user with all permissions.
pub const USER: &str = "postrider";
/// A user who may only publish to subjects that begin with `allowed.`.
pub const USER_WITHOUT_RIGHTS: &str = "stranger";
/// The password of both users.
pub const PASSWORD: &str = "not-a-secret";

/// The server of this test process, started at the first call. If it cannot be started, prints why and returns `None`.
/// Do not stop it: other tests use it.
pub fn shared() -> Option<&'static Nats> {
    static SERVER: OnceLock<Option<Nats>> = OnceLock::new();
    SERVER.get_or_init(Nats::private).as_ref()
}

/// A running server. It is removed when this value is dropped, or when the process ends in any way.
#[derive(Debug)]
pub struct Nats {
    certificate: Certificate,
    packages: PathBuf,
    port: u16,
    monitoring: u16,
    keeper: Mutex<Keeper>,
}

impl Nats {
    /// Starts a private server, which syncs as it does by default. If it cannot be started, prints why and returns
    /// `None`.
    pub fn private() -> Option<Self> {
        Self::started("2m")
    }

    /// The same, but it syncs every message before it acknowledges it.
    pub fn that_syncs() -> Option<Self> {
        Self::started("always")
    }

    fn started(sync: &str) -> Option<Self> {
        // The second try has other ports: another process may take one between its choice and the start.
        Self::set_up(sync).or_else(|_| Self::set_up(sync)).inspect_err(|reason| skipped("nats", reason)).ok()
    }

    fn set_up(sync: &str) -> Result<Self, String> {
        let packages = cache().join(NATS);
        let program = packages.join("bin/nats-server");
        if !program.exists() {
            return Err(format!("no {}: run `cargo run -p xtask -- servers`", program.display()));
        }
        let folder = ServerFolder::new("nats", Account::unprivileged()?)?;
        let (port, monitoring) = (free_port()?, free_port()?);
        let prepared = Certificate::make(&folder.path).and_then(|certificate| {
            let file = folder.path.join("nats.conf");
            let text = settings(&folder.path, &certificate, [port, monitoring], sync);
            std::fs::write(&file, text).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
            let files = [&file, &certificate.authority, &certificate.certificate, &certificate.key];
            files.into_iter().try_for_each(|file| folder.account.give(file))?;
            Ok((certificate, file))
        });
        let (certificate, file) = prepared.inspect_err(|_| folder.remove())?;
        let mut command = folder.account.command(&program);
        command.arg("-c").arg(file);
        let keeper = Keeper::new(&folder.path, &command, "KILL")?;
        let server = Self { certificate, packages, port, monitoring, keeper: Mutex::new(keeper) };
        server.keeper().start(READY)?;
        Ok(server)
    }

    /// The URL, with a user who has all permissions.
    pub fn url(&self) -> String {
        self.url_at(self.port)
    }

    /// The same, at another port of loopback, such as that of a proxy.
    pub fn url_at(&self, port: u16) -> String {
        format!("nats://{USER}:{PASSWORD}@127.0.0.1:{port}")
    }

    /// The port for clients. TLS is possible and not required.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of its monitoring, over HTTP.
    pub fn monitoring_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.monitoring)
    }

    /// The certificate authority of the server's certificate.
    pub fn authority(&self) -> &Path {
        &self.certificate.authority
    }

    /// The folder of the Python client, for `PYTHONPATH`.
    pub fn packages(&self) -> &Path {
        &self.packages
    }

    /// Starts it again with the same data and ports, and waits until it is ready.
    ///
    /// # Panics
    /// If it does not start.
    #[allow(clippy::panic, reason = "a test that cannot go on fails")]
    pub fn start(&self) {
        if let Err(reason) = self.keeper().start(READY) {
            panic!("nats did not start again: {reason}");
        }
    }

    /// Stops it cleanly. Returns when it has ended.
    pub fn stop(&self) {
        self.end("TERM");
    }

    /// Kills it with `kill -9`. Returns when it has ended.
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
}

fn settings(folder: &Path, certificate: &Certificate, [port, monitoring]: [u16; 2], sync: &str) -> String {
    let Certificate { certificate, key, .. } = certificate;
    format!(
        "listen: \"127.0.0.1:{port}\"
http: \"127.0.0.1:{monitoring}\"
jetstream {{ store_dir: \"{}/data\", sync_interval: {sync} }}
tls {{ cert_file: \"{}\", key_file: \"{}\" }}
allow_non_tls: true
authorization {{
    users: [
        {{ user: {USER}, password: \"{PASSWORD}\" }},
        {{ user: {USER_WITHOUT_RIGHTS}, password: \"{PASSWORD}\",
          permissions: {{ publish: [\"allowed.>\", \"$JS.API.STREAM.INFO.*\"], subscribe: \"_INBOX.>\" }} }}
    ]
}}
",
        folder.display(),
        certificate.display(),
        key.display()
    )
}
