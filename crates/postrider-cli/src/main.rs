//! The command `postrider`.

use std::process::ExitCode;

fn main() -> ExitCode {
    postrider_cli::run(std::env::args_os().collect()).into()
}
