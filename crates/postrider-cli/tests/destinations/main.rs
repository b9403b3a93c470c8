//! The program between a real PostgreSQL and real destinations, Kafka and a webhook, with everything killed on the way.
//! What arrived is checked by programs in Python that share nothing with it.

#![cfg(all(test, unix))]

mod both;
mod check;
mod destination;
mod relays;
mod shop;
mod soak;
mod zombie;
