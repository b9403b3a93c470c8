//! MySQL, which Debian has only in its unstable suite: unpacked with its libraries, once per machine.
//!
//! The version in that suite changes: a machine keeps the version that it downloaded, which is in the file `version`.

use std::path::Path;
use std::process::Command;

use super::packages::run;

/// The testkit uses this folder.
const FOLDER: &str = "mysql-sid";

/// Unpacks everything into a folder.
const FETCH: &str = include_str!("mysql.sh");

/// Downloads it if it is missing.
pub(super) fn prepare() -> Result<(), String> {
    super::once(FOLDER, fetch)
}

fn fetch(folder: &Path) -> Result<(), String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("only fetched for Linux on x86_64".to_owned());
    }
    run(Command::new("sh").args(["-c", FETCH, "fetch"]).arg(folder).arg(archive()?))
}

/// Where this machine's Debian packages come from.
fn archive() -> Result<String, String> {
    let mut ask = Command::new("apt-get");
    ask.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"]);
    let answer = ask.output().map_err(|e| format!("only fetched by Debian's apt-get: {e}"))?;
    let archives = String::from_utf8_lossy(&answer.stdout);
    let first = archives.lines().next().ok_or("this machine's apt-get knows no archive of Debian")?;
    Ok(first.to_owned())
}
