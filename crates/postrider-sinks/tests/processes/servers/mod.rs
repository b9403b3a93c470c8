//! Relays as processes on one database of a server, the same cases for every kind of server.

mod books;
mod case;
mod mysql;
mod postgres;
mod relays;
