//! Compares pages of the documentation with the library.

mod routing;
mod wire;
