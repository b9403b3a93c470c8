//! A server that can be stopped, killed, paused and started again.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Kind;
use super::programs::{Programs, option};
use crate::servers::account::Account;
use crate::servers::certificate::Certificate;
use crate::servers::free_port;
use crate::servers::keeper::Keeper;
use crate::servers::server_folder::ServerFolder;

/// The line of the log that reports that the server is ready.
const READY: &str = "ready for connections";

/// Attempts with other ports, if another process takes the free port first.
const STARTS_MAX: usize = 3;

/// Wait before a server that ended at its start is started again.
const RESTART_WAIT: Duration = Duration::from_millis(500);

/// Enough for an empty server, its logs and a few events.
const SMALL_DISK_BYTES: u32 = 256 * 1024 * 1024;

/// The settings of every server, unless its options override them.
///
/// Commits survive a crash of the server, but not of the machine. The time zone is not UTC, so that a test notices a
/// time that was not stored in UTC.
const ALWAYS: [&str; 16] = [
    "bind_address=127.0.0.1",
    "default_time_zone=+05:30",
    "innodb_autoinc_lock_mode=2",
    "innodb_buffer_pool_size=64M",
    "innodb_doublewrite=OFF",
    "innodb_fast_shutdown=1",
    "innodb_flush_log_at_trx_commit=2",
    "innodb_flush_method=nosync",
    "log_bin=binlog",
    "performance_schema=ON",
    // MySQL's default; MariaDB does not report metadata locks without it.
    "performance_schema_instrument=wait/lock/metadata/sql/mdl=ON",
    "server_id=1",
    "skip_name_resolve=ON",
    "skip_external_locking=ON",
    "sync_binlog=0",
    "max_allowed_packet=64M",
];

/// The users that exist at the start.
const USERS: &str = "CREATE DATABASE IF NOT EXISTS test;
CREATE USER IF NOT EXISTS 'root'@'127.0.0.1';
GRANT ALL PRIVILEGES ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
";

/// The options of a server.
#[derive(Debug, Clone)]
pub struct Options {
    kind: Kind,
    settings: Vec<String>,
    small_disk: bool,
}

impl Options {
    /// A server of this kind with a binary log, metadata locks in the performance schema, and the time zone +05:30.
    pub fn of(kind: Kind) -> Self {
        Self { kind, settings: Vec::new(), small_disk: false }
    }

    /// Adds a setting, such as `auto_increment_increment=2` or `performance_schema=OFF`.
    #[must_use]
    pub fn setting(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }

    /// Turns off the binary log.
    #[must_use]
    pub fn without_binlog(self) -> Self {
        self.setting("skip_log_bin")
    }

    /// Puts its data on a separate small disk, which requires root. Turns off the binary log: if it does not fit on the
    /// disk, the server waits for a minute before it reports that.
    #[must_use]
    pub fn small_disk(mut self) -> Self {
        self.small_disk = true;
        self.without_binlog()
    }

    /// MySQL or MariaDB.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Creates and starts a server. Blocks until it is ready.
    ///
    /// # Errors
    /// What is missing, or the error of the server.
    pub fn start(self) -> Result<Server, String> {
        let programs = Programs::of(self.kind)?;
        let mut reason = String::new();
        for _ in 0..STARTS_MAX {
            let made = ServerFolder::new(self.kind.name(), Account::unprivileged()?).and_then(|folder| {
                let mounted = if self.small_disk { folder.mount(SMALL_DISK_BYTES) } else { Ok(()) };
                mounted.and_then(|()| programs.make_data(&folder)).inspect_err(|_| folder.remove())?;
                Server::on(folder, programs.clone(), self.clone())
            });
            match made {
                Ok(server) => return Ok(server),
                Err(failed) => reason = failed,
            }
        }
        Err(reason)
    }
}

/// A private server on loopback. When it is dropped, or when the test process ends in any way, it is killed and its
/// data removed.
///
/// Every call blocks until it is done: use `spawn_blocking` if other tasks must continue.
#[derive(Debug)]
pub struct Server {
    port: u16,
    url: String,
    certificate: Certificate,
    pub(super) folder: ServerFolder,
    pub(super) programs: Programs,
    pub(super) options: Options,
    keeper: Mutex<Keeper>,
}

