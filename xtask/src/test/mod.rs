//! `xtask test`: every test of the workspace, what was skipped and why, and one closing line of counts.

mod count;

use std::process::Command;

use crate::{drivers, process};
use count::Count;

/// Runs the tests and answers whether all is well. Arguments replace the choice of packages and features
/// (`xtask test -p postrider`).
pub(crate) fn run(arguments: &[String]) -> Result<bool, String> {
    for (language, reason) in drivers::prepare() {
        println!("no drivers for {language}: {reason}");
    }
    let mut count = Count::default();
    let status = process::stream(&mut command(arguments), |line| {
        if count.read(line) {
            println!("{line}");
        }
    })?;
    if !status.success() {
        count.cargo_failed();
    }
    list(&count);
    let objection = objection(&count);
    if let Some(objection) = &objection {
        println!("\n{objection}");
    }
    println!("\n{count}");
    Ok(objection.is_none())
}

/// The test run. What a later test needs from outside, such as the addresses of servers started before, is
/// set here as environment variables.
fn command(arguments: &[String]) -> Command {
    let mut command = process::cargo();
    // All failures of a run, not the first; the output of passing tests too, since a skip is said there.
    command.args(["test", "--no-fail-fast"]);
    if arguments.is_empty() {
        command.args(["--workspace", "--all-features"]);
    } else {
        command.args(arguments);
    }
    command.args(["--", "--show-output"]);
    command
}

fn list(count: &Count) {
    if !count.skips().is_empty() {
        println!("\nskipped:");
        for skip in count.skips() {
            println!("  {}: {}", skip.name, skip.reason);
        }
    }
    if !count.failures().is_empty() {
        println!("\nfailed:");
        for name in count.failures() {
            println!("  {name}");
        }
    }
}

/// Why the run is no success, if it is none.
fn objection(count: &Count) -> Option<String> {
    if count.failed() > count.failures().len() {
        return Some(
            "cargo test failed: something did not build, or a test program died; see above".to_owned(),
        );
    }
    if count.failed() > 0 {
        return Some("tests failed; see above".to_owned());
    }
    let require_all = std::env::var("REQUIRE_ALL").is_ok_and(|value| value == "1");
    let skipped = "REQUIRE_ALL=1 asks for every test, and some were skipped".to_owned();
    (require_all && count.skipped() > 0).then_some(skipped)
}
