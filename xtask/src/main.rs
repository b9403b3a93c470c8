//! Tasks of the project. `cargo run -q -p xtask -- test | servers | drivers | tidy | proofs | soak`
//!
//! - `test`: runs every test, prints what was skipped and why, ends with one line of counts
//! - `servers`: finds or installs the servers that tests run against; `test` does this first
//! - `drivers`: downloads the drivers of other languages that tests use; `test` does this first
//! - `tidy`: checks what the compiler does not: names, sizes, links, promises, error codes, words
//! - `proofs`: writes docs/src/proofs.md from docs/proofs.toml
//! - `soak`: runs the long programs and keeps their figures in `docs/figures`

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program speaks to its terminal"
)]

#[cfg(test)]
mod ci_run;
mod drivers;
mod machine;
mod process;
mod servers;
mod soak;
mod test;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -q -p xtask -- test [quick | cargo test arguments] | servers | drivers | tidy \
                     | proofs | soak [name]";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let chore = arguments.next();
    let rest: Vec<String> = arguments.collect();
    let result = match chore.as_deref() {
        Some("test") => test::run(&rest),
        Some("servers") => servers::run(),
        Some("drivers") => drivers::run(),
        Some("tidy") => tidy::run(),
        Some("proofs") => tidy::write_proofs(),
        Some("soak") => soak::run(&rest),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        // The task has printed the reason; its last line stays the last.
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
