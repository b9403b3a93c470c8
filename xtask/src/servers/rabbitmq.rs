//! A Python client of RabbitMQ that shares no code with the sink's client. The server is a package.

use std::path::Path;
use std::process::Command;

use super::packages::run;

/// The folder's name contains the version, so that another version is downloaded separately. The testkit uses this
/// folder.
const CLIENT: &str = "pika-1.4.4";

/// Downloads what is missing.
pub(super) fn prepare() -> Result<(), String> {
    super::once(CLIENT, client)
}

fn client(folder: &Path) -> Result<(), String> {
    let pip = ["-m", "pip", "install", "-q", "--target"];
    run(Command::new("python3").args(pip).arg(folder).arg("pika==1.4.4"))
}
