//! The dashboard in Chromium: what a person sees and does, with the keyboard, without JavaScript, and in both themes.
#![cfg(test)]

#[path = "../dashboard/client.rs"]
#[allow(dead_code, reason = "shared with the tests over HTTP")]
mod client;
mod driver;
#[path = "../dashboard/outbox.rs"]
#[allow(dead_code, reason = "shared with the tests over HTTP")]
mod outbox;
mod pages;
mod stories;
