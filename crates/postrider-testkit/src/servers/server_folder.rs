//! The folders of servers, and their ports.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::account::Account;

/// Below the range of outgoing connections, so that the port of a stopped server stays free.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// The number of ports that are tried.
const PORT_TRIES_MAX: usize = 100;

/// The folder of the servers that are not installed by the package manager; `xtask` downloads them there.
///
/// `POSTRIDER_SERVERS_DIR`, or a folder in the user's cache. For root it is a folder of the machine, because the
/// account that runs the servers cannot read root's cache.
pub fn cache() -> PathBuf {
    if let Some(folder) = std::env::var_os("POSTRIDER_SERVERS_DIR") {
        return folder.into();
    }
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let cache = match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        _ if is_root => PathBuf::from("/var/cache"),
        (Some(cache), _) => PathBuf::from(cache),
        (None, home) => PathBuf::from(home.unwrap_or_default()).join(".cache"),
    };
    cache.join("postrider-servers")
}

/// The folder of a server with its data, and the account that owns it.
#[derive(Debug, Clone)]
pub(super) struct ServerFolder {
    pub(super) path: PathBuf,
    pub(super) account: Account,
}

impl ServerFolder {
    pub(super) fn new(server: &str, account: Account) -> Result<Self, String> {
        let folder =
            std::env::temp_dir().join(format!("postrider-{server}-{}", uuid::Uuid::now_v7().simple()));
        std::fs::create_dir(&folder).map_err(|e| format!("no folder for the server: {e}"))?;
        account.give(&folder)?;
        Ok(Self { path: folder, account })
    }

    pub(super) fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// Removes the folder, if no keeper owns it yet.
    pub(super) fn remove(&self) {
        _ = Command::new("umount").arg(self.data()).stderr(Stdio::null()).status();
        _ = std::fs::remove_dir_all(&self.path);
    }

    /// Puts the data on a separate disk. The keeper removes it.
    pub(super) fn mount(&self, bytes: u32) -> Result<(), String> {
        let data = self.data();
        std::fs::create_dir(&data).map_err(|e| format!("no folder for the data: {e}"))?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o"]).arg(format!("size={bytes},mode=700")).arg("tmpfs").arg(&data);
        let mounted = mount.output().map_err(|e| format!("mount cannot be run: {e}"))?;
        if !mounted.status.success() {
            let said = String::from_utf8_lossy(&mounted.stderr);
            return Err(format!("no small disk without the right to mount one: {}", said.trim()));
        }
        self.account.give(&data)
    }
}

/// Copies the contents of a folder, with owners and permissions, into a new or empty one.
pub(super) fn duplicate(from: &Path, to: &Path) -> Result<(), String> {
    let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).output();
    let copied = copied.map_err(|e| format!("cp cannot be run: {e}"))?;
    if copied.status.success() {
        return Ok(());
    }
    Err(format!("cp failed: {}", String::from_utf8_lossy(&copied.stderr).trim()))
}

/// A free port on loopback.
///
/// # Errors
/// If none of many ports is free.
pub fn free_port() -> Result<u16, String> {
    for _ in 0..PORT_TRIES_MAX {
        let random = uuid::Uuid::now_v7().as_u64_pair().1 % u64::from(PORTS.end - PORTS.start);
        let port = PORTS.start + u16::try_from(random).unwrap_or(0);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no free port".to_owned())
}

/// Reports that something could not be tested on this machine. The test runner counts these lines.
#[allow(clippy::print_stdout, reason = "the test runner counts these lines")]
pub fn skipped(name: &str, reason: &str) {
    println!("SKIPPED: {name}: {reason}");
}
