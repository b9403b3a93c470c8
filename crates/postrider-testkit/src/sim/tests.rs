//! The simulator's own tests.
