//! The program as users run it.

#![cfg(test)]

mod adopt;
mod canary;
mod cleanup;
mod command_line;
mod custom_tables;
#[cfg(feature = "dashboard")]
mod dashboard;
mod dead;
mod demo;
mod doctor;
mod event_counts;
#[cfg(all(unix, feature = "mysql", feature = "postgres"))]
mod events;
mod explain;
mod explain_walk;
#[cfg(all(unix, any(feature = "mysql", feature = "postgres")))]
mod eventlog;
mod handlers;
mod health;
mod http;
mod inbox;
mod init;
mod monitoring;
#[cfg(all(unix, feature = "mysql"))]
mod mysql;
#[cfg(all(unix, feature = "mysql"))]
mod mysql_eventlog;
#[cfg(all(unix, feature = "mysql"))]
mod mysql_killed;
#[cfg(all(unix, feature = "mysql"))]
mod mysql_operate;
#[cfg(all(unix, feature = "mysql", feature = "postgres"))]
mod names;
mod origins;
mod pages;
mod parked;
#[cfg(all(unix, feature = "postgres"))]
mod postgres;
mod program;
#[cfg(unix)]
mod replaced;
mod replay;
mod restarted;
mod runbooks;
mod schema;
#[cfg(feature = "schemas")]
mod schemas;
mod shards;
mod shop;
mod sqlite_layouts;
mod story;
mod subscriptions;
#[cfg(all(unix, feature = "top"))]
mod top;
mod traces;
mod user_story;
mod webhook;
mod worker;
mod wrong_configs;
mod wrong_inputs;
mod wrong_moments;
