//! What a relay serves over HTTP if `[http]` is set: `/metrics`, `/livez` and `/readyz`. Reads only; no request changes
//! anything, and no answer contains an event.

mod listener;
mod process;
mod readiness;
mod recorder;

pub use listener::Listener;
pub use recorder::Recorder;
