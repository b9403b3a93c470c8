//! A private PgBouncer with transaction pooling, in front of a PostgreSQL server.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::keeper::Keeper;
use super::{free_port, postgres, skipped};

/// The line of its log that reports that it is ready.
const READY: &str = "process up";

/// Attempts with other ports, if another process takes the free port first.
const STARTS_MAX: usize = 3;

/// Every case connects as its own user; the server connections of finished cases must be closed.
const IDLE: &str = "server_idle_timeout = 3";

/// A running pooler. It is stopped when this value is dropped or the process ends.
#[derive(Debug)]
pub struct PgBouncer {
    url: String,
    listen: u16,
    folder: PathBuf,
    settings: String,
    keeper: Mutex<Keeper>,
}

impl PgBouncer {
    /// Starts a pooler in front of the server at this address, with this many pooled connections. It serves every
    /// database and every user of the server.
    ///
    /// # Errors
    /// Why it could not be started.
    pub fn start(server: &str, processes: usize) -> Result<Self, String> {
        Self::start_with(server, processes, "")
    }

    /// The same with more settings.
    ///
    /// # Errors
    /// Why it could not be started.
    pub fn start_with(server: &str, processes: usize, more: &str) -> Result<Self, String> {
        let settings = format!("default_pool_size = {processes}\n{more}\n");
        let program = program().ok_or("no pgbouncer in PATH or /usr/sbin")?;
        let mut reason = String::new();
        for _ in 0..STARTS_MAX {
            match run(&program, server, &settings) {
                Ok(started) => return Ok(started),
                Err(failed) => reason = failed,
            }
        }
        Err(reason)
    }

    /// Uses another server from now on, as after a failover. Clients stay connected.
    ///
    /// # Errors
    /// If the process does not follow the command.
    pub fn redirect_to(&mut self, server: &str) -> Result<(), String> {
        write_settings(&self.folder, server, self.listen, &self.settings)?;
        self.keeper.get_mut().unwrap_or_else(PoisonError::into_inner).signal("HUP")
    }

    /// The address for clients.
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// The address of the pooler in front of [`postgres::url`], started at the first call. If it cannot be started, prints
/// why and returns `None`.
pub fn url() -> Option<&'static str> {
    static POOLER: OnceLock<Result<PgBouncer, String>> = OnceLock::new();
    let server = postgres::url()?;
    match POOLER.get_or_init(|| PgBouncer::start_with(server, 4, IDLE)) {
        Ok(pooler) => Some(&pooler.url),
        Err(reason) => {
            skipped("pgbouncer", reason);
            None
        }
    }
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.find_map(|folder| Some(folder.join("pgbouncer")).filter(|program| program.exists()))
}

fn run(program: &Path, server: &str, more: &str) -> Result<PgBouncer, String> {
    let (user, _, _, database) = parts(server).ok_or("the server's address is not of the usual kind")?;
    let folder = std::env::temp_dir().join(format!("postrider-pgbouncer-{}", uuid::Uuid::now_v7().simple()));
    std::fs::create_dir(&folder).map_err(|e| format!("no folder for pgbouncer: {e}"))?;
    let listen = free_port()?;
    let settings = write_settings(&folder, server, listen, more)?;

    let mut pooler = Command::new(program);
    if is_root()? {
        // PgBouncer refuses to run as root.
        pooler.args(["-u", "nobody"]);
    }
    pooler.arg(&settings);
    let mut keeper = Keeper::new(&folder, &pooler, "TERM")?;
    keeper.start(READY)?;
    let url = format!("postgres://{user}@127.0.0.1:{listen}/{database}");
    Ok(PgBouncer { url, listen, folder, settings: more.to_owned(), keeper: Mutex::new(keeper) })
}

/// Writes the settings for a server.
fn write_settings(folder: &Path, server: &str, listen: u16, more: &str) -> Result<PathBuf, String> {
    let (user, host, port, _) = parts(server).ok_or("the server's address is not of the usual kind")?;
    let users = folder.join("users.txt");
    let config = format!(
        "[databases]\n\
         * = host={host} port={port}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {listen}\n\
         unix_socket_dir =\n\
         auth_type = trust\n\
         auth_file = {}\n\
         auth_user = {user}\n\
         auth_query = SELECT rolname, '' FROM pg_roles WHERE rolname = $1\n\
         pool_mode = transaction\n\
         max_client_conn = 500\n\
         {more}",
        users.display()
    );
    let settings = folder.join("pgbouncer.ini");
    let written = std::fs::write(&users, format!("\"{user}\" \"\"\n")).and(std::fs::write(&settings, config));
    written.map(|()| settings).map_err(|e| format!("no settings for pgbouncer: {e}"))
}

/// User, host, port and database of `postgres://user@host:port/database`.
fn parts(url: &str) -> Option<(&str, &str, &str, &str)> {
    let (user, rest) = url.strip_prefix("postgres://")?.split_once('@')?;
    let (address, database) = rest.split_once('/')?;
    let (host, port) = address.rsplit_once(':')?;
    Some((user, host, port, database))
}

fn is_root() -> Result<bool, String> {
    let answer = Command::new("id").arg("-u").output().map_err(|e| format!("id cannot be run: {e}"))?;
    Ok(answer.stdout.trim_ascii() == b"0")
}
