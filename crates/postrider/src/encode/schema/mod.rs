//! Payloads as Avro, Protobuf or validated JSON, with or without a schema registry.
//!
//! A payload is JSON in the outbox; its schema decides how it is sent. `docs/src/schemas.md` has the rules.
//!
//! | module | idea |
//! |---|---|
//! | `config` | what a user sets |
//! | `bindings` | which schema belongs to which events; files are read when the encoder is created |
//! | `files`, `limits` | what is read, and what it may cost |
//! | `json`, `number`, `misfit` | the payload as a list of nodes, its numbers and times, and why it does not fit |
//! | `avro`, `protobuf`, `json_schema` | compiled schemas that write a payload |
//! | `frame` | what precedes the bytes of a payload |
//! | `action_event` | the envelope with 13 fields |
//! | `registry` | the client of a schema registry |
//! | `encoder` | all of it together |

mod action_event;
mod avro;
mod bindings;
mod check;
mod config;
mod dropped;
mod encoder;
mod files;
mod frame;
mod json;
mod json_schema;
mod limits;
#[cfg(test)]
mod limits_tests;
mod misfit;
mod number;
mod protobuf;
mod registry;
#[cfg(test)]
mod tests;

pub use check::{CheckedSchema, SchemaCheck};
pub use config::{
    Format, Framing, RegistryAuth, RegistryConfig, SchemaBinding, SchemaConfig, SchemaEnvelope, Unbound,
    UnionRule, UnknownFields,
};
pub use encoder::SchemaEncoder;

/// How strictly payloads are matched to schemas.
#[derive(Debug, Clone, Copy, Default)]
struct Rules {
    /// A field that the schema does not have is an error.
    refuses_unknown_fields: bool,
    /// A value that fits several branches of a union equally well is an error.
    refuses_ties: bool,
}
