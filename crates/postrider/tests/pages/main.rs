//! Compares pages of the documentation with the library.

mod routing;
mod traces;
mod wire;
