//! Apache Kafka, downloaded with Maven, and a Python client that shares no code with the sink's client.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::packages::run;

/// The folder's name contains the version, so that another version is downloaded separately. The testkit uses this
/// folder.
const KAFKA: &str = "kafka-4.3.0";
pub(super) const KAFKA_VERSION: &str = "4.3.0";
/// A small logging backend that writes to standard error, instead of Kafka's default.
const LOGGING_VERSION: &str = "1.7.36";
/// Pure Python: the sink's client is written in C, and a reader with the same code would have the same bugs.
const CLIENTS: [&str; 3] = ["kafka-python==3.0.12", "lz4", "zstandard"];
const CLIENT: &str = "kafka-python-3.0.12";

/// Downloads what is missing.
pub(super) fn prepare() -> Result<(), String> {
    super::once(KAFKA, jars)?;
    super::once(CLIENT, client)
}

fn jars(folder: &Path) -> Result<(), String> {
    copy_jars(folder, ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION))
}

/// Downloads an artifact (group, name, version), everything that it needs at run time, and the logging backend, into
/// the folder `libs` of a folder.
pub(super) fn copy_jars(folder: &Path, artifact: (&str, &str, &str)) -> Result<(), String> {
    let dependency = |(group, artifact, version): (&str, &str, &str)| {
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        )
    };
    let project = format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>postrider</groupId><artifactId>servers</artifactId>\
         <version>1</version><packaging>pom</packaging><dependencies>{}{}</dependencies></project>",
        dependency(artifact),
        dependency(("org.slf4j", "slf4j-simple", LOGGING_VERSION)),
    );
    fs::write(folder.join("pom.xml"), project).map_err(|e| format!("cannot write pom.xml: {e}"))?;
    let goal =
        ["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=libs"];
    run(Command::new("mvn").args(goal).current_dir(folder))
}

fn client(folder: &Path) -> Result<(), String> {
    run(Command::new("python3").args(["-m", "pip", "install", "-q", "--target"]).arg(folder).args(CLIENTS))
}
