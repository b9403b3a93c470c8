//! The example programs as child processes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Path of an example's program; `cargo test` builds them next to the tests.
pub(crate) fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap().join("examples");
    folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// A relay in its own process; killed when dropped.
pub(crate) struct RelayProcess(Child);

impl RelayProcess {
    /// The database is the path of a SQLite file or the URL of a server.
    pub(crate) fn start(database: impl AsRef<OsStr>, output: &Path, lease_ms: u64, window: usize) -> Self {
        Self::start_with(database, output, lease_ms, 50, window)
    }

    pub(crate) fn start_with(
        database: impl AsRef<OsStr>,
        output: &Path,
        lease_ms: u64,
        flush_ms: u64,
        window: usize,
    ) -> Self {
        let child = Command::new(program("relay"))
            .args([database.as_ref(), output.as_os_str()])
            .env("LEASE_MS", lease_ms.to_string())
            .env("FLUSH_MS", flush_ms.to_string())
            .env("WINDOW", window.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("the example `relay` is built"))
    }

    /// Sends a signal by name: `STOP`, `CONT`, `INT`, `KILL`.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status().unwrap();
        assert!(sent.success(), "kill -s {signal}");
    }

    /// Kills it with `kill -9`. Returns when it has ended.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Interrupts it and waits until it has shut down cleanly.
    pub(crate) fn shut_down(mut self) {
        self.signal("INT");
        assert!(self.0.wait().unwrap().success(), "the relay shut down with an error");
    }
}

impl Drop for RelayProcess {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}
