//! axe-core, which checks pages for accessibility: one JavaScript file, downloaded with npm. It is used by tests only.

use std::path::Path;
use std::process::Command;

use super::packages::run;

/// The folder's name contains the version, so that another version is downloaded separately. The tests of the dashboard
/// use this folder.
const AXE: &str = "axe-core-4.10.3";

/// Downloads it, if it is missing.
pub(super) fn prepare() -> Result<(), String> {
    super::once(AXE, fetch)
}

fn fetch(folder: &Path) -> Result<(), String> {
    let version = AXE.replace("core-", "core@");
    let args = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", "--prefix", "."];
    run(Command::new("npm").args(args).arg(version).current_dir(folder))
}
