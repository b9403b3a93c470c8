//! An endpoint for webhooks, in Python: it checks signatures with its own code and keeps its requests in a file.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::keeper::Keeper;
use super::{free_port, skipped};

const PROGRAM: &str = include_str!("receive.py");
/// What it says when it listens.
const READY: &str = "ready";
/// What requests must be signed with.
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// An endpoint. It is gone when this is dropped, and when the process ends, however it does; so is its file.
#[derive(Debug)]
pub struct Endpoint {
    port: u16,
    folder: PathBuf,
    keeper: Mutex<Keeper>,
}

/// A request as the endpoint took it. A request without a valid signature is refused with 400 and is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The event's id.
    pub id: String,
    /// The body.
    pub body: Vec<u8>,
    /// The headers as they arrived, their names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Request {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Endpoint {
    /// Starts one; `None`, with a line that says why, if there is none.
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

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The file it keeps requests in, in the order it took them; not there before the first.
    pub fn file(&self) -> PathBuf {
        self.folder.join("received")
    }

    /// What it has taken, in the order it did.
    pub fn received(&self) -> Vec<Request> {
        let text = std::fs::read_to_string(self.file()).unwrap_or_default();
        // A line that is being written has no end yet.
        let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        whole.lines().map(request).collect()
    }

    /// Starts it again, on its port and with its file.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(&self) {
        must(self.keeper().start(READY));
    }

    /// Ends it; gone when this returns.
    ///
    /// # Panics
    /// If the process does not follow the command.
    pub fn stop(&self) {
        self.end("TERM");
    }

    /// `kill -9`; gone when this returns.
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

    /// Lets a frozen one go on.
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

/// Id, key, body, then name and value of each header; all but the id in hexadecimal.
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
