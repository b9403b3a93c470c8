//! An endpoint for webhooks, in Python. It verifies signatures with its own code and writes the requests to a file.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::keeper::Keeper;
use super::{free_port, skipped};

const PROGRAM: &str = include_str!("receive.py");
/// The line that reports that it listens.
const READY: &str = "ready";
/// The secret that signs requests.
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A running endpoint. It is removed, with its file, when this value is dropped or the process ends in any way.
#[derive(Debug)]
pub struct Endpoint {
    port: u16,
    folder: PathBuf,
    keeper: Mutex<Keeper>,
}

/// A request that the endpoint accepted. It answers 400 to a request without a valid signature and does not record it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The event's id.
    pub id: String,
    /// The body.
    pub body: Vec<u8>,
    /// The headers, with their names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Request {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Endpoint {
    /// Starts an endpoint. If it cannot be started, prints why and returns `None`.
    pub fn private() -> Option<Self> {
        Self::set_up().inspect_err(|reason| skipped("webhook endpoint in Python", reason)).ok()
    }

    fn set_up() -> Result<Self, String> {
        let python = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
        if !python.is_ok_and(|status| status.success()) {
            return Err("no python3".to_owned());
        }
        let folder =
            std::env::temp_dir().join(format!("postrider-endpoint-{}", uuid::Uuid::now_v7().simple()));
        std::fs::create_dir(&folder).map_err(|e| format!("no folder for the endpoint: {e}"))?;
        let port = free_port()?;
        let mut command = Command::new("python3");
        command.args(["-c", PROGRAM, &port.to_string()]).arg(folder.join("received")).arg(SECRET);
        let keeper = Mutex::new(Keeper::new(&folder, &command, "KILL")?);
        let endpoint = Self { port, folder, keeper };
        endpoint.keeper().start(READY)?;
        Ok(endpoint)
    }

    /// Its URL.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The file with the requests in order of arrival. It is created by the first one.
    pub fn file(&self) -> PathBuf {
        self.folder.join("received")
    }

    /// The accepted requests, in order of arrival.
    pub fn received(&self) -> Vec<Request> {
        let text = std::fs::read_to_string(self.file()).unwrap_or_default();
        // The last line may be incomplete while it is written.
        let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        whole.lines().map(request).collect()
    }

    /// Starts it again, with the same port and file.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(&self) {
        must(self.keeper().start(READY));
    }

    /// Stops it. Returns when it has ended.
    ///
    /// # Panics
    /// If the process does not follow the command.
    pub fn stop(&self) {
        self.end("TERM");
    }

    /// Kills it with `kill -9`. Returns when it has ended.
    ///
    /// # Panics
    /// If the process does not follow the command.
    pub fn kill(&self) {
        self.end("KILL");
    }

    /// Suspends it: connections stay open and get no response.
    ///
    /// # Panics
    /// If the process does not follow the command.
    pub fn pause(&self) {
        must(self.keeper().pause());
    }

    /// Resumes it.
    ///
    /// # Panics
    /// If the process does not follow the command.
    pub fn resume(&self) {
        must(self.keeper().signal("CONT"));
    }

    fn end(&self, signal: &str) {
        let mut keeper = self.keeper();
        must(keeper.signal(signal));
        must(keeper.wait());
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Id, key, body, then the name and value of each header. Everything except the id is hexadecimal.
fn request(line: &str) -> Request {
    let mut fields = line.split('\t');
    let id = fields.next().unwrap_or_default().to_owned();
    let mut rest: Vec<Vec<u8>> = fields.skip(1).map(bytes).collect();
    let body = if rest.is_empty() { Vec::new() } else { rest.remove(0) };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Request { id, body, headers: rest.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect() }
}

#[allow(clippy::expect_used, reason = "a test that cannot go on fails")]
fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[allow(clippy::panic, reason = "a test that cannot go on fails")]
fn must(done: Result<(), String>) {
    if let Err(reason) = done {
        panic!("the endpoint: {reason}");
    }
}
