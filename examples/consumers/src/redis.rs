//! A Redis consumer that queues one mail per order, however often an event is delivered.
//!
//! `cargo run -p postrider-consumers-example --features redis --bin redis -- mail.db redis://127.0.0.1:6379 orders` prints a
//! line per entry. It can be killed at any time and started again.
#![allow(clippy::print_stdout, reason = "what it prints is what it shows")]

use std::time::Duration;

use postrider::inbox::{Inbox, Incoming, Once};
use postrider::store::sqlite::SqliteStore;
use redis::streams::{StreamReadOptions, StreamReadReply};
use redis::{Client, Commands as _};
use rusqlite::{Connection, TransactionBehavior};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The consumer group of this service, and the name of this process in it: a restart continues with its own entries.
const GROUP: &str = "mail";
const CONSUMER: &str = "mail-1";

/// Read, begin, once, commit. The caller acknowledges.
fn receive(db: &mut Connection, inbox: &Inbox, fields: &[(String, Vec<u8>)]) -> Result<()> {
    let body = fields.iter().find(|(name, _)| name == "body").map_or(&[][..], |(_, value)| value);
    let pairs = fields.iter().map(|(name, value)| (&**name, &**value));
    let incoming = match Incoming::of(pairs, body) {
        Ok(incoming) => incoming,
        Err(why) => {
            // Not from a relay. Without an acknowledgement it would be read again: a service stores it for a person.
            println!("refused: {why}");
            return Ok(());
        }
    };
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let once = inbox.once_blocking(&tx, "mail", incoming.event_id, |tx| queue_mail(tx, body))?;
    tx.commit()?; // the mail and the inbox row, or neither
    match once {
        Once::Applied(mail) => println!("applied: mail {mail}"),
        Once::Duplicate => println!("duplicate"),
    }
    Ok(())
}

/// The effect, in the same transaction as the inbox row. Another program sends the mails of this table.
fn queue_mail(tx: &Connection, event: &[u8]) -> Result<i64> {
    tx.execute("INSERT INTO mails (event) VALUES (?)", [event])?;
    Ok(tx.last_insert_rowid())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, url, stream] = arguments.as_slice() else {
        return Err("usage: redis DATABASE URL STREAM".into());
    };
    SqliteStore::migrate(file)?; // creates the inbox
    let mut db = Connection::open(file)?;
    db.busy_timeout(Duration::from_secs(30))?;
    db.execute("CREATE TABLE IF NOT EXISTS mails (id INTEGER PRIMARY KEY, event BLOB NOT NULL)", [])?;
    let inbox = Inbox::new();
    let mut server = Client::open(url.as_str())?.get_connection()?;
    match server.xgroup_create_mkstream(stream, GROUP, "0") {
        Err(error) if error.code() == Some("BUSYGROUP") => {} // it exists since the first start
        created => created?,
    }
    // First the entries that were read and not acknowledged before a restart, then new ones.
    let mut after = "0".to_owned();
    loop {
        let options = StreamReadOptions::default().group(GROUP, CONSUMER).count(100).block(1_000);
        let read: Option<StreamReadReply> = server.xread_options(&[stream], &[&after], &options)?;
        let entries = read.into_iter().flat_map(|read| read.keys).flat_map(|key| key.ids);
        let mut is_empty = true;
        for entry in entries {
            is_empty = false;
            let fields = entry.map.iter().filter_map(|(name, value)| {
                let value: Vec<u8> = redis::from_redis_value_ref(value).ok()?;
                Some((name.clone(), value))
            });
            receive(&mut db, &inbox, &fields.collect::<Vec<_>>())?;
            let _: usize = server.xack(stream, GROUP, &[&entry.id])?; // a duplicate is acknowledged like any other
            if after != ">" {
                after = entry.id;
            }
        }
        if is_empty {
            after = ">".to_owned();
        }
    }
}
