//! A small HTTP client with a cookie, that sends exactly what a test says.

use std::net::SocketAddr;
use std::time::Duration;

use postrider_dashboard::{Dashboard, Login, Role, Source, Token};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) const ROLES: [(Role, &str, &str); 3] = [
    (Role::Viewer, "vera", "canary-viewer-token-0001"),
    (Role::Reader, "rita", "canary-reader-token-0002"),
    (Role::Operator, "otto", "canary-operator-token-0003"),
];

/// A running dashboard with one token per role.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves an outbox named `shop`.
pub(crate) async fn serve(source: impl Source) -> Served {
    serve_with(source, |dashboard| dashboard).await
}

pub(crate) async fn serve_with(source: impl Source, with: impl FnOnce(Dashboard) -> Dashboard) -> Served {
    serve_router(source, |dashboard| with(dashboard).router()).await
}

/// The same in another program, under a prefix.
pub(crate) async fn serve_nested(source: impl Source, prefix: &str) -> Served {
    let nested = |dashboard: Dashboard| axum::Router::new().nest(prefix, dashboard.prefix(prefix).router());
    serve_router(source, nested).await
}

async fn serve_router(source: impl Source, router: impl FnOnce(Dashboard) -> axum::Router) -> Served {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let tokens = ROLES.map(|(role, name, token)| Token::new(name, role, token));
    let login = Login::tokens(tokens).unwrap().address(address);
    let router = router(Dashboard::new(login).outbox("shop", source));
    let task = tokio::spawn(async move { postrider_dashboard::serve(socket, router).await.unwrap() });
    Served { address, task }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Where it leads.
    pub(crate) fn location(&self) -> &str {
        self.header("location").unwrap_or_else(|| panic!("no redirect: {self:?}"))
    }
}

/// One browser.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) cookie: Option<String>,
}

impl Client {
    pub(crate) fn new(served: &Served) -> Self {
        Self { address: served.address, cookie: None }
    }

    /// A browser of a person with this role.
    pub(crate) async fn of(served: &Served, role: Role) -> Self {
        let mut client = Self::new(served);
        let (_, _, token) = ROLES.iter().find(|(known, ..)| *known == role).unwrap();
        let answer = client.post("/login", &[("secret", token)]).await;
        assert_eq!(answer.status, 303, "{answer:?}");
        let cookie = answer.header("set-cookie").unwrap();
        assert!(cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict"), "{cookie}");
        client.cookie = Some(cookie.split(';').next().unwrap().to_owned());
        client
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[("host", &self.address.to_string())], "").await
    }

    /// A page that must be there.
    pub(crate) async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    pub(crate) async fn post(&self, path: &str, form: &[(&str, &str)]) -> Answer {
        let host = self.address.to_string();
        let own = [
            ("host", host.as_str()),
            ("sec-fetch-site", "same-origin"),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        self.send("POST", path, &own, &encoded(form)).await
    }

    /// A request with just these headers, and the cookie.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(cookie) = &self.cookie {
            request.push_str(&format!("cookie: other=1; {cookie}\r\n"));
        }
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(format!("{request}\r\n{body}").as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        answer(&bytes)
    }

    /// Opens a stream of updates, and returns its beginning up to this text.
    pub(crate) async fn stream_until(&self, path: &str, text: &str) -> String {
        let cookie = self.cookie.clone().unwrap_or_default();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\ncookie: {cookie}\r\n\r\n", self.address);
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut received = String::new();
        let mut part = vec![0; 65_536];
        let reading = async {
            while !received.contains(text) {
                let read = stream.read(&mut part).await.unwrap();
                assert!(read > 0, "the stream ended: {received}");
                received.push_str(&String::from_utf8_lossy(&part[..read]));
            }
        };
        tokio::time::timeout(Duration::from_secs(60), reading).await.expect("no such update within a minute");
        received
    }
}

fn answer(bytes: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let header =
        |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    Answer { status, headers: lines.filter_map(header).collect(), body: body.to_owned() }
}

/// A form as a browser sends it.
pub(crate) fn encoded(form: &[(&str, &str)]) -> String {
    let escape = |text: &str| -> String {
        text.bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
                byte => format!("%{byte:02X}"),
            })
            .collect()
    };
    form.iter()
        .map(|(name, value)| format!("{}={}", escape(name), escape(value)))
        .collect::<Vec<_>>()
        .join("&")
}

/// The value of the first attribute that begins like this, without escapes of HTML.
pub(crate) fn attribute<'a>(html: &'a str, start: &str) -> Option<&'a str> {
    let after = html.split_once(start)?.1;
    after.split('"').next()
}
