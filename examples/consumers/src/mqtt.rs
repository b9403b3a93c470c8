//! An MQTT 5 consumer that queues one mail per order, however often an event is delivered.
//!
//! `cargo run -p postrider-consumers-example --features mqtt --bin mqtt -- mail.db 127.0.0.1 1883 orders` prints a line per
//! message. It can be killed at any time and started again.
#![allow(clippy::print_stdout, reason = "what it prints is what it shows")]

use std::time::Duration;

use postrider::inbox::{Inbox, Incoming, Once};
use postrider::store::sqlite::SqliteStore;
use rumqttc::{
    AckMode, Broker, BrokerSessionResumePolicy, Client, Event, MqttOptions, Packet, Publish, QoS, SessionMode,
};
use rusqlite::{Connection, TransactionBehavior};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Read, begin, once, commit. The caller acknowledges.
fn receive(db: &mut Connection, inbox: &Inbox, message: &Publish) -> Result<()> {
    let body = &message.payload;
    let properties = message.properties.iter().flat_map(|all| &all.user_properties);
    let pairs = properties.map(|(name, value)| (name.as_str(), value.as_bytes()));
    let incoming = match Incoming::of(pairs, body) {
        Ok(incoming) => incoming,
        Err(why) => {
            // Not from a relay. Without an acknowledgement it would come again: a service stores it for a person.
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
    let [file, host, port, topic] = arguments.as_slice() else {
        return Err("usage: mqtt DATABASE HOST PORT TOPIC".into());
    };
    SqliteStore::migrate(file)?; // creates the inbox
    let mut db = Connection::open(file)?;
    db.busy_timeout(Duration::from_secs(30))?;
    db.execute("CREATE TABLE IF NOT EXISTS mails (id INTEGER PRIMARY KEY, event BLOB NOT NULL)", [])?;
    let inbox = Inbox::new();
    let mut options = MqttOptions::new("mail-1", Broker::tcp(host.as_str(), port.parse()?));
    options.set_session_mode(SessionMode::Persistent); // the broker keeps messages while this program is down
    options.set_broker_session_resume_policy(BrokerSessionResumePolicy::AllowBrokerOnly);
    options.set_ack_mode(AckMode::Manual); // a message is acknowledged after its transaction, never before
    options.set_unlimited_incoming_packet_size();
    let (client, mut connection) = Client::builder(options).build();
    for event in connection.iter() {
        match event? {
            // Without a session that the broker has kept.
            Event::Incoming(Packet::ConnAck(accepted)) if !accepted.session_present => {
                client.subscribe(topic.as_str(), QoS::AtLeastOnce)?;
            }
            Event::Incoming(Packet::SubAck(_)) => println!("subscribed"),
            Event::Incoming(Packet::Publish(message)) => {
                receive(&mut db, &inbox, &message)?;
                client.ack(&message)?; // a duplicate is acknowledged like any other
            }
            _ => {}
        }
    }
    Ok(())
}
