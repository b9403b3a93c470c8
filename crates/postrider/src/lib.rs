//! Postrider is a transactional outbox. The application writes an event in its own transaction, next to the rows it
//! changes. A relay delivers every committed event at least once and in order per key, to one or more subscriptions.
//!
//! # Example
//!
//! This writes an order and its event in one transaction, and runs a relay with a destination that the program
//! implements itself. Destinations such as Kafka, webhooks and files are in the crate `postrider-sinks`.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use postrider::sink::{Message, Outcome, Receipt, Sink};
//! use postrider::store::{Store as _, sqlite::SqliteStore};
//! use postrider::{BoxFuture, Event, Relay, Subscription};
//!
//! /// A destination is one method: an outcome for each message.
//! struct Channel(tokio::sync::mpsc::UnboundedSender<String>);
//!
//! impl Sink for Channel {
//!     fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
//!         for message in batch {
//!             let _ = self.0.send(format!("{} {}", message.destination, message.event.event_type));
//!         }
//!         Box::pin(async { batch.iter().map(|_| Outcome::Acknowledged(Receipt::default())).collect() })
//!     }
//! }
//!
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("shop.db");
//! SqliteStore::migrate(&file)?;
//! let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
//! let store = SqliteStore::open(&file)?;
//! let outbox = store.outbox(); // writes where the relay reads
//! let relay = Relay::builder().outbox(store, [Subscription::new("orders", Channel(sender))]).spawn().await?;
//!
//! let mut database = rusqlite::Connection::open(&file)?;
//! let tx = database.transaction()?;
//! tx.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, cents INTEGER)", [])?;
//! tx.execute("INSERT INTO orders (id, cents) VALUES (42, 1200)", [])?;
//! outbox.write(&tx, Event::new("order.placed", r#"{"cents": 1200}"#).with_aggregate("Order", "42"))?;
//! tx.commit()?; // both, or neither
//!
//! relay.wake(); // a hint: without it the relay polls
//! assert_eq!(received.recv().await.as_deref(), Some("orders order.placed"));
//! relay.shutdown().await?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! # Features
//!
//! None is on by default. An application that only writes, or only consumes with the [`mod@inbox`], needs one writer; a program
//! with a relay needs a store.
//!
//! | feature | adds |
//! |---|---|
//! | `derive` | `#[derive(Event)]` for the application's own types |
//! | `rusqlite`, `sqlx-sqlite` | writing in a SQLite transaction of that driver |
//! | `tokio-postgres`, `sqlx-postgres`, `diesel-postgres` | writing in a PostgreSQL transaction of that driver |
//! | `mysql_async`, `sqlx-mysql`, `diesel-mysql` | writing in a MySQL or MariaDB transaction of that driver |
//! | `sea-orm` | writing in a SeaORM transaction, on the databases that your SeaORM supports |
//! | `sqlite`, `postgres`, `mysql` | the store of that database, which a relay needs; `mysql` is also for MariaDB |
//! | `relay` | the relay, routing, encoders and sinks; every store turns it on |
//! | `postgres-tls`, `mysql-tls` | verified TLS to that database |
//! | `otel` | links from the relay's spans to the spans that wrote the events |
//!
//! # How an event is delivered
//!
//! The modules are in this order:
//!
//! 1. **write**: the application inserts the event in its own transaction ([`event`], [`mod@write`])
//! 2. **claim**: the relay that holds the lease reads committed events ([`store`])
//! 3. **route**: event to destination, key and headers ([`route`])
//! 4. **encode**: event to bytes ([`encode`])
//! 5. **publish**: a batch to the sink, one outcome per message ([`sink`])
//! 6. **settle**: outcomes are recorded, fenced by the lease ([`ledger`])
//! 7. **receive**: the consumer inserts the event's id in its own transaction; a duplicate is recognised ([`mod@inbox`])
//! 8. **apply**: its effect runs in that transaction, once per consumer group
//!
//! The [`relay`] runs steps 2 to 6. What is promised, and where each promise ends, is in `GUARANTEES.md` of the
//! repository; quick starts and reference are in its book, `docs/src`.

// Code that databases and drivers share appears dead in a build without some of them. CI builds with all of
// them and denies warnings, so code that is really dead is still found.
#![cfg_attr(
    not(all(
        feature = "sqlite",
        feature = "postgres",
        feature = "mysql",
        feature = "sea-orm",
        feature = "sqlx-mysql"
    )),
    allow(dead_code, unused_imports)
)]

pub mod event;
pub mod limits;
pub mod write;

pub mod layout;
#[cfg(feature = "relay")]
pub mod store;
#[cfg(feature = "relay")]
pub mod route;
#[cfg(feature = "relay")]
pub mod encode;
#[cfg(feature = "relay")]
pub mod sink;
#[cfg(feature = "relay")]
pub mod handler;
#[cfg(feature = "relay")]
pub mod ledger;
#[cfg(feature = "relay")]
pub mod relay;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub mod adopt;
pub mod inbox;

mod clock;
mod error;
mod ident;
#[cfg(feature = "_mysql")]
mod mysql_error;
mod position;
#[cfg(feature = "_postgres")]
mod postgres_error;
#[cfg(feature = "_sqlite")]
mod sqlite_error;

pub use clock::{Clock, Now, SystemClock, Timestamp};
pub use error::{Code, Error, Recovery, Result};
pub use event::{
    Action, Aggregate, Event, Headers, IntoEvent, StoredEvent, TraceContext, TraceSource, TypedEvent,
};
pub use ident::Ident;
pub use inbox::Inbox;
pub use limits::Limits;
pub use position::Position;
#[cfg(feature = "relay")]
pub use relay::{Relay, RelayHandle, Subscription};
pub use write::{Outbox, Written};

/// Makes a type of the application an event; see [`TypedEvent`].
#[cfg(feature = "derive")]
pub use postrider_derive::Event;

/// Used by the code that `#[derive(Event)]` generates. Not part of the API.
#[doc(hidden)]
pub mod __private {
    pub use serde::Serialize;
}

/// A future behind a pointer, for traits that are used as objects.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
