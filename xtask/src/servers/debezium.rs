//! Debezium's connectors as plugins of Kafka Connect, and a worker of Kafka Connect, all downloaded with Maven.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::kafka::{KAFKA_VERSION, copy_jars};
use super::packages::run;

/// The folder's name contains the version, so that another version is downloaded separately. The testkit uses this
/// folder.
const DEBEZIUM: &str = "debezium-3.6.1";

/// Each with the newest version whose plugin archive the development machine could download.
const CONNECTORS: [(&str, &str); 3] =
    [("postgres", "3.6.1.Final"), ("mysql", "3.6.1.Final"), ("mariadb", "3.5.0.Final")];

/// Downloads what is missing.
pub(super) fn prepare() -> Result<(), String> {
    super::once(DEBEZIUM, fetch)
}

fn fetch(folder: &Path) -> Result<(), String> {
    copy_jars(folder, ("org.apache.kafka", "connect-runtime", KAFKA_VERSION))?;
    let plugins = folder.join("plugins");
    fs::create_dir(&plugins).map_err(|e| format!("no folder {}: {e}", plugins.display()))?;
    for (database, version) in CONNECTORS {
        let artifact = format!("io.debezium:debezium-connector-{database}:{version}:tar.gz:plugin");
        let goal = ["-q", "-B", "dependency:copy", "-DoutputDirectory=."];
        run(Command::new("mvn").args(goal).arg(format!("-Dartifact={artifact}")).current_dir(folder))?;
        // Maven could unpack it, but takes the extended headers of the archive for files.
        let archive = folder.join(format!("debezium-connector-{database}-{version}-plugin.tar.gz"));
        run(Command::new("tar").args(["xz", "--no-same-owner", "-C"]).arg(&plugins).arg("-f").arg(&archive))?;
        fs::remove_file(&archive).map_err(|e| format!("cannot remove {}: {e}", archive.display()))?;
    }
    Ok(())
}
