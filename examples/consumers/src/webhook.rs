//! A webhook receiver that queues one mail per order, however often an event is delivered.
//!
//! `cargo run -p postrider-consumers-example --bin webhook -- mail.db whsec_...` prints its address, and then a line per
//! request.
#![allow(clippy::print_stdout, reason = "what it prints is what it shows")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use postrider::inbox::{Inbox, Once};
use postrider::store::sqlite::SqliteStore;
use postrider_sinks::webhook::Verifier;
use rusqlite::{Connection, TransactionBehavior};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Larger bodies than any event.
const BODY_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Verify, begin, once, commit, and only then answer.
fn receive(
    db: &mut Connection,
    inbox: &Inbox,
    verifier: &Verifier,
    request: &Request,
) -> Result<&'static str> {
    let header = |name: &str| request.headers.get(name).map(String::as_str);
    let incoming = match verifier.receive(header, &request.body) {
        Ok(incoming) => incoming,
        Err(why) => {
            println!("refused: {why}");
            return Ok("401 Unauthorized");
        }
    };
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let once = inbox.once_blocking(&tx, "mail", incoming.event_id, |tx| queue_mail(tx, &request.body))?;
    tx.commit()?; // the mail and the inbox row, or neither
    match once {
        Once::Applied(mail) => println!("applied: mail {mail}"),
        Once::Duplicate => println!("duplicate"),
    }
    Ok("204 No Content") // a duplicate is acknowledged like any other
}

/// The effect, in the same transaction as the inbox row. Another program sends the mails of this table.
fn queue_mail(tx: &Connection, event: &[u8]) -> Result<i64> {
    tx.execute("INSERT INTO mails (event) VALUES (?)", [event])?;
    Ok(tx.last_insert_rowid())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, secret] = arguments.as_slice() else { return Err("usage: webhook DATABASE SECRET".into()) };
    SqliteStore::migrate(file)?; // creates the inbox
    let mut db = Connection::open(file)?;
    db.execute("CREATE TABLE IF NOT EXISTS mails (id INTEGER PRIMARY KEY, event BLOB NOT NULL)", [])?;
    let (inbox, verifier) = (Inbox::new(), Verifier::new([secret])?);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("listening on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let mut stream = stream?;
        let answer = match Request::read(&stream) {
            // An error here is not the sender's: it delivers the event again.
            Ok(request) => receive(&mut db, &inbox, &verifier, &request).unwrap_or("503 Service Unavailable"),
            Err(_) => "400 Bad Request",
        };
        write!(stream, "HTTP/1.1 {answer}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")?;
    }
    Ok(())
}

/// As much of HTTP as the example needs; use the server that you have.
struct Request {
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

impl Request {
    fn read(stream: &TcpStream) -> Result<Self> {
        let mut reader = BufReader::new(stream);
        let (mut headers, mut line) = (HashMap::new(), String::new());
        reader.read_line(&mut line)?;
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length: u64 = headers.get("content-length").map_or(Ok(0), |text| text.parse())?;
        let mut body = Vec::new();
        reader.take(length.min(BODY_BYTES_MAX)).read_to_end(&mut body)?;
        Ok(Self { headers, body })
    }
}
