//! The program as a user meets it.

#![cfg(test)]

mod canary;
mod command_line;
mod demo;
mod health;
mod init;
mod origins;
mod pages;
mod program;
mod schema;
mod shop;
mod user_story;
mod webhook;
mod wrong_configs;
mod wrong_inputs;
mod wrong_moments;
