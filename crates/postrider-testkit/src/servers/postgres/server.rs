//! A server that can be stopped, killed, paused and started again.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::programs::Programs;
use crate::servers::account::Account;
use crate::servers::free_port;
use crate::servers::keeper::Keeper;
use crate::servers::server_folder::ServerFolder;

/// The line of the log that reports that the server is ready, as a primary or as a standby.
const READY: &str = "database system is ready to accept";

/// Attempts with other ports, if another process takes the free port first.
const STARTS_MAX: usize = 3;

/// Attempts to start on the data of a killed server whose last processes have not ended yet.
const RESTARTS_MAX: usize = 200;

/// Enough for an empty server and its log.
const SMALL_DISK_BYTES: u32 = 80 * 1024 * 1024;

/// The options of a server.
#[derive(Debug, Clone, Default)]
pub struct Options {
    version: Option<String>,
    settings: Vec<String>,
    asks_passwords: bool,
    small_disk: bool,
}

impl Options {
    /// Sets a major version, such as `"18"`, independent of the environment.
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        self.version = Some(version.to_owned());
        self
    }

    /// Adds a setting, such as `max_connections=5`.
    #[must_use]
    pub fn setting(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }

    /// Requires a password from all users except the superuser `postgres`.
    #[must_use]
    pub fn asks_passwords(mut self) -> Self {
        self.asks_passwords = true;
        self
    }

    /// Puts its data on a separate small disk, which requires root.
    #[must_use]
    pub fn small_disk(mut self) -> Self {
        self.small_disk = true;
        self.setting("min_wal_size=2MB").setting("max_wal_size=4MB")
    }

    /// Creates and starts a server. Blocks until it is ready.
    ///
    /// # Errors
    /// What is missing, or the error of the server.
    pub fn start(self) -> Result<Server, String> {
        let programs = self.programs()?;
        let mut reason = String::new();
        for _ in 0..STARTS_MAX {
            let made = ServerFolder::new("postgres", Account::unprivileged()?).and_then(|folder| {
                self.make_data(&programs, &folder).inspect_err(|_| folder.remove())?;
                Server::on(folder, programs.clone(), self.settings.clone())
            });
            match made {
                Ok(server) => return Ok(server),
                Err(failed) => reason = failed,
            }
        }
        Err(reason)
    }

    fn programs(&self) -> Result<Programs, String> {
        let asked = std::env::var("POSTRIDER_TEST_POSTGRES_VERSION").ok();
        Programs::of(self.version.as_deref().or(asked.as_deref()))
    }

    fn make_data(&self, programs: &Programs, folder: &ServerFolder) -> Result<(), String> {
        let data = folder.data();
        let data = data.to_str().ok_or("the folder has no readable name")?;
        let mut arguments =
            vec!["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D", data];
        if self.small_disk {
            folder.mount(SMALL_DISK_BYTES)?;
            arguments.push("--wal-segsize=1");
        }
        folder.account.run(&programs.path("initdb"), &arguments)?;
        if self.asks_passwords {
            let rules = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
            std::fs::write(folder.data().join("pg_hba.conf"), rules).map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}

/// A private server on loopback. When it is dropped, or when the test process ends in any way, it is stopped and its
/// data removed.
///
/// Every call blocks until it is done: use `spawn_blocking` if other tasks must continue.
#[derive(Debug)]
pub struct Server {
    url: String,
    port: u16,
    pub(super) folder: ServerFolder,
    pub(super) programs: Programs,
    pub(super) settings: Vec<String>,
    keeper: Mutex<Keeper>,
}

crate::servers::controlled::controlled!(Server);

impl Server {
    /// Starts a server on existing data.
    pub(super) fn on(
        folder: ServerFolder,
        programs: Programs,
        settings: Vec<String>,
    ) -> Result<Self, String> {
        let port = free_port()?;
        let mut command = folder.account.command(&programs.path("postgres"));
        command.arg("-D").arg(folder.data()).arg("-k").arg(&folder.path).arg("-p").arg(port.to_string());
        let always = ["listen_addresses=127.0.0.1", "fsync=off", "autovacuum=off"];
        for setting in always.into_iter().chain(settings.iter().map(String::as_str)) {
            command.arg("-c").arg(setting);
        }
        let keeper = Mutex::new(Keeper::new(&folder.path, &command, "INT")?);
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        let server = Self { url, port, folder, programs, settings, keeper };
        server.keeper().start(READY)?;
        Ok(server)
    }

    /// Its URL for the superuser, without a password.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its URL for another user.
    pub fn url_of(&self, user: &str) -> String {
        self.url.replacen("postgres@", &format!("{user}@"), 1)
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of its data.
    pub fn data(&self) -> PathBuf {
        self.folder.data()
    }

    /// Stops it cleanly, without waiting for clients: their open transactions are rolled back.
    ///
    /// # Errors
    /// If the server process does not follow the command.
    pub fn stop(&self) -> Result<(), String> {
        let mut keeper = self.keeper();
        keeper.signal("INT")?;
        keeper.wait()
    }

    /// Kills all its processes at once, as a crash of the machine would.
    ///
    /// # Errors
    /// If the server process does not follow the command.
    pub fn kill(&self) -> Result<(), String> {
        let mut keeper = self.keeper();
        keeper.signal("STOP")?;
        signal(&children(keeper.pid), "KILL");
        keeper.signal("KILL")?;
        keeper.wait()
    }

    /// Starts it again on its data and its port.
    ///
    /// # Errors
    /// The error of the server.
    pub fn start(&self) -> Result<(), String> {
        let mut reason = String::new();
        for _ in 0..RESTARTS_MAX {
            match self.keeper().start(READY) {
                Ok(()) => return Ok(()),
                // Processes of the killed server, or one that checks whether the port answers.
                Err(said) if said.contains("in use") || said.contains("lock file") => reason = said,
                Err(said) => return Err(said),
            }
        }
        Err(reason)
    }

    /// Suspends it: connections stay open and get no response.
    ///
    /// # Errors
    /// If the server process does not follow the command.
    pub fn pause(&self) -> Result<(), String> {
        let mut keeper = self.keeper();
        keeper.signal("STOP")?;
        signal(&children(keeper.pid), "STOP");
        Ok(())
    }

    /// Resumes it.
    ///
    /// # Errors
    /// If the server process does not follow the command.
    pub fn resume(&self) -> Result<(), String> {
        let mut keeper = self.keeper();
        signal(&children(keeper.pid), "CONT");
        keeper.signal("CONT")
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    /// Resumes it first: a suspended server cannot stop.
    fn drop(&mut self) {
        let pid = self.keeper().pid;
        signal(&children(pid), "CONT");
    }
}

/// The child processes of a server: one per connection, and those of the system.
fn children(server: Option<u32>) -> Vec<String> {
    let Some(server) = server.map(|pid| pid.to_string()) else { return Vec::new() };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|process| parent(&process.path()).as_deref() == Some(&server))
        .filter_map(|process| process.file_name().into_string().ok())
        .collect()
}

/// The parent in `/proc/PID/stat`: the second field after the name in parentheses.
fn parent(process: &Path) -> Option<String> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1).map(str::to_owned)
}

fn signal(processes: &[String], signal: &str) {
    if !processes.is_empty() {
        // A process that has just ended is not an error.
        _ = Command::new("kill").arg(format!("-{signal}")).args(processes).stderr(Stdio::null()).status();
    }
}
