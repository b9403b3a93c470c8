//! The configuration: one file, the environment and flags, in that rising order.
//!
//! 1. [`schema`] says which keys exist and what they take
//! 2. [`layer`] reads what each layer gives
//! 3. [`effective`] merges the layers, adds defaults and finds what is wrong, all of it
//! 4. [`settings`] fetches secrets and makes the types the rest of the program uses
//!
//! Text made from the schema: [`starter`] file, [`json_schema`], and the page of the docs
//! ([`crate::pages::config`]).

pub(crate) mod duration;
pub mod effective;
pub mod environment;
pub mod json_schema;
pub mod kind;
pub mod layer;
mod names;
pub(crate) mod suggest;
mod origin;
mod problem;
mod secret_source;
pub mod raw;
pub mod schema;
mod secret;
pub mod settings;
mod size;
pub mod starter;
pub mod url;
mod value;
mod key_problems;

pub use effective::Effective;
pub use environment::Environment;
pub use origin::Origin;
pub use problem::Problem;
pub use secret::{MASK, Secret};
pub use secret_source::SecretSource;
pub use settings::Settings;
pub use value::Value;
