//! A server that can be stopped, killed, paused and started again.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Kind;
use super::programs::{Programs, option};
use crate::servers::account::Account;
use crate::servers::certificate::Certificate;
use crate::servers::free_port;
use crate::servers::keeper::Keeper;
use crate::servers::place::Place;

/// What the server says when it can be used.
const READY: &str = "ready for connections";

/// Attempts with other ports, in case another process takes the free one.
const STARTS_MAX: usize = 3;

/// Room for what a server has from the beginning, its logs and a few events.
const SMALL_DISK_BYTES: u32 = 256 * 1024 * 1024;

/// Every server is so, unless a setting of its options says otherwise.
///
/// Commits survive the death of the server, not of the machine. The time zone is one that shows every time that is
/// not in UTC by mistake.
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
    // MySQL's own default; MariaDB knows no metadata locks without it.
    "performance_schema_instrument=wait/lock/metadata/sql/mdl=ON",
    "server_id=1",
    "skip_name_resolve=ON",
    "skip_external_locking=ON",
    "sync_binlog=0",
    "max_allowed_packet=64M",
];

/// Who is there from the beginning.
const USERS: &str = "CREATE DATABASE IF NOT EXISTS test;
CREATE USER IF NOT EXISTS 'root'@'127.0.0.1';
GRANT ALL PRIVILEGES ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
";

/// How a server is to be.
#[derive(Debug, Clone)]
pub struct Options {
    kind: Kind,
    settings: Vec<String>,
    small_disk: bool,
}

impl Options {
    /// One of a kind, with a binary log, metadata locks in the performance schema, and the time zone +05:30.
    pub fn of(kind: Kind) -> Self {
        Self { kind, settings: Vec::new(), small_disk: false }
    }

    /// A line of its configuration, such as `auto_increment_increment=2` or `performance_schema=OFF`.
    #[must_use]
    pub fn setting(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }

    /// Writes no binary log.
    #[must_use]
    pub fn without_binlog(self) -> Self {
        self.setting("skip_log_bin")
    }

    /// Puts its data on a separate small disk, which requires root. Without a binary log: where that finds no
    /// room, the server waits for a minute at a time before it says so.
    #[must_use]
    pub fn small_disk(mut self) -> Self {
        self.small_disk = true;
        self.without_binlog()
    }

    /// Which of the two it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Makes a new server and starts it. Blocks until it is ready.
    ///
    /// # Errors
    /// A sentence that says what is missing or what the server said.
    pub fn start(self) -> Result<Server, String> {
        let programs = Programs::of(self.kind)?;
        let mut reason = String::new();
        for _ in 0..STARTS_MAX {
            let made = Place::new(self.kind.name(), Account::unprivileged()?).and_then(|place| {
                let mounted = if self.small_disk { place.mount(SMALL_DISK_BYTES) } else { Ok(()) };
                mounted.and_then(|()| programs.make_data(&place)).inspect_err(|_| place.remove())?;
                Server::on(place, programs.clone(), self.clone())
            });
            match made {
                Ok(server) => return Ok(server),
                Err(failed) => reason = failed,
            }
        }
        Err(reason)
    }
}

/// A private server on loopback. Dropped, it is killed and its data removed; the same happens when the test process
/// ends without dropping it.
///
/// Every call blocks until it is done: call them off the runtime (`spawn_blocking`) where tasks must go on.
#[derive(Debug)]
pub struct Server {
    port: u16,
    url: String,
    certificate: Certificate,
    pub(super) place: Place,
    pub(super) programs: Programs,
    pub(super) options: Options,
    keeper: Mutex<Keeper>,
}

crate::servers::controlled::controlled!(Server);

impl Server {
    /// Starts on data that is there.
    pub(super) fn on(place: Place, programs: Programs, options: Options) -> Result<Self, String> {
        let port = free_port()?;
        let certificate = Certificate::make(&place.folder)?;
        let users = place.folder.join("users.sql");
        std::fs::write(&users, USERS).map_err(|e| format!("{}: {e}", users.display()))?;
        for file in [&certificate.key, &certificate.certificate, &certificate.authority, &users] {
            place.account.give(file)?;
        }
        let mut command = programs.server(place.account, &place.data());
        command.arg(format!("--port={port}")).arg(option("init-file", &users));
        command.arg(option("socket", &place.folder.join("sock")));
        command.arg(option("pid-file", &place.folder.join("pid")));
        // A server that starts removes what it finds in this folder; in a shared one that may be another's.
        let temporary = place.folder.join("tmp");
        std::fs::create_dir_all(&temporary).map_err(|e| format!("{}: {e}", temporary.display()))?;
        place.account.give(&temporary)?;
        command.arg(option("tmpdir", &temporary));
        command.arg(option("ssl-ca", &certificate.authority)).arg(option("ssl-key", &certificate.key));
        command.arg(option("ssl-cert", &certificate.certificate));
        let settings = ALWAYS.into_iter().chain(options.settings.iter().map(String::as_str));
        command.args(settings.map(|setting| format!("--{setting}")));
        let keeper = Mutex::new(Keeper::new(&place.folder, &command, "KILL")?);
        let url = format!("mysql://root@127.0.0.1:{port}/test");
        let server = Self { port, url, certificate, place, programs, options, keeper };
        server.keeper().start(READY)?;
        Ok(server)
    }

    /// Where it is, for a user who may do everything and has no password. The database there is empty.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where it is, for another user. A password is `user:password`.
    pub fn url_of(&self, user: &str) -> String {
        self.url.replacen("root@", &format!("{user}@"), 1)
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Who vouches for its certificate, which is for `127.0.0.1` and `localhost`.
    pub fn authority(&self) -> &Path {
        &self.certificate.authority
    }

    /// The folder of its data.
    pub fn data(&self) -> PathBuf {
        self.place.data()
    }

    /// Stops it in good order, without waiting for clients: what they had begun is rolled back, and what they had
    /// prepared (XA) stays.
    ///
    /// # Errors
    /// If the server process does not follow the command.
    pub fn stop(&self) -> Result<(), String> {
        self.end("TERM")
    }

    /// Ends it at once, as the death of the machine would.
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
    /// What the server says.
    pub fn start(&self) -> Result<(), String> {
        self.keeper().start(READY)
    }

    /// Suspends it: connections stay open and get no response.
    ///
    /// # Errors
    /// If the server process does not follow the command.
    pub fn pause(&self) -> Result<(), String> {
        self.keeper().pause()
    }

    /// Lets it go on.
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
