//! `postrider healthcheck`

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use clap::Args;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use postrider::{Code, Error};
use serde::Serialize;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::config::duration;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::{Threads, block_on};
use crate::output::{Align, Table, View};

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Ask the running relay whether it is ready
///
/// Requests /readyz of the relay that runs with the same configuration, at the address `listen` of `[http]`. The exit
/// code is 0 if it is ready, and 1 if it is not or does not answer: for containers and service managers.
///
/// Not ready are: a backlog without progress, and a database that cannot be reached. A relay on standby, a paused
/// subscription and a destination that is down are ready: a restart would not help.
#[derive(Debug, Args)]
#[command(before_help = "Examples:
  postrider healthcheck
  postrider healthcheck --timeout 2s --json")]
pub struct Healthcheck {
    /// How long to wait for the answer
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    timeout: Duration,
}

fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    duration::parse(text).ok_or("write it as 500ms, 30s, 5m or 1h")
}

#[derive(Serialize)]
struct Health {
    ready: bool,
    problems: Vec<String>,
}

impl View for Health {
    fn table(&self) -> Table {
        let mut table = Table::new([("not ready", Align::Left)], "ready");
        self.problems.iter().for_each(|problem| table.row([problem.clone()]));
        table
    }
}

impl Healthcheck {
    pub(super) fn run(&self, context: &Context) -> Result<(), Failure> {
        let settings = context.settings()?;
        let Some(address) = settings.http.listen else {
            return Err(Error::new(
                Code::ConfigKeyMissing,
                "the relay of this configuration has no HTTP listener",
            )
            .with_hint("set listen in [http], such as \"127.0.0.1:9464\", and restart the relay")
            .into());
        };
        let health = block_on(Threads::One, async { Ok(self.ask(reachable(address)).await?) })?;
        context.output.data(&health)?;
        if health.ready { Ok(()) } else { Err(Failure::Reported(Exit::Failed)) }
    }

    async fn ask(&self, address: SocketAddr) -> Result<Health, Error> {
        let failed = |why: String| {
            Error::new(Code::HttpAnswer, format!("the relay at {address} did not answer: {why}"))
        };
        let answer = tokio::time::timeout(self.timeout, request(address)).await;
        let (status, body) =
            answer.map_err(|_| failed(format!("no answer within {:?}", self.timeout)))?.map_err(failed)?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let problems = body["problems"].as_array().into_iter().flatten();
        let problems = problems.filter_map(Value::as_str).map(str::to_owned).collect();
        match status {
            StatusCode::OK => Ok(Health { ready: true, problems }),
            StatusCode::SERVICE_UNAVAILABLE => Ok(Health { ready: false, problems }),
            other => Err(failed(format!("status {other}: another program listens there"))),
        }
    }
}

/// A listener on all addresses is asked on the loopback address.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

async fn request(address: SocketAddr) -> Result<(StatusCode, Bytes), String> {
    let stream = TcpStream::connect(address).await.map_err(|e| e.to_string())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
    let connection = tokio::spawn(connection);
    let request = Request::get("/readyz").header(HOST, address.to_string()).body(Empty::<Bytes>::new());
    let answer = sender.send_request(request.map_err(|e| e.to_string())?).await.map_err(|e| e.to_string())?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    connection.abort();
    Ok((status, body.map_err(|e| e.to_string())?.to_bytes()))
}
