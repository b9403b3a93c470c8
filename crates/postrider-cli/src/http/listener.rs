//! The listener: a small HTTP/1.1 server with limits on everything a client controls.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use postrider::relay::RelayHandle;
use postrider::{Code, Error, Timestamp};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::readiness::Readiness;
use super::recorder::Recorder;
use crate::config::settings::HttpSettings;

/// Connections at a time. More wait in the queue of the operating system.
const CONNECTIONS_MAX: usize = 32;

/// The line and headers of a request must arrive within this time, also on a connection that is kept open.
const HEADERS_TIME_MAX: Duration = Duration::from_secs(10);

/// A connection is closed after this time, whatever it does.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(60);

/// The line and headers of a request, in bytes and in number.
const HEADERS_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;

/// After an error of the operating system, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Listens for requests until it is dropped.
pub struct Listener {
    answers: Arc<Answers>,
    _tasks: JoinSet<()>,
}

/// What is needed to answer.
struct Answers {
    recorder: Recorder,
    stalled_after: Duration,
    /// Set when the relay has started.
    relay: OnceLock<RelayHandle>,
}

impl Listener {
    /// Opens the address of the configuration, and answers from now on.
    ///
    /// # Errors
    /// [`Code::HttpListen`] if it is in use or not available.
    pub async fn open(
        address: SocketAddr,
        settings: &HttpSettings,
        recorder: Recorder,
    ) -> Result<Self, Error> {
        let socket = TcpListener::bind(address).await.map_err(|e| {
            Error::new(Code::HttpListen, format!("cannot listen on {address} ([http] listen)")).with_source(e)
        })?;
        let address = socket.local_addr().unwrap_or(address);
        tracing::info!(%address, "serving /metrics, /livez and /readyz");
        let answers = Answers { recorder, stalled_after: settings.stalled_after, relay: OnceLock::new() };
        let (answers, mut tasks) = (Arc::new(answers), JoinSet::new());
        tasks.spawn(accept(socket, answers.clone()));
        Ok(Self { answers, _tasks: tasks })
    }

    /// From now on, answers are about this relay.
    pub fn relay(&self, relay: RelayHandle) {
        // Set once: a process has one relay.
        let _ = self.answers.relay.set(relay);
    }
}

/// Accepts connections. Never returns; dropping the future closes the listener and its connections.
async fn accept(socket: TcpListener, answers: Arc<Answers>) {
    let mut connections = JoinSet::new();
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match socket.accept().await {
            Ok((stream, _)) => {
                let answers = answers.clone();
                connections.spawn(async move {
                    serve(stream, answers).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection to the HTTP listener failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, answers: Arc<Answers>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answers = answers.clone();
        async move { Ok::<_, Infallible>(answers.answer(&request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIME_MAX)
        .max_buf_size(HEADERS_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    if let Ok(Err(error)) = tokio::time::timeout(CONNECTION_TIME_MAX, connection).await {
        tracing::debug!(%error, "a request to the HTTP listener failed");
    }
}

impl Answers {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        match request.uri().path() {
            "/metrics" => {
                if let Some(relay) = self.relay.get() {
                    relay.refresh_metrics().await;
                }
                response(StatusCode::OK, METRICS, self.recorder.text())
            }
            // The process answers: everything else is a matter of /readyz, which does not restart it.
            "/livez" => response(StatusCode::OK, TEXT, "ok\n"),
            "/readyz" => {
                let readiness = self.readiness().await;
                let status = match readiness.is_ready() {
                    true => StatusCode::OK,
                    false => StatusCode::SERVICE_UNAVAILABLE,
                };
                response(status, JSON, serde_json::to_string(&readiness).unwrap_or_default())
            }
            _ => response(StatusCode::NOT_FOUND, TEXT, "there are /metrics, /livez and /readyz\n"),
        }
    }

    async fn readiness(&self) -> Readiness {
        let Some(relay) = self.relay.get() else { return Readiness::starting() };
        let outboxes = relay.refresh_metrics().await;
        Readiness::of(&relay.status(), &outboxes, self.stalled_after, Timestamp::now())
    }
}

fn response(status: StatusCode, content: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}
