//! What consumers of other languages read: messages of the encoders with schemas, through a real registry, with the readers that
//! consumers use.
#![cfg(feature = "schemas")]
#![cfg(test)]

mod files;
mod readers;
mod registry;
