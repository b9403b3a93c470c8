//! The program between a real PostgreSQL and real destinations, Kafka and a webhook, with every process killed on the
//! way. Programs in Python, which share no code with it, check what arrived.

#![cfg(unix)]
#![cfg(test)]

mod both;
mod check;
mod destination;
mod doctor;
mod relays;
mod shop;
mod soak;
mod zombie;
