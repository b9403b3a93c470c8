//! Apache Kafka, one node, on loopback: one server shared by a test process, or private ones under control.
//!
//! The jars are where `cargo run -p xtask -- servers` puts them. A server that cannot be had is named on a line
//! `SKIPPED: kafka: reason`. It creates topics that clients ask for, as Kafka does by default.

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

/// The server of this test process, started at the first call; `None`, with a line that says why, if there is
/// none. Do not stop it: other tests use it.
pub fn shared() -> Option<&'static Kafka> {
    static SERVER: OnceLock<Option<Kafka>> = OnceLock::new();
    SERVER.get_or_init(Kafka::private).as_ref()
}

/// A server. It is gone when this is dropped, and when the process ends, however it does.
#[derive(Debug)]
pub struct Kafka {
    installed: Installed,
    folder: PathBuf,
    ports: Ports,
    keeper: Mutex<Keeper>,
}

impl Kafka {
    /// Starts a server of one's own; `None`, with a line that says why, if there is none.
    pub fn private() -> Option<Self> {
        Self::started(None)
    }

    /// Starts a server that also listens at a port for a proxy, and sends its clients there to the proxy's port:
    /// [`Listener::Proxied`]. Both are of loopback. `None`, with a line that says why, if there is none.
    pub fn behind(listens: u16, proxy: u16) -> Option<Self> {
        Self::started(Some(Proxied { listens, advertises: proxy }))
    }

    fn started(proxied: Option<Proxied>) -> Option<Self> {
        Self::set_up(proxied).inspect_err(|reason| skipped("kafka", reason)).ok()
    }

    fn set_up(proxied: Option<Proxied>) -> Result<Self, String> {
        let installed = Installed::find()?;
        let folder = installed.new_folder()?;
        let ports = Ports::free(proxied)?;
        let prepared = settings::write(&folder, &ports)
            .and_then(|()| installed.format(&folder))
            .and_then(|()| installed.give(&folder));
        // From here on its keeper takes it away.
        prepared.inspect_err(|_| _ = std::fs::remove_dir_all(&folder))?;
        let keeper = Mutex::new(Keeper::new(&folder, &installed.server(&folder), "KILL")?);
        let server = Self { installed, folder, ports, keeper };
        server.try_start()?;
        Ok(server)
    }

    /// Where clients connect without a password or encryption: `bootstrap.servers`.
    pub fn brokers(&self) -> String {
        self.brokers_of(Listener::Plain)
    }

    /// Where clients connect in another way.
    pub fn brokers_of(&self, listener: Listener) -> String {
        format!("127.0.0.1:{}", self.ports.of(listener))
    }

    /// The certificate that vouches for the listeners with TLS.
    pub fn certificate(&self) -> PathBuf {
        settings::certificate(&self.folder)
    }

    /// Starts it again, with the data and ports it had, and waits until it answers.
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

    /// Ends it in good order; gone when this returns.
    pub fn stop(&self) {
        self.end("TERM");
    }

    /// `kill -9`; gone when this returns.
    pub fn kill(&self) {
        self.end("KILL");
    }

    /// Suspends it: connections stay open and get no response.
    pub fn pause(&self) {
        _ = self.keeper().pause();
    }

    /// Lets a frozen one go on.
    pub fn resume(&self) {
        _ = self.keeper().signal("CONT");
    }

    /// The most memory the running server has used, in bytes.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.keeper().pid.and_then(process::memory_bytes)
    }

    fn end(&self, signal: &str) {
        let mut keeper = self.keeper();
        if keeper.pid.is_some() {
            // A frozen one could not end.
            _ = keeper.signal(signal).and(keeper.signal("CONT")).and(keeper.wait());
        }
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder of Python's client, for `PYTHONPATH`.
    pub fn packages(&self) -> &Path {
        &self.installed.packages
    }
}
