//! Debezium: its connectors in one worker of Kafka Connect, on loopback, writing to a [`Kafka`] of the tests.
//!
//! The jars are where `cargo run -p xtask -- servers` puts them. If they are not available, a line
//! `SKIPPED: debezium: reason` is printed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::account::Account;
use super::kafka::{JVM, Kafka};
use super::keeper::Keeper;
use super::server_folder::{ServerFolder, cache};
use super::{free_port, skipped};

/// The name of the folder that `xtask` downloads to.
const DEBEZIUM: &str = "debezium-3.6.1";

/// The class of a worker that is not part of a cluster, and keeps its offsets in a file.
const WORKER: &str = "org.apache.kafka.connect.cli.ConnectStandalone";

/// How long the worker may take for one request: it connects to the database before it accepts a connector.
const REQUEST_MAX: Duration = Duration::from_secs(120);

/// A worker. It is stopped and its folder removed when this is dropped, and when the process ends in any way.
#[derive(Debug)]
pub struct Debezium {
    port: u16,
    keeper: Mutex<Keeper>,
}

impl Debezium {
    /// Starts a worker that writes to this Kafka, without connectors. `None`, with a line that contains the reason, if it
    /// is not available.
    pub fn private(kafka: &Kafka) -> Option<Self> {
        Self::set_up(kafka).inspect_err(|reason| skipped("debezium", reason)).ok()
    }

    fn set_up(kafka: &Kafka) -> Result<Self, String> {
        let installed = Installed::find()?;
        let folder = ServerFolder::new("debezium", Account::unprivileged()?)?;
        let port = free_port()?;
        let written = installed.write_settings(&folder, kafka, port);
        // From here on the keeper removes the folder.
        written.inspect_err(|_| folder.remove())?;
        let keeper = Mutex::new(Keeper::new(&folder.path, &installed.worker(&folder), "KILL")?);
        let worker = Self { port, keeper };
        let is_ready = |_: Option<&str>| worker.get("/connectors").is_ok();
        worker.keeper.lock().unwrap_or_else(PoisonError::into_inner).start_until(is_ready)?;
        Ok(worker)
    }

    /// Creates a connector from a document with the fields `name` and `config`, as `POST /connectors` of Kafka Connect takes
    /// it. The connector starts after this returns.
    ///
    /// # Errors
    /// The worker's response, if it refuses the document or cannot connect to the database.
    pub fn create(&self, connector: &str) -> Result<(), String> {
        self.request("POST", "/connectors", connector).map(drop)
    }

    /// The state of a connector and of its task, in JSON, with the stack trace of a failure.
    ///
    /// # Errors
    /// The worker's response, if there is no such connector.
    pub fn status(&self, connector: &str) -> Result<String, String> {
        self.get(&format!("/connectors/{connector}/status"))
    }

    fn get(&self, path: &str) -> Result<String, String> {
        self.request("GET", path, "")
    }

    /// The body of a successful response.
    fn request(&self, method: &str, path: &str, body: &str) -> Result<String, String> {
        let exchange = || -> std::io::Result<String> {
            let mut worker = TcpStream::connect(("127.0.0.1", self.port))?;
            worker.set_read_timeout(Some(REQUEST_MAX))?;
            let length = body.len();
            // A client of HTTP 1.0 gets no chunks, and the end of the connection is the end of the response.
            let head = format!(
                "{method} {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
            );
            worker.write_all((head + body).as_bytes())?;
            let mut response = String::new();
            worker.read_to_string(&mut response)?;
            Ok(response)
        };
        let response = exchange().map_err(|e| format!("the worker does not answer: {e}"))?;
        let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
        let is_success = head.split(' ').nth(1).is_some_and(|status| status.starts_with('2'));
        if is_success { Ok(body.to_owned()) } else { Err(format!("{method} {path}: {response}")) }
    }
}

/// The jars of the worker, and the connectors.
struct Installed {
    libs: PathBuf,
    plugins: PathBuf,
}

impl Installed {
    fn find() -> Result<Self, String> {
        let java = Command::new("java").arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !java.is_ok_and(|status| status.success()) {
            return Err("no java".to_owned());
        }
        let folder = cache().join(DEBEZIUM);
        if !folder.exists() {
            return Err(format!("no {}: run `cargo run -p xtask -- servers`", folder.display()));
        }
        Ok(Self { libs: folder.join("libs"), plugins: folder.join("plugins") })
    }

    fn write_settings(&self, folder: &ServerFolder, kafka: &Kafka, port: u16) -> Result<(), String> {
        let settings = format!(
            "bootstrap.servers={}
listeners=http://127.0.0.1:{port}
plugin.path={}
plugin.discovery=service_load
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.file.filename={}
offset.flush.interval.ms=1000
",
            kafka.brokers(),
            self.plugins.display(),
            folder.path.join("offsets").display(),
        );
        std::fs::write(settings_of(folder), settings).map_err(|e| format!("cannot write the settings: {e}"))
    }

    /// The worker's command line.
    fn worker(&self, folder: &ServerFolder) -> Command {
        let mut worker = folder.account.command(Path::new("java"));
        worker.args(JVM).arg("-cp").arg(self.libs.join("*")).arg(WORKER).arg(settings_of(folder));
        worker
    }
}

fn settings_of(folder: &ServerFolder) -> PathBuf {
    folder.path.join("worker.properties")
}
