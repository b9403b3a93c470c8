//! Postrider is a transactional outbox. The application writes an event in its own transaction, next to the rows it
//! changes. A relay delivers every committed event at least once and in order per key, to one or more subscriptions.
//!
//! # Example
//!
//! In the order in which you need them: write an event in your own transaction ([`Outbox`]), react to it in the same program
//! (a [handler]), let business code stage rows and events (an [action]), and relay committed events. Destinations
//! such as Kafka, webhooks and files are in the crate `postrider-sinks`; your own one implements [`Sink`](sink::Sink).
//!
//! ```
//! # #[cfg(all(feature = "actions", feature = "sqlite", feature = "sqlx-sqlite"))]
//! # mod example {
//! use postrider::action::{Action, Executor, Model, Plan, SqlxRepository};
//! use postrider::store::sqlite::SqliteStore;
//! use postrider::{Event, Relay, Subscription};
//! use uuid::Uuid;
//!
//! #[derive(Event, serde::Serialize, serde::Deserialize)]
//! #[event(type = "order.placed", aggregate = "Order")]
//! struct OrderPlaced {
//!     #[event(aggregate_id)]
//!     order: Uuid,
//!     cents: i64,
//! }
//!
//! #[derive(Model)]
//! #[model(table = "orders")]
//! struct Order { id: Uuid, cents: i64, version: i64 }
//!
//! #[derive(Action)]
//! struct PlaceOrder;
//!
//! impl Action for PlaceOrder {
//!     type Params = i64;
//!     type Output = ();
//!     type Error = postrider::Error;
//!
//!     async fn perform(&self, plan: &mut Plan, cents: &i64) -> postrider::Result<()> {
//!         let order = Order { id: Uuid::now_v7(), cents: *cents, version: 1 };
//!         let placed = OrderPlaced { order: order.id, cents: order.cents };
//!         plan.add(order)?.event(&placed)?;
//!         Ok(())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("shop.db");
//! # let (sender, mut receipts) = tokio::sync::mpsc::unbounded_channel();
//! # SqliteStore::migrate(&file)?;
//! # let db = sqlx::SqlitePool::connect(&format!("sqlite://{}", file.display())).await?;
//! # sqlx::query("CREATE TABLE orders (id BLOB PRIMARY KEY, cents INTEGER, version INTEGER)").execute(&db).await?;
//! let store = SqliteStore::open(&file)?;
//! let outbox = store.outbox(); // writes where the relay reads
//!
//! // 1. Write: the event is part of your transaction.
//! let (order, cents) = (Uuid::now_v7(), 4200);
//! let mut tx = db.begin().await?;
//! sqlx::query("INSERT INTO orders VALUES (?, ?, 1)").bind(order).bind(cents).execute(&mut *tx).await?;
//! outbox.write(&mut tx, &OrderPlaced { order, cents }).await?;
//! tx.commit().await?; // both, or neither
//!
//! // 2. Handle: a function of this program, called for every committed event of its type.
//! let receipt = Subscription::handler("receipt", move |placed: OrderPlaced, cx| {
//!     # let sender = sender.clone();
//!     async move {
//!         println!("receipt for order {}: {} cents (attempt {})", placed.order, placed.cents, cx.attempt());
//!         # sender.send(placed.cents)?;
//!         Ok(()) // an error is retried with backoff, and the event is dead after the last attempt
//!     }
//! });
//!
//! // 3. Act: the same as 1, and the event cannot be forgotten.
//! let executor = Executor::builder(db.clone()).namespace("shop").outbox(outbox).action(PlaceOrder);
//! let executor = executor.repository(SqlxRepository::<Order, _>::new(db)).build()?;
//! executor.execute::<PlaceOrder>(1700).await?;
//!
//! // 4. Relay: delivers what is committed.
//! let relay = Relay::builder().outbox(store, [receipt]).spawn().await?;
//! # let mut handled = [receipts.recv().await.unwrap(), receipts.recv().await.unwrap()];
//! # handled.sort();
//! # assert_eq!(handled, [1700, 4200]);
//! relay.shutdown().await?;
//! # Ok(())
//! # }
//! # }
//! # fn main() {
//! #     #[cfg(all(feature = "actions", feature = "sqlite", feature = "sqlx-sqlite"))]
//! #     example::main().unwrap();
//! # }
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
//! | `schemas` | encoders for Avro, Protobuf and JSON Schema, with a client of schema registries |
//! | `metrics` | the numbers of [`telemetry`], for the recorder that your program installs |
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
//! # Conventions
//!
//! - What is configured (`Outbox`, `Inbox`, `Subscription`, `Policy`, `Limits`, the configurations of stores) has a method
//!   per setting, with the name of the setting. What is data (`Event`, `Error`) has `with_` methods. Builders end with
//!   `build` or `spawn`.
//! - Every fallible function returns [`Error`]: one line with a stable [`Code`], what it means for the data
//!   ([`effect`](Error::effect)), and what to do ([`hint`](Error::hint)).
//! - Items that are missing from these pages (`#[doc(hidden)]`) are not part of the API.
//!
//! The [`relay`] runs steps 2 to 6. What is promised, and where each promise ends, is in `GUARANTEES.md` of the
//! repository; quick starts and reference are in its book, `docs/src`.

#![cfg_attr(docsrs, feature(doc_cfg))]

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
#[cfg(feature = "relay")]
pub mod operate;
#[cfg(feature = "_store")]
pub mod adopt;
pub mod inbox;
pub mod telemetry;

mod clock;
mod error;
mod ident;
#[cfg(feature = "_mysql")]
mod mysql_error;
mod position;
mod setters;
#[cfg(feature = "_postgres")]
mod postgres_error;
mod shard;
#[cfg(feature = "_sqlite")]
mod sqlite_error;

#[doc(hidden)]
pub use clock::duration_text;
pub use clock::{Clock, Now, ParseTimestampError, SystemClock, Timestamp};
pub use error::{Code, Error, Recovery, Result};
pub use event::{ActionContext, Aggregate, Headers, IntoEvent, StoredEvent, TraceContext, TraceSource};
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
pub(crate) use setters::setters;
pub use shard::Shard;
#[doc(inline)]
pub use write::Outbox;
pub use write::Written;

/// The types of payloads and ids, in the version that the API uses.
#[doc(no_inline)]
pub use {bytes::Bytes, uuid::Uuid};

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
