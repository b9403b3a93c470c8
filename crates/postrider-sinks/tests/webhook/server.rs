//! A small HTTP/1.1 server on loopback that answers as configured and records its requests.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// Method, target and version.
    pub(crate) line: String,
    /// By name in lower case.
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Bytes,
}

/// What to do with a request.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// Answer with this status, these header lines and this body.
    With(u16, String, String),
    /// Write these bytes and close.
    Raw(Vec<u8>),
    /// Do not answer, and keep the connection open.
    Never,
    /// Close without an answer.
    Cut,
}

impl Answer {
    pub(crate) fn status(status: u16) -> Self {
        Self::With(status, String::new(), String::new())
    }

    pub(crate) fn header(status: u16, line: &str) -> Self {
        Self::With(status, format!("{line}\r\n"), String::new())
    }

    pub(crate) fn body(status: u16, body: &str) -> Self {
        Self::With(status, String::new(), body.to_owned())
    }
}

type Answering = dyn Fn(&Request) -> Answer + Send + Sync;

struct State {
    answer: Box<Answering>,
    /// Complete requests, in order of arrival.
    requests: Mutex<Vec<Request>>,
    arrived: Notify,
    /// The number of unanswered requests, now and at most.
    open: AtomicUsize,
    open_max: AtomicUsize,
    /// A request is answered when it gets one of these permits.
    may_answer: Semaphore,
}

/// The server. It stops when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    listening: Mutex<Option<JoinSet<()>>>,
}

impl Server {
    pub(crate) async fn start(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let server = Self::holding(answer).await;
        server.let_answer(Semaphore::MAX_PERMITS);
        server
    }

    /// Reads requests and answers none before [`Server::let_answer`].
    pub(crate) async fn holding(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            answer: Box::new(answer),
            requests: Mutex::default(),
            arrived: Notify::new(),
            open: AtomicUsize::new(0),
            open_max: AtomicUsize::new(0),
            may_answer: Semaphore::new(0),
        });
        let server = Self { address, state, listening: Mutex::default() };
        server.listen(listener);
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    fn listen(&self, listener: TcpListener) {
        let (state, mut tasks) = (self.state.clone(), JoinSet::new());
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let state = state.clone();
                connections.spawn(async move {
                    let _ = serve(&state, stream).await;
                });
            }
        });
        *self.listening.lock().unwrap() = Some(tasks);
    }

    /// Closes the port and every connection.
    pub(crate) async fn stop(&self) {
        let tasks = self.listening.lock().unwrap().take();
        if let Some(mut tasks) = tasks {
            tasks.shutdown().await;
        }
    }

    /// Listens on the same port again.
    pub(crate) async fn start_again(&self) {
        self.listen(TcpListener::bind(self.address).await.unwrap());
    }

    pub(crate) fn let_answer(&self, requests: usize) {
        self.state.may_answer.add_permits(requests);
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state.requests.lock().unwrap().clone()
    }

    /// Waits until this many requests have arrived.
    pub(crate) async fn wait_for(&self, count: usize) {
        loop {
            let arrived = self.state.arrived.notified();
            if self.state.requests.lock().unwrap().len() >= count {
                return;
            }
            arrived.await;
        }
    }

    /// The maximum number of concurrent requests.
    pub(crate) fn open_max(&self) -> usize {
        self.state.open_max.load(Ordering::SeqCst)
    }
}

async fn serve(state: &State, stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await? {
        let open = state.open.fetch_add(1, Ordering::SeqCst) + 1;
        state.open_max.fetch_max(open, Ordering::SeqCst);
        let answer = (state.answer)(&request);
        state.requests.lock().unwrap().push(request);
        state.arrived.notify_waiters();
        state.may_answer.acquire().await.unwrap().forget();
        state.open.fetch_sub(1, Ordering::SeqCst);
        match answer {
            Answer::With(status, headers, body) => {
                let length = body.len();
                let head = format!("HTTP/1.1 {status} Said\r\ncontent-length: {length}\r\n{headers}\r\n");
                stream.write_all((head + &body).as_bytes()).await?;
            }
            Answer::Raw(bytes) => return stream.write_all(&bytes).await,
            Answer::Never => std::future::pending().await,
            Answer::Cut => return Ok(()),
        }
    }
    Ok(())
}

async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut headers = HashMap::new();
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        let twice = headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        assert!(twice.is_none(), "the header {name} arrived twice");
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(Request { line: line.trim_end().to_owned(), headers, body: body.into() }))
}

/// Decodes the value of a header as a receiver does.
pub(crate) fn percent_decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).unwrap()
}
