//! A fake schema registry that fails as told. For what a registry does when it works, tests use a real
//! [`Apicurio`](super::apicurio::Apicurio).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// How it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// As a registry.
    None,
    /// It closes every connection.
    Down,
    /// 500.
    Broken,
    /// 401.
    Unauthorised,
    /// 200 with HTML.
    Wrong,
    /// It does not answer until the fault changes.
    Slow,
    /// 302 to itself.
    Redirect,
    /// An answer without an end.
    Huge,
    /// 409 with words.
    Incompatible,
}

/// A fake on loopback. It ends with the process.
#[derive(Debug, Clone)]
pub struct FakeRegistry {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    fault: Fault,
    /// Schemas by subject, with their ids.
    known: BTreeMap<(String, String), u32>,
    requests: usize,
    /// The headers `authorization` that were sent.
    logins: Vec<String>,
}

impl FakeRegistry {
    /// Starts it.
    #[allow(clippy::expect_used, reason = "a test that cannot go on fails")]
    pub fn start(fault: Fault) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let state = State { fault, known: BTreeMap::new(), requests: 0, logins: Vec::new() };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let serving = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = serving.clone();
                std::thread::spawn(move || _ = shared.serve(&stream));
            }
        });
        Self { port, shared }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Changes how it answers.
    pub fn set(&self, fault: Fault) {
        self.shared.lock().fault = fault;
        self.shared.changed.notify_all();
    }

    /// Makes it know a schema. Returns the id.
    pub fn add(&self, subject: &str, schema: &str) -> u32 {
        self.shared.lock().add(subject, schema)
    }

    /// Makes it know a schema under this id.
    pub fn add_with_id(&self, subject: &str, schema: &str, id: u32) {
        self.shared.lock().known.insert((subject.to_owned(), schema.to_owned()), id);
    }

    /// Waits until it got this many requests since its start.
    pub fn wait_for_requests(&self, count: usize) {
        let mut state = self.shared.lock();
        while state.requests < count {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The number of requests.
    pub fn requests(&self) -> usize {
        self.shared.lock().requests
    }

    /// The headers `authorization` that were sent.
    pub fn logins(&self) -> Vec<String> {
        self.shared.lock().logins.clone()
    }
}

impl State {
    fn add(&mut self, subject: &str, schema: &str) -> u32 {
        let next = u32::try_from(self.known.len() + 1).unwrap_or(u32::MAX);
        *self.known.entry((subject.to_owned(), schema.to_owned())).or_insert(next)
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers the requests of a connection.
    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut stream = stream;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            let (mut length, mut login) = (0, None);
            loop {
                let mut header = String::new();
                reader.read_line(&mut header)?;
                let Some((name, value)) = header.trim().split_once(": ") else { break };
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.parse().unwrap_or(0),
                    "authorization" => login = Some(value.to_owned()),
                    _ => {}
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            let mut state = self.lock();
            state.requests += 1;
            state.logins.extend(login);
            self.changed.notify_all();
            while state.fault == Fault::Slow {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let (status, answer) = match state.fault {
                Fault::None | Fault::Slow => answer(&mut state, &path, &body),
                Fault::Down => return stream.shutdown(std::net::Shutdown::Both),
                Fault::Broken => (500, r#"{"error_code":50001,"message":"broken"}"#.to_owned()),
                Fault::Unauthorised => (401, r#"{"error_code":40101,"message":"no"}"#.to_owned()),
                Fault::Wrong => (200, "<html>a proxy</html>".to_owned()),
                Fault::Redirect => (302, String::new()),
                Fault::Incompatible => {
                    (409, r#"{"error_code":409,"message":"field x was removed"}"#.to_owned())
                }
                Fault::Huge => {
                    drop(state);
                    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 100000000000\r\n\r\n")?;
                    loop {
                        stream.write_all(&[b'['; 65_536])?;
                    }
                }
            };
            drop(state);
            write!(
                stream,
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nlocation: /elsewhere\r\ncontent-length: {}\r\n\r\n{answer}",
                answer.len()
            )?;
        }
    }
}

/// `POST /subjects/S` finds a schema, `POST /subjects/S/versions` registers it.
fn answer(state: &mut State, path: &str, body: &[u8]) -> (u16, String) {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let schema = body["schema"].as_str().unwrap_or_default().to_owned();
    let path = path.split('?').next().unwrap_or_default();
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["subjects", subject] => match state.known.get(&((*subject).to_owned(), schema)) {
            Some(id) => (200, format!(r#"{{"subject":"{subject}","id":{id},"version":1}}"#)),
            None => (404, r#"{"error_code":40403,"message":"Schema not found"}"#.to_owned()),
        },
        ["subjects", subject, "versions"] => {
            let id = state.add(subject, &schema);
            (200, format!(r#"{{"id":{id}}}"#))
        }
        ["compatibility", ..] => (200, r#"{"is_compatible":true}"#.to_owned()),
        _ => (404, "no such page".to_owned()),
    }
}
