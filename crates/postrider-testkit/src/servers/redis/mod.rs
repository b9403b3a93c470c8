//! Redis on loopback: one server that a test process shares, or private ones that a test controls.
//!
//! If a server cannot be started, a line `SKIPPED: redis: reason` is printed.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::account::Account;
use super::certificate::Certificate;
use super::keeper::Keeper;
use super::server_folder::ServerFolder;
use super::{cache, free_port, python, skipped};

const SCRIPT: &str = include_str!("client.py");
/// The name that `xtask` gives to its download.
const CLIENT: &str = "redis-py-8.1.0";
const READY: &str = "Ready to accept connections";

/// An ACL user with all permissions.
pub const USER: &str = "postrider";
/// An ACL user that may add to streams whose names begin with `allowed`, with scripts.
pub const USER_WITH_FEW_RIGHTS: &str = "stranger";
/// The password of both users.
pub const PASSWORD: &str = "not-a-secret";

/// The server of this test process, started at the first call. If it cannot be started, prints why and returns `None`.
/// Do not stop it: other tests use it.
pub fn shared() -> Option<&'static Redis> {
    static SERVER: OnceLock<Option<Redis>> = OnceLock::new();
    SERVER.get_or_init(Redis::private).as_ref()
}

/// A running server. It is removed when this value is dropped, or when the process ends in any way.
#[derive(Debug)]
pub struct Redis {
    packages: PathBuf,
    certificate: Certificate,
    port: u16,
    tls_port: u16,
    keeper: Mutex<Keeper>,
}

/// An entry of a stream, as the client in Python reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its id.
    pub id: String,
    /// Names and values, in their order.
    pub fields: Vec<(String, Vec<u8>)>,
}

impl Redis {
    /// Starts a private server. If it cannot be started, prints why and returns `None`.
    pub fn private() -> Option<Self> {
        Self::with(&[])
    }

    /// Starts a private server with further arguments, such as `["--appendonly", "no"]`.
    pub fn with(arguments: &[&str]) -> Option<Self> {
        // The second try has other ports: another process may take one between its choice and the start.
        Self::set_up(arguments)
            .or_else(|_| Self::set_up(arguments))
            .inspect_err(|reason| skipped("redis", reason))
            .ok()
    }

    fn set_up(arguments: &[&str]) -> Result<Self, String> {
        let program = PathBuf::from("redis-server");
        let found = Command::new(&program).arg("--version").stdout(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            return Err("no redis-server: run `cargo run -p xtask -- servers`".to_owned());
        }
        let packages = cache().join(CLIENT);
        if !packages.exists() {
            return Err(format!("no {}: run `cargo run -p xtask -- servers`", packages.display()));
        }
        let folder = ServerFolder::new("redis", Account::unprivileged()?)?;
        let (port, tls_port) = (free_port()?, free_port()?);
        let prepared = (|| {
            let certificate = Certificate::make(&folder.path)?;
            for file in [&certificate.authority, &certificate.certificate, &certificate.key] {
                folder.account.give(file)?;
            }
            std::fs::create_dir(folder.data()).map_err(|e| format!("no folder for the data: {e}"))?;
            folder.account.give(&folder.data())?;
            Ok(certificate)
        })();
        let certificate = prepared.inspect_err(|_: &String| folder.remove())?;
        let mut server = folder.account.command(&program);
        server.args([
            "--bind",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--tls-port",
            &tls_port.to_string(),
        ]);
        server
            .arg("--tls-cert-file")
            .arg(&certificate.certificate)
            .arg("--tls-key-file")
            .arg(&certificate.key);
        server.arg("--tls-ca-cert-file").arg(&certificate.authority).args(["--tls-auth-clients", "no"]);
        server.arg("--dir").arg(folder.data()).args(["--daemonize", "no", "--save", ""]);
        server.args(["--appendonly", "yes", "--appendfsync", "everysec", "--repl-diskless-sync-delay", "0"]);
        let password = format!(">{PASSWORD}");
        server.args(["--user", USER, "on", &password, "~*", "&*", "+@all"]);
        server.args([
            "--user",
            USER_WITH_FEW_RIGHTS,
            "on",
            &password,
            "~allowed*",
            "+eval",
            "+xadd",
            "+ping",
        ]);
        server.args(arguments);
        let keeper = Keeper::new(&folder.path, &server, "KILL").inspect_err(|_| folder.remove())?;
        let server = Self { packages, certificate, port, tls_port, keeper: Mutex::new(keeper) };
        server.try_start()?;
        Ok(server)
    }

    /// Its port without encryption.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `host:port` without encryption.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// `host:port` with TLS.
    pub fn tls_address(&self) -> String {
        format!("127.0.0.1:{}", self.tls_port)
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
            panic!("redis did not start again: {reason}");
        }
    }

    fn try_start(&self) -> Result<(), String> {
        self.keeper().start(READY)
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

    /// The folder of the Python client, for `PYTHONPATH`.
    pub fn packages(&self) -> &std::path::Path {
        &self.packages
    }

    /// Reads a stream from its beginning to its end. Empty if there is no such stream.
    pub fn read(&self, stream: &str) -> Vec<Entry> {
        self.python(&["read", stream]).lines().map(entry).collect()
    }

    /// Runs a command and returns its reply as text.
    pub fn command(&self, command: &[&str]) -> String {
        self.python(&[&["command"], command].concat()).trim_end().to_owned()
    }

    #[allow(clippy::panic, reason = "a test that cannot go on fails")]
    fn python(&self, arguments: &[&str]) -> String {
        let port = self.port.to_string();
        let answer = python::answer(SCRIPT, &self.packages, &[&[&*port], arguments].concat());
        answer.unwrap_or_else(|reason| panic!("python {arguments:?}: {reason}"))
    }
}

/// The id, then name and value of each field.
fn entry(line: &str) -> Entry {
    let (id, rest) = line.split_once('\t').unwrap_or((line, ""));
    let rest = python::fields(rest);
    let field = |pair: &[Vec<u8>]| (python::text(&pair[0]), pair[1].clone());
    Entry { id: id.to_owned(), fields: rest.chunks_exact(2).map(field).collect() }
}

impl Entry {
    /// The value of a field, by its exact name.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|(found, _)| found == name).map(|(_, value)| &value[..])
    }
}
