//! The configuration: file, environment and flags, in increasing priority.
//!
//! 1. [`schema`] defines the keys and the kinds of their values
//! 2. [`layer`] reads each layer
//! 3. [`effective`] merges the layers, adds defaults and finds all problems
//! 4. [`settings`] resolves secrets and creates the types that the rest of the program uses
//!
//! Generated from the schema: the [`starter`] file, [`json_schema`], and the page of the docs
//! ([`crate::pages::config`]).

mod additions;
pub mod digest;
pub(crate) mod duration;
pub mod effective;
pub mod environment;
pub mod json_schema;
mod key_problems;
pub mod kind;
pub mod layer;
mod names;
mod origin;
mod problem;
pub mod raw;
pub mod schema;
mod secret;
mod secret_source;
pub mod settings;
mod size;
pub mod starter;
pub(crate) mod suggest;
pub mod url;
mod value;

pub use additions::other_changes;
pub use effective::Effective;
pub use environment::Environment;
pub use origin::Origin;
pub use problem::Problem;
pub use secret::{MASK, Secret};
pub use secret_source::SecretSource;
pub use settings::Settings;
pub use value::Value;
