//! `xtask test`: every test of the workspace, what was skipped and why, and one closing line of counts.

mod count;

use std::process::Command;

use crate::servers::{self, Missing};
use crate::{drivers, process};
use count::Count;

/// Parts of the PostgreSQL tests that are run again on every other version.
const ON_EVERY_POSTGRES: [&str; 3] = ["conformance::", "schema::", "write::"];

/// Runs the tests and answers whether all is well. Arguments replace the choice of packages and features
/// (`xtask test -p postrider`), and then nothing is run again on other servers.
pub(crate) fn run(arguments: &[String]) -> Result<bool, String> {
    for (language, reason) in drivers::prepare() {
        println!("no drivers for {language}: {reason}");
    }
    let mut count = Count::default();
    for Missing { name, reason } in servers::prepare() {
        println!("SKIPPED: {name}: {reason}");
        count.skip(&name, &reason);
    }
    read(&mut count, &mut command(arguments))?;
    if arguments.is_empty() {
        for version in servers::postgres::VERSIONS.iter().filter(|version| version.is_there()) {
            println!("\non PostgreSQL {}:", version.exact);
            count.enter(&format!("postgres {}", version.major));
            read(&mut count, &mut on_postgres(version.major))?;
        }
    }
    list(&count);
    let objection = objection(&count);
    if let Some(objection) = &objection {
        println!("\n{objection}");
    }
    println!("\n{count}");
    Ok(objection.is_none())
}

/// Runs tests and counts them.
fn read(count: &mut Count, command: &mut Command) -> Result<(), String> {
    let status = process::stream(command, |line| {
        if count.read(line) {
            println!("{line}");
        }
    })?;
    if !status.success() {
        count.cargo_failed();
    }
    Ok(())
}

/// The test run.
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
    command.env("POSTRIDER_SERVERS_DIR", servers::cache());
    command
}

/// The PostgreSQL tests on another version. The same choice of packages and features, so that nothing is built
/// again.
fn on_postgres(version: &str) -> Command {
    let mut command = process::cargo();
    command.args(["test", "--no-fail-fast", "--workspace", "--all-features", "--test", "postgres"]);
    command.args(["--", "--show-output"]).args(ON_EVERY_POSTGRES);
    command.env("POSTRIDER_SERVERS_DIR", servers::cache());
    command.env("POSTRIDER_TEST_POSTGRES_VERSION", version).env_remove("POSTRIDER_TEST_POSTGRES");
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
