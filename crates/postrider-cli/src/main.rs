//! The command `postrider`.

use std::process::ExitCode;

/// Events are made in one thread and dropped in another, which the system's allocator does badly: with this one
/// the relay needs 2.4 us of CPU per event instead of 4.0 (`cargo run --release --example drain -p bench`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    postrider_cli::run(std::env::args_os().collect()).into()
}
