//! Postrider is a transactional outbox. The application writes an event in its own transaction, next to the rows it
//! changes. A relay delivers every committed event at least once and in order per key, to one or more subscriptions.
//!
//! # Example
//!
//! This writes an order and its event in one transaction, and reacts to committed orders with a function of the same
//! program, a [handler]. Destinations such as Kafka, webhooks and files are in the crate `postrider-sinks`; your own
//! destination implements [`Sink`](sink::Sink).
//!
//! ```
//! # #[cfg(all(feature = "sqlite", feature = "derive"))]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use postrider::store::sqlite::SqliteStore;
//! use postrider::{Event, Relay, Subscription};
//!
//! #[derive(Event, serde::Serialize, serde::Deserialize)]
//! #[event(type = "order.placed", aggregate = "Order")]
//! struct OrderPlaced {
//!     #[event(aggregate_id)]
//!     order: u64,
//!     cents: u64,
//! }
//!
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("shop.db");
//! # let (sender, mut receipts) = tokio::sync::mpsc::unbounded_channel();
//! SqliteStore::migrate(&file)?;
//! let store = SqliteStore::open(&file)?;
//! let outbox = store.outbox(); // writes where the relay reads
//! let receipt = Subscription::handler("receipt", move |placed: OrderPlaced, cx| {
//!     # let sender = sender.clone();
//!     async move {
//!         println!("receipt for order {}: {} cents (attempt {})", placed.order, placed.cents, cx.attempt());
//!         # sender.send(placed.order)?;
//!         Ok(()) // an error is retried with backoff, and the event is dead after the last attempt
//!     }
//! });
//! let relay = Relay::builder().outbox(store, [receipt]).spawn().await?;
//!
//! let mut database = rusqlite::Connection::open(&file)?;
//! let tx = database.transaction()?;
//! tx.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, cents INTEGER)", [])?;
//! tx.execute("INSERT INTO orders (id, cents) VALUES (42, 1200)", [])?;
//! outbox.write(&tx, &OrderPlaced { order: 42, cents: 1200 })?;
//! tx.commit()?; // both, or neither
//!
//! relay.wake(); // a hint: without it the relay polls
//! # assert_eq!(receipts.recv().await, Some(42));
//! relay.shutdown().await?;
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "sqlite", feature = "derive")))]
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
//! | `actions` | business code that cannot forget its events; together with a writer |
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
//! 5. **publish**: a batch to the sink, one outcome per message ([`sink`]), or calls of your functions ([`handler`])
//! 6. **settle**: outcomes are recorded, fenced by the lease
//! 7. **receive**: the consumer inserts the event's id in its own transaction; a duplicate is recognised ([`mod@inbox`])
//! 8. **apply**: its effect runs in that transaction, once per consumer group
//!
//! The [`relay`] runs steps 2 to 6. What is promised, and where each promise ends, is in `GUARANTEES.md` of the
//! repository; quick starts and reference are in its book, `docs/src`.

pub mod event;
pub mod limits;
pub mod write;
#[cfg(feature = "actions")]
pub mod action;

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
#[doc(hidden)]
pub mod ledger;
#[cfg(feature = "relay")]
pub mod relay;
#[cfg(feature = "_store")]
pub mod adopt;
pub mod inbox;

mod clock;
mod error;
mod ident;
#[cfg(feature = "_mysql")]
mod mysql_error;
mod position;
#[cfg(feature = "relay")]
mod setters;
#[cfg(feature = "_postgres")]
mod postgres_error;
#[cfg(feature = "_sqlite")]
mod sqlite_error;

#[doc(hidden)]
pub use clock::duration_text;
pub use clock::{Clock, Now, SystemClock, Timestamp};
pub use error::{Code, Error, Recovery, Result};
pub use event::{Action, Aggregate, Headers, IntoEvent, StoredEvent, TraceContext, TraceSource};
#[doc(inline)]
pub use event::{Event, TypedEvent};
pub use ident::Ident;
#[doc(inline)]
pub use inbox::Inbox;
pub use limits::Limits;
pub use position::Position;
#[cfg(feature = "relay")]
#[doc(inline)]
pub use relay::{Relay, RelayHandle, Subscription};
#[cfg(feature = "relay")]
pub(crate) use setters::setters;
#[doc(inline)]
pub use write::Outbox;
pub use write::Written;

/// Makes a type of the application an event; see [`TypedEvent`].
#[cfg(feature = "derive")]
pub use postrider_derive::Event;

/// Used by the code that the derives generate. Not part of the API.
#[doc(hidden)]
pub mod __private {
    pub use serde::Serialize;
    #[cfg(all(
        feature = "actions",
        any(feature = "sqlx-mysql", feature = "sqlx-postgres", feature = "sqlx-sqlite")
    ))]
    pub use sqlx;
}

/// A future behind a pointer, for traits that are used as objects.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
