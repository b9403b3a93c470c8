//! Pages of the documentation that say what the library does, compared with it.

mod routing;
mod wire;
