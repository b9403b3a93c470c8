//! RabbitMQ on loopback, with one node: one server that a test process shares, or private ones that a test controls.
//!
//! The system's package manager installs it; `cargo run -p xtask -- servers` does that on Debian. If a server cannot be
//! started, a line `SKIPPED: rabbitmq: reason` is printed.

mod client;
mod settings;

pub use client::Delivery;
pub use settings::{PASSWORD, USER, USER_WITHOUT_RIGHTS};

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use settings::Ports;

use super::account::Account;
use super::certificate::Certificate;
use super::keeper::Keeper;
use super::server_folder::{ServerFolder, cache};
use super::skipped;

/// The name that `xtask` gives to the Python client.
const CLIENT: &str = "pika-1.4.4";

/// The line of its log that reports that it is ready.
const READY: &str = "Server startup complete";

/// The script that becomes the server process; the one in `/usr/sbin` changes the account.
const PROGRAMS: [&str; 2] = ["/usr/lib/rabbitmq/bin/rabbitmq-server", "/usr/local/sbin/rabbitmq-server"];

/// Starts the name server of Erlang, which the server needs, and the server. The name server ends when the folder is
/// removed. A restart finds the first one.
const START: &str = r#"
folder=$1 port=$2; shift 2
(
    epmd -port "$port" -address 127.0.0.1 & epmd=$!
    while [ -d "$folder" ] && kill -0 "$epmd"; do sleep 0.5; done
    kill "$epmd"
) </dev/null >/dev/null 2>&1 &
exec "$@"
"#;

/// The server of this test process, started at the first call. If it cannot be started, prints why and returns `None`.
/// Do not stop it: other tests use it.
pub fn shared() -> Option<&'static RabbitMq> {
    static SERVER: OnceLock<Option<RabbitMq>> = OnceLock::new();
    SERVER.get_or_init(RabbitMq::private).as_ref()
}

/// A running server. It is removed when this value is dropped, or when the process ends in any way.
#[derive(Debug)]
pub struct RabbitMq {
    folder: ServerFolder,
    certificate: Certificate,
    packages: PathBuf,
    ports: Ports,
    keeper: Mutex<Keeper>,
}

impl RabbitMq {
    /// Starts a private server. If it cannot be started, prints why and returns `None`.
    pub fn private() -> Option<Self> {
        // The second try has other ports: another process may take one between its choice and the start.
        Self::set_up().or_else(|_| Self::set_up()).inspect_err(|reason| skipped("rabbitmq", reason)).ok()
    }

    fn set_up() -> Result<Self, String> {
        let program = PROGRAMS.iter().map(Path::new).find(|program| program.exists());
        let program = program.ok_or("no rabbitmq-server: run `cargo run -p xtask -- servers`")?;
        let packages = cache().join(CLIENT);
        if !packages.exists() {
            return Err(format!("no {}: run `cargo run -p xtask -- servers`", packages.display()));
        }
        let folder = ServerFolder::new("rabbitmq", Account::unprivileged()?)?;
        let ports = Ports::free()?;
        let prepared = Certificate::make(&folder.path).and_then(|certificate| {
            settings::write(&folder, &certificate, &ports, None)?;
            let files = [&certificate.authority, &certificate.certificate, &certificate.key];
            files.into_iter().try_for_each(|file| folder.account.give(file))?;
            Ok(certificate)
        });
        let certificate = prepared.inspect_err(|_| folder.remove())?;
        let keeper = Keeper::new(&folder.path, &command(&folder, program, &ports), "KILL")?;
        let server = Self { folder, certificate, packages, ports, keeper: Mutex::new(keeper) };
        server.keeper().start(READY)?;
        Ok(server)
    }

    /// The URL without encryption, with a user who has all permissions.
    pub fn url(&self) -> String {
        self.url_at(self.port())
    }

    /// The same, at another port of loopback, such as that of a proxy.
    pub fn url_at(&self, port: u16) -> String {
        format!("amqp://{USER}:{PASSWORD}@127.0.0.1:{port}")
    }

    /// The URL with encryption, without a user.
    pub fn tls_url(&self) -> String {
        format!("amqps://127.0.0.1:{}", self.ports.tls)
    }

    /// The port without encryption.
    pub fn port(&self) -> u16 {
        self.ports.plain
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
    pub fn start(&self) {
        must(self.keeper().start(READY));
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

    /// Restarts it with a disk that counts as full (`true`), so that it blocks publishers, or with the usual limit.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart_with_full_disk(&self, is_full: bool) {
        self.stop();
        let limit = is_full.then_some("1000000GB");
        must(settings::write(&self.folder, &self.certificate, &self.ports, limit));
        self.start();
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

fn command(folder: &ServerFolder, program: &Path, ports: &Ports) -> Command {
    let mut command = folder.account.command(Path::new("env"));
    command.args(settings::environment(&folder.path, ports));
    command.args(["sh", "-c", START, "rabbitmq"]).arg(&folder.path);
    command.arg(ports.names.to_string()).arg(program);
    command
}

#[allow(clippy::panic, reason = "a test that cannot go on fails")]
fn must(done: Result<(), String>) {
    if let Err(reason) = done {
        panic!("rabbitmq: {reason}");
    }
}
