//! Adopting a table, on every database that has its layout: the same cases for all of them.

mod back;
mod behind;
mod cases;
mod forth;
mod locked;
mod mysql;
mod network;
mod postgres;
mod refused;
mod sqlite;
mod stage;
mod stopped;
