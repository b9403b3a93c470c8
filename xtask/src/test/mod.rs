//! `xtask test`: every test of the workspace, what was skipped and why, and one closing line of counts.

mod count;

use std::process::Command;

use crate::process;
use count::Count;

/// Runs the tests. Arguments replace the choice of packages and features (`xtask test -p postrider`).
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let mut count = Count::default();
    let status = process::stream(&mut command(arguments), |line| {
        if count.read(line) {
            println!("{line}");
        }
    });
    let ran = matches!(&status, Ok(status) if status.success());
    if !ran {
        count.cargo_failed();
    }
    report(&count);
    verdict(&count, status.map(|status| status.success()))
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

fn report(count: &Count) {
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
    println!("\n{count}");
}

fn verdict(count: &Count, cargo_succeeded: Result<bool, String>) -> Result<(), String> {
    if !cargo_succeeded? && count.failures().is_empty() {
        return Err("cargo test failed: something did not build, or a test program died".to_owned());
    }
    if count.failed() > 0 {
        return Err(format!("{} failed", count.failed()));
    }
    let require_all = std::env::var("REQUIRE_ALL").is_ok_and(|value| value == "1");
    if require_all && count.skipped() > 0 {
        return Err(format!("REQUIRE_ALL=1 and {} skipped", count.skipped()));
    }
    Ok(())
}
