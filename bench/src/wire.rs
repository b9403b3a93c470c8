//! Counts what a client and a server exchange: a proxy that knows as much of their protocol as it needs for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::Error;

/// The code of a request for TLS, and of one for GSSAPI: the first message follows again.
const ENCRYPTION_REQUESTS: [u32; 2] = [80_877_103, 80_877_104];

/// The protocol between client and server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Protocol {
    Postgres,
    MySql,
}

/// What was counted, over all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exchanged {
    /// How often the client sent something after the server had answered.
    pub(crate) round_trips: u64,
    /// Statements that the client had executed.
    pub(crate) statements: u64,
}

impl Exchanged {
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            round_trips: self.round_trips - earlier.round_trips,
            statements: self.statements - earlier.statements,
        }
    }
}

/// A proxy to a server.
pub(crate) struct Counter {
    protocol: Protocol,
    server: (String, u16),
    round_trips: AtomicU64,
    statements: AtomicU64,
}

impl Counter {
    /// Listens on loopback until the program ends, and returns its port.
    pub(crate) async fn listen(protocol: Protocol, host: &str, port: u16) -> Result<(Arc<Self>, u16), Error> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let own = listener.local_addr()?.port();
        let server = (host.to_owned(), port);
        let counter = Arc::new(Self {
            protocol,
            server,
            round_trips: AtomicU64::new(0),
            statements: AtomicU64::new(0),
        });
        let counting = counter.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // A client whose connection is closed reports that itself.
                let counting = counting.clone();
                tokio::spawn(async move { counting.forward(client).await });
            }
        });
        Ok((counter, own))
    }

    pub(crate) fn read(&self) -> Exchanged {
        Exchanged {
            round_trips: self.round_trips.load(Ordering::Relaxed),
            statements: self.statements.load(Ordering::Relaxed),
        }
    }

    /// Both directions in one task, so that their order is known.
    async fn forward(&self, mut client: TcpStream) -> std::io::Result<()> {
        let (host, port) = &self.server;
        let mut server = TcpStream::connect((host.as_str(), *port)).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (mut request, mut response) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        let mut messages = Messages::new(self.protocol);
        let mut has_answered = true;
        loop {
            tokio::select! {
                read = client.read(&mut request) => {
                    let sent = &request[..read?];
                    if sent.is_empty() {
                        return Ok(());
                    }
                    if std::mem::take(&mut has_answered) {
                        self.round_trips.fetch_add(1, Ordering::Relaxed);
                    }
                    self.statements.fetch_add(messages.statements(sent), Ordering::Relaxed);
                    server.write_all(sent).await?;
                }
                read = server.read(&mut response) => {
                    let sent = &response[..read?];
                    if sent.is_empty() {
                        return Ok(());
                    }
                    has_answered = true;
                    client.write_all(sent).await?;
                }
            }
        }
    }
}

/// Finds the messages in what a client sends. Keeps the head of one message, and not its content.
struct Messages {
    protocol: Protocol,
    head: Vec<u8>,
    skipped: usize,
    /// On PostgreSQL, the first message has no type.
    is_started: bool,
}

impl Messages {
    fn new(protocol: Protocol) -> Self {
        Self { protocol, head: Vec::new(), skipped: 0, is_started: false }
    }

    /// How many statements these bytes begin.
    fn statements(&mut self, mut sent: &[u8]) -> u64 {
        let mut statements = 0;
        while !sent.is_empty() {
            let skipped = self.skipped.min(sent.len());
            self.skipped -= skipped;
            sent = &sent[skipped..];
            let [next, rest @ ..] = sent else { break };
            self.head.push(*next);
            sent = rest;
            if self.head.len() == self.head_bytes() {
                statements += u64::from(self.is_statement());
            }
        }
        statements
    }

    fn head_bytes(&self) -> usize {
        match (self.protocol, self.is_started) {
            (Protocol::Postgres, false) => 8,
            (Protocol::Postgres, true) => 5,
            (Protocol::MySql, _) if self.head.starts_with(&[0; 3]) => 4,
            (Protocol::MySql, _) => 5,
        }
    }

    /// Whether the message with this head is a statement. Its content is skipped.
    fn is_statement(&mut self) -> bool {
        let number = |bytes: &[u8]| bytes.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        let head = std::mem::take(&mut self.head);
        match (self.protocol, self.is_started) {
            (Protocol::Postgres, false) => {
                self.is_started = !ENCRYPTION_REQUESTS.contains(&number(&head[4..]));
                self.skipped = (number(&head[..4]) as usize).saturating_sub(8);
                false
            }
            // `Query` and `Execute`.
            (Protocol::Postgres, true) => {
                self.skipped = (number(&head[1..]) as usize).saturating_sub(4);
                matches!(head[0], b'Q' | b'E')
            }
            (Protocol::MySql, _) => {
                let bytes = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
                self.skipped = bytes.saturating_sub(1);
                // The first packet of a command: `COM_QUERY` and `COM_STMT_EXECUTE`.
                head[3] == 0 && matches!(head.get(4), Some(0x03 | 0x17))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts in one piece, and byte by byte.
    fn statements(protocol: Protocol, sent: &[u8]) -> u64 {
        let whole = Messages::new(protocol).statements(sent);
        let mut messages = Messages::new(protocol);
        assert_eq!(sent.iter().map(|byte| messages.statements(&[*byte])).sum::<u64>(), whole);
        whole
    }

    #[test]
    fn statements_of_postgresql_are_queries_and_executions() {
        let mut sent = vec![0, 0, 0, 8, 4, 210, 22, 47]; // TLS?
        sent.extend([0, 0, 0, 9, 0, 3, 0, 0, 0]); // the first message
        sent.extend([b'Q', 0, 0, 0, 10, b'B', b'E', b'G', b'I', b'N', 0]);
        sent.extend([
            b'P', 0, 0, 0, 5, b'Q', b'B', 0, 0, 0, 4, b'E', 0, 0, 0, 6, b'E', b'Q', b'S', 0, 0, 0, 4,
        ]);
        assert_eq!(statements(Protocol::Postgres, &sent), 2);
    }

    #[test]
    fn statements_of_mysql_are_commands_that_execute() {
        let mut sent = vec![2, 0, 0, 1, 3, 3]; // a packet of the login
        sent.extend([0, 0, 0, 3]); // an empty one
        sent.extend([6, 0, 0, 0, 0x03, b'B', b'E', b'G', b'I', b'N']);
        sent.extend([2, 0, 0, 0, 0x16, 3, 3, 0, 0, 0, 0x17, 0, 0, 1, 0, 0, 0, 0x0e]);
        assert_eq!(statements(Protocol::MySql, &sent), 2);
    }
}
