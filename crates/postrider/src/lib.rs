//! Postrider: a transactional outbox.
//!
//! The way of an event, and the modules in its order:
//!
//! 1. **write**: the application inserts the event in its own transaction ([`event`], [`mod@write`])
//! 2. **claim**: a relay that holds the lease learns of committed events ([`store`])
//! 3. **route**: event to destination name, key and headers ([`route`])
//! 4. **encode**: event to bytes ([`encode`])
//! 5. **publish**: a batch to the sink, one outcome per message ([`sink`])
//! 6. **settle**: outcomes recorded, fenced by the lease ([`ledger`])
//! 7. **receive** and
//! 8. **apply**: the consumer's inbox (not built yet)
//!
//! The [`relay`] runs verbs 2 to 6.

// What databases and drivers share is not dead because one of them does not use it. The build with all of them, which CI runs
// with warnings denied, finds what is.
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
pub mod store;
pub mod route;
pub mod encode;
pub mod sink;
pub mod ledger;
pub mod relay;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub mod adopt;

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
pub use limits::Limits;
pub use position::Position;
pub use write::{Outbox, Written};

/// Makes a type of the application an event; see [`TypedEvent`].
#[cfg(feature = "derive")]
pub use postrider_derive::Event;

/// What the code that `#[derive(Event)]` writes needs. Not for people.
#[doc(hidden)]
pub mod __private {
    pub use serde::Serialize;
}

/// A future behind a pointer, for traits that are used as objects.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
