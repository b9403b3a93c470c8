//! Apache Kafka on loopback, with one node: one server that a test process shares, or private ones that a test
//! controls.
//!
//! `cargo run -p xtask -- servers` downloads the jars. If a server cannot be started, a line `SKIPPED: kafka: reason`
//! is printed. It creates topics on demand, which is Kafka's default.

mod client;
mod installed;
mod process;
mod settings;

pub use client::{Isolation, Record};
pub(super) use installed::JVM;
pub use settings::{Listener, PASSWORD, USER, USER_WITHOUT_RIGHTS};

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use installed::Installed;
use settings::{Ports, Proxied};

use super::keeper::Keeper;
use super::skipped;

/// The server of this test process, started at the first call. If it cannot be started, prints why and returns `None`.
/// Do not stop it: other tests use it.
pub fn shared() -> Option<&'static Kafka> {
    static SERVER: OnceLock<Option<Kafka>> = OnceLock::new();
    SERVER.get_or_init(Kafka::private).as_ref()
}

/// A running server. It is removed when this value is dropped, or when the process ends in any way.
#[derive(Debug)]
pub struct Kafka {
    installed: Installed,
    folder: PathBuf,
    ports: Ports,
    keeper: Mutex<Keeper>,
}

impl Kafka {
    /// Starts a private server. If it cannot be started, prints why and returns `None`.
    pub fn private() -> Option<Self> {
        Self::started(None)
    }

    /// Starts a server with an additional listener, which advertises the port of a proxy to its clients:
    /// [`Listener::Proxied`]. Both ports are on loopback. If it cannot be started, prints why and returns `None`.
    pub fn behind(listens: u16, proxy: u16) -> Option<Self> {
        Self::started(Some(Proxied { listens, advertises: proxy }))
    }

    fn started(proxied: Option<Proxied>) -> Option<Self> {
        // The second try has other ports: another process may take one between its choice and the start.
        Self::set_up(proxied)
            .or_else(|_| Self::set_up(proxied))
            .inspect_err(|reason| skipped("kafka", reason))
            .ok()
    }

    fn set_up(proxied: Option<Proxied>) -> Result<Self, String> {
        let installed = Installed::find()?;
        let folder = installed.new_folder()?;
        let ports = Ports::free(proxied)?;
        let prepared = settings::write(&folder, &ports)
            .and_then(|()| installed.format(&folder))
            .and_then(|()| installed.give(&folder));
        // From here on, the keeper removes it.
        prepared.inspect_err(|_| _ = std::fs::remove_dir_all(&folder))?;
        let keeper = Mutex::new(Keeper::new(&folder, &installed.server(&folder), "KILL")?);
        let server = Self { installed, folder, ports, keeper };
        server.try_start()?;
        Ok(server)
    }

    /// The address for clients without password and encryption: `bootstrap.servers`.
    pub fn brokers(&self) -> String {
        self.brokers_of(Listener::Plain)
    }

    /// The address of another listener.
    pub fn brokers_of(&self, listener: Listener) -> String {
        format!("127.0.0.1:{}", self.ports.of(listener))
    }

    /// The root certificate of the listeners with TLS.
    pub fn certificate(&self) -> PathBuf {
        settings::certificate(&self.folder)
    }

    /// Starts it again with the same data and ports, and waits until it answers.
    ///
    /// # Panics
    /// If it does not start.
    #[allow(clippy::panic, reason = "a test that cannot go on fails")]
    pub fn start(&self) {
        if let Err(reason) = self.try_start() {
            panic!("kafka did not start again: {reason}");
        }
    }

    fn try_start(&self) -> Result<(), String> {
        let port = self.ports.of(Listener::Plain);
        self.keeper().start_until(|_| process::answers(port))
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

    /// The peak memory usage of the running server, in bytes.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.keeper().pid.and_then(process::memory_bytes)
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
        &self.installed.packages
    }
}
