//! The command `postrider`, as a library so that tests and the docs can use it. Not an API for other programs: anything
//! here may change.
//!
//! 1. [`args`]: parses the command line
//! 2. [`context`]: output, environment and configuration of a run
//! 3. [`commands`]: one file per command
//! 4. [`output`]: data to standard output, messages to standard error
//! 5. [`failure`] and [`exit`]: errors and exit codes
//!
//! [`config`] is the configuration, [`database`] the databases, [`sinks`] the types of sink; [`assemble`] builds a
//! relay from them, [`doctor`] checks them, [`http`] serves its metrics and health;
//! [`log`], [`traces`] and [`interrupt`] are for long-running commands. [`pages`] generates the parts of the docs that come from the code.

#[cfg(not(any(feature = "sqlite", feature = "postgres", feature = "mysql")))]
compile_error!("build with at least one of the features sqlite, postgres and mysql");

pub mod args;
pub mod assemble;
pub mod commands;
pub mod config;
pub mod context;
pub mod database;
#[cfg(feature = "sqlite")]
mod demo;
pub mod doctor;
pub mod exit;
pub mod failure;
pub mod http;
pub mod interrupt;
pub mod log;
mod operator;
pub mod output;
pub mod pages;
pub mod sinks;
pub mod traces;

use std::ffi::OsString;
use std::panic::PanicHookInfo;

use postrider::{Code, Error};

use crate::config::{Environment, Problem, url};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{ColorWhen, Output, Verbosity};

/// Runs the command line, which begins with the program's name. Prints all output and errors, and returns the exit
/// code.
pub fn run(args: Vec<OsString>) -> Exit {
    run_with(args, Environment::of_process())
}

/// As [`run`], with these variables instead of those of the process.
pub fn run_with(args: Vec<OsString>, environment: Environment) -> Exit {
    std::panic::set_hook(Box::new(report_panic));
    let texts: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    // Used until the arguments are parsed.
    let mut output = Output::new(false, ColorWhen::scan(&texts), Verbosity::Normal);
    let ended = refuse_passwords(&texts).and_then(|()| args::parse(args)).and_then(|cli| {
        output = cli.global.output();
        let context = Context::new(cli.global, output, environment);
        cli.command.run(&context)
    });
    let ended = match ended {
        Err(Failure::Usage(asked)) if !asked.use_stderr() => output.help(&asked),
        ended => ended,
    };
    match ended {
        Ok(()) => Exit::Ok,
        Err(failure) => {
            output.failure(&failure);
            failure.exit()
        }
    }
}

/// Reports a panic like any other error, through the same filter.
fn report_panic(panic: &PanicHookInfo<'_>) {
    let said = panic.payload_as_str().unwrap_or("no message");
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    let backtrace = std::backtrace::Backtrace::capture();
    let error = Error::new(Code::RelayStopped, format!("panic at {location}: {said}")).with_hint(format!(
        "please report this as a bug; RUST_BACKTRACE=1 shows where it came from\n{backtrace}"
    ));
    Output::new(false, ColorWhen::Auto, Verbosity::Quiet).failure(&error.into());
}

/// Every user of the machine can read the arguments of every process, and clap repeats arguments that it does not
/// understand. So a password is rejected before anything else reads the arguments.
fn refuse_passwords(args: &[String]) -> Result<(), Failure> {
    if !args.iter().any(|arg| url::text_has_password(arg)) {
        return Ok(());
    }
    Err(Problem::new(Code::ConfigSecretOpen, "a URL on the command line contains a password")
        .with_hint(
            "put the URL into an environment variable or a file and use env:NAME or file:PATH; pass data that \
               contains such a URL through standard input",
        )
        .into())
}
