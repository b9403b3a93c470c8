//! Finds the parts of Kafka that are installed on this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::account::Account;
use super::super::server_folder::cache;
use super::settings::{PASSWORD, USER};

/// The name that `xtask` gives to its download.
const KAFKA: &str = "kafka-4.3.0";
const CLIENT: &str = "kafka-python-3.0.12";

/// Optimised for a small and quick start: no optimising compiler, no parallel garbage collector.
pub(in crate::servers) const JVM: [&str; 5] = [
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
];

/// Java, the jars, the clients, and the account that the server runs as.
#[derive(Debug)]
pub(super) struct Installed {
    libs: PathBuf,
    /// The data of a new server, the same for all.
    formatted: PathBuf,
    /// The Python clients.
    pub(super) packages: PathBuf,
    account: Account,
}

impl Installed {
    pub(super) fn find() -> Result<Self, String> {
        for program in ["java", "python3", "openssl"] {
            let argument = if program == "openssl" { "version" } else { "-version" };
            let argument = if program == "python3" { "--version" } else { argument };
            let found =
                Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
            if !found.is_ok_and(|status| status.success()) {
                return Err(format!("no {program}"));
            }
        }
        let servers = cache();
        let (libs, packages) = (servers.join(KAFKA).join("libs"), servers.join(CLIENT));
        for needed in [&libs, &packages] {
            if !needed.exists() {
                return Err(format!("no {}: run `cargo run -p xtask -- servers`", needed.display()));
            }
        }
        let formatted = servers.join(KAFKA).join("formatted");
        Ok(Self { libs, formatted, packages, account: Account::unprivileged()? })
    }

    /// Creates the folder of a server, with a copy of the jars if the server's account cannot read the originals.
    pub(super) fn new_folder(&self) -> Result<PathBuf, String> {
        let folder = std::env::temp_dir().join(format!("postrider-kafka-{}", uuid::Uuid::now_v7().simple()));
        std::fs::create_dir(&folder).map_err(|e| format!("no folder for the server: {e}"))?;
        if !self.reads(&self.libs) {
            run(Command::new("cp").arg("-rp").arg(&self.libs).arg(folder.join("libs")))?;
        }
        Ok(folder)
    }

    fn reads(&self, folder: &Path) -> bool {
        let test = self.account.command(Path::new("test")).arg("-x").arg(folder).status();
        test.is_ok_and(|status| status.success())
    }

    /// Makes the server's account the owner of its folder.
    pub(super) fn give(&self, folder: &Path) -> Result<(), String> {
        self.account.give(folder)?;
        for entry in walk(folder) {
            self.account.give(&entry)?;
        }
        Ok(())
    }

    /// Copies the data of a new server into its folder. It is created once per machine, because that needs a Java
    /// process.
    pub(super) fn format(&self, folder: &Path) -> Result<(), String> {
        if !self.formatted.exists() {
            let user = format!("SCRAM-SHA-256=[name={USER},password={PASSWORD}]");
            let mut format = Command::new("java");
            format.args(JVM).arg("-cp").arg(self.libs.join("*")).arg("kafka.tools.StorageTool");
            format.args(["format", "-t", "cG9zdHJpZGVyLXRlc3Q", "--add-scram", &user, "-c"]);
            run(format.arg(folder.join("server.properties")))?;
            let making = self.formatted.with_extension(std::process::id().to_string());
            run(Command::new("cp").arg("-r").arg(folder.join("data")).arg(&making))?;
            if std::fs::rename(&making, &self.formatted).is_err() {
                _ = std::fs::remove_dir_all(&making);
            }
            return Ok(());
        }
        run(Command::new("cp").arg("-r").arg(&self.formatted).arg(folder.join("data")))
    }

    /// The command line of the server.
    pub(super) fn server(&self, folder: &Path) -> Command {
        let copied = folder.join("libs");
        let libs = if copied.exists() { &copied } else { &self.libs };
        let mut server = self.account.command(Path::new("java"));
        server.args(JVM).arg("-cp").arg(libs.join("*"));
        server.arg("kafka.Kafka").arg(folder.join("server.properties"));
        server
    }
}

/// All files below a folder except the jars.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let (folders, mut found): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    for folder in folders.into_iter().filter(|folder| !folder.ends_with("libs")) {
        found.extend(walk(&folder));
        found.push(folder);
    }
    found
}

pub(super) fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    let ended = command.stdin(Stdio::null()).output().map_err(|e| format!("{name} cannot be run: {e}"))?;
    let said = [ended.stdout, ended.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    if ended.status.success() { Ok(()) } else { Err(format!("{name} failed: {}", said.trim())) }
}