crate::servers::controlled::controlled!(Server);

impl Server {
    /// Starts a server on existing data.
    pub(super) fn on(folder: ServerFolder, programs: Programs, options: Options) -> Result<Self, String> {
        let port = free_port()?;
        let certificate = Certificate::make(&folder.path)?;
        let users = folder.path.join("users.sql");
        std::fs::write(&users, USERS).map_err(|e| format!("{}: {e}", users.display()))?;
        for file in [&certificate.key, &certificate.certificate, &certificate.authority, &users] {
            folder.account.give(file)?;
        }
        let mut command = programs.server(folder.account, &folder.data());
        command.arg(format!("--port={port}")).arg(option("init-file", &users));
        command.arg(option("socket", &folder.path.join("sock")));
        command.arg(option("pid-file", &folder.path.join("pid")));
        // A server removes the contents of this folder when it starts; a shared folder may contain files of another
        // server.
        let temporary = folder.path.join("tmp");
        std::fs::create_dir_all(&temporary).map_err(|e| format!("{}: {e}", temporary.display()))?;
        folder.account.give(&temporary)?;
        command.arg(option("tmpdir", &temporary));
        command.arg(option("ssl-ca", &certificate.authority)).arg(option("ssl-key", &certificate.key));
        command.arg(option("ssl-cert", &certificate.certificate));
        let settings = ALWAYS.into_iter().chain(options.settings.iter().map(String::as_str));
        command.args(settings.map(|setting| format!("--{setting}")));
        let keeper = Mutex::new(Keeper::new(&folder.path, &command, "KILL")?);
        let url = format!("mysql://root@127.0.0.1:{port}/test");
        let server = Self { port, url, certificate, folder, programs, options, keeper };
        server.start()?;
        Ok(server)
    }

    /// Its URL for a user with all privileges and no password. The database in it is empty.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its URL for another user, or for `user:password`.
    pub fn url_of(&self, user: &str) -> String {
        self.url.replacen("root@", &format!("{user}@"), 1)
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The root certificate for its certificate, which is for `127.0.0.1` and `localhost`.
    pub fn authority(&self) -> &Path {
        &self.certificate.authority
    }

    /// The folder of its data.
    pub fn data(&self) -> PathBuf {
        self.folder.data()
    }

    /// Stops it cleanly, without waiting for clients: their open transactions are rolled back, and prepared ones (XA)
    /// stay.
    ///
    /// # Errors
    /// If the server process does not follow the command.
    pub fn stop(&self) -> Result<(), String> {
        self.end("TERM")
    }

    /// Kills it at once, as a crash of the machine would.
    ///
    /// # Errors
    /// If the server process does not follow the command.
    pub fn kill(&self) -> Result<(), String> {
        self.end("KILL")
    }

    fn end(&self, signal: &str) -> Result<(), String> {
        let mut keeper = self.keeper();
        keeper.signal(signal)?;
        keeper.wait()
    }

    /// Starts it again on its data and its port.
    ///
    /// # Errors
    /// The error of the server.
    #[allow(clippy::disallowed_methods, reason = "nothing signals that a port or a file was released")]
    pub fn start(&self) -> Result<(), String> {
        // A process that was killed may hold its port and its files for a moment longer.
        let mut starts = 1;
        loop {
            match self.keeper().start(READY) {
                Err(reason) if reason.starts_with("the server ended") && starts < STARTS_MAX => {
                    std::thread::sleep(RESTART_WAIT);
                    starts += 1;
                }
                started => return started,
            }
        }
    }

    /// Suspends it: connections stay open and get no response.
    ///
    /// # Errors
    /// If the server process does not follow the command.
    pub fn pause(&self) -> Result<(), String> {
        self.keeper().pause()
    }

    /// Resumes it.
    ///
    /// # Errors
    /// If the server process does not follow the command.
    pub fn resume(&self) -> Result<(), String> {
        self.keeper().signal("CONT")
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
