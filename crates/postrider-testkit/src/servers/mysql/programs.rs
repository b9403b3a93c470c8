//! Finds the programs of MySQL and MariaDB, and initialises the data of new servers.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Kind;
use crate::servers::account::Account;
use crate::servers::cache;
use crate::servers::server_folder::{ServerFolder, duplicate};

/// The folder into which `xtask servers` unpacks MySQL with its own C library.
const MYSQL: &str = "mysql-sid";

/// The size of the redo log, which is written in full at the start: small, because there are few events.
const SMALL_LOG: [&str; 2] = ["--innodb-redo-log-capacity=16M", "--innodb-log-file-size=16M"];

/// The program of the server, and for MySQL the folder with the program and its libraries.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    kind: Kind,
    server: PathBuf,
    root: PathBuf,
}

impl Programs {
    pub(super) fn of(kind: Kind) -> Result<Self, String> {
        let (server, root) = match kind {
            Kind::MySql => (cache().join(MYSQL).join("usr/sbin/mysqld"), cache().join(MYSQL)),
            Kind::MariaDb => (in_path("mariadbd"), PathBuf::from("/")),
        };
        if !server.exists() {
            let name = kind.name();
            return Err(format!("no {name} here; `cargo run -p xtask -- servers` installs it"));
        }
        Ok(Self { kind, server, root })
    }

    /// The command line of the server, with the paths.
    pub(super) fn server(&self, account: Account, data: &Path) -> Command {
        let mut command = match self.kind {
            Kind::MariaDb => account.command(&self.server),
            Kind::MySql => {
                let mut command = account.command(&self.root.join("usr/lib64/ld-linux-x86-64.so.2"));
                command.arg("--library-path").arg(self.root.join("usr/lib/x86_64-linux-gnu"));
                command.arg(&self.server);
                command
            }
        };
        command.arg("--no-defaults").arg(option("datadir", data)).arg(SMALL_LOG[self.kind as usize]);
        if self.kind == Kind::MySql {
            let (share, plugins) =
                (self.root.join("usr/share/mysql"), self.root.join("usr/lib/mysql/plugin"));
            command.arg(option("basedir", &self.root.join("usr"))).arg(option("plugin-dir", &plugins));
            command.arg(option("lc-messages-dir", &share));
            command.arg(option("character-sets-dir", &share.join("charsets")));
            command.args(["--secure-file-priv=NULL", "--mysqlx=OFF"]);
        }
        command
    }

    /// Copies the data of a new server into the folder. It is initialised once per machine and version, because that
    /// takes seconds.
    pub(super) fn make_data(&self, folder: &ServerFolder) -> Result<(), String> {
        let kept = cache().join(format!("{}-data-{}", self.kind.name(), self.version()?));
        if !kept.exists() {
            self.initialise(folder)?;
            // MySQL identifies a server by the name in this file, and creates a new one if it is missing.
            _ = std::fs::remove_file(folder.data().join("auto.cnf"));
            let making = cache().join(format!("{}.part", uuid::Uuid::now_v7().simple()));
            std::fs::create_dir_all(cache()).map_err(|e| format!("no folder for servers: {e}"))?;
            duplicate(&folder.data(), &making)?;
            if std::fs::rename(&making, &kept).is_err() {
                _ = std::fs::remove_dir_all(&making);
            }
            return Ok(());
        }
        duplicate(&kept, &folder.data())
    }

    fn initialise(&self, folder: &ServerFolder) -> Result<(), String> {
        let data = folder.data();
        let mut command = match self.kind {
            Kind::MySql => {
                let mut command = self.server(folder.account, &data);
                command.arg("--initialize-insecure");
                command
            }
            Kind::MariaDb => {
                let mut command = folder.account.command(&in_path("mariadb-install-db"));
                command.arg("--no-defaults").arg(option("datadir", &data)).arg(SMALL_LOG[self.kind as usize]);
                command.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
                command
            }
        };
        let ended = command.output().map_err(|e| format!("{} cannot be run: {e}", self.kind.name()))?;
        if ended.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.stderr);
        Err(format!("no data for {}: {}", self.kind.name(), said.trim()))
    }

    /// The word after `Ver`.
    fn version(&self) -> Result<String, String> {
        let mut ask = self.server(Account::unprivileged()?, Path::new("/nonexistent"));
        let answer = ask.arg("--version").output().map_err(|e| format!("no version: {e}"))?;
        let answer = String::from_utf8_lossy(&answer.stdout);
        let mut words = answer.split_whitespace().skip_while(|word| *word != "Ver");
        words.nth(1).map(str::to_owned).ok_or_else(|| format!("no version in {answer:?}"))
    }
}

/// `--name=path`.
pub(super) fn option(name: &str, path: &Path) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from(format!("--{name}="));
    option.push(path);
    option
}

/// Finds a program in `PATH`, or in Debian's folders for administrators.
fn in_path(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = PathBuf::from("/usr/sbin");
    let mut folders = std::env::split_paths(&path).chain([sbin.clone()]);
    folders.find(|folder| folder.join(program).exists()).unwrap_or(sbin).join(program)
}
