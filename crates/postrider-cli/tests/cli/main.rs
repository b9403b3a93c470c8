//! The program as a user meets it.

#![cfg(test)]

mod canary;
mod command_line;
mod demo;
mod init;
mod origins;
mod pages;
mod program;
mod schema;
mod wrong_configs;
