//! Examples that print what they do, as a user runs them.

use std::path::Path;
use std::process::{Command, Stdio};

use postrider_testkit::servers::postgres;

use super::examples::program;
use super::shop::wait_for;

/// Runs an example until what it has printed is enough, and returns that.
fn printed(
    example: &str,
    folder: &Path,
    environment: &[(&str, &str)],
    is_enough: impl Fn(&str) -> bool,
) -> String {
    let file = folder.join("printed");
    let mut example = Command::new(program(example))
        .current_dir(folder)
        .envs(environment.iter().copied())
        .stdout(Stdio::from(std::fs::File::create(&file).unwrap()))
        .spawn()
        .expect("the examples are built");
    let read = || std::fs::read_to_string(&file).unwrap_or_default();
    let done = wait_for(|| is_enough(&read()));
    example.kill().unwrap();
    example.wait().unwrap();
    assert!(done, "{}", read());
    read()
}

#[test]
fn the_example_of_the_readme_handles_its_orders_and_delivers_them_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let events = || std::fs::read_to_string(folder.path().join("events.jsonl")).unwrap_or_default();
    printed("readme", folder.path(), &[], |printed| {
        let is_done = |cents: u32| {
            printed.contains(&format!(": {cents} cents\n"))
                && events().contains(&format!("\"cents\":{cents}}}"))
        };
        is_done(4200) && is_done(1700)
    });
    let events = events();
    assert_eq!(events.matches("\"aggregate\":{\"type\":\"Order\",\"id\":\"").count(), 2, "{events}");
    let of_action: Vec<&str> = events.lines().filter(|line| line.contains("\"PlaceOrder\"")).collect();
    assert!(of_action.len() == 1 && of_action[0].contains("\"cents\":1700}"), "{events}");
}

#[test]
fn the_example_of_a_handler_sends_its_mail() {
    let folder = tempfile::tempdir().unwrap();
    let mail = "mail to ada@example.org: order 1 is placed (event ";
    let printed = printed("handler", folder.path(), &[], |printed| printed.contains(mail));
    assert_eq!(printed.lines().count(), 1, "{printed}");
}

#[test]
fn the_example_of_an_effect_once_bills_and_ships_its_order() {
    let folder = tempfile::tempdir().unwrap();
    let billed = "order 42 is billed and can be shipped\n";
    printed("billing", folder.path(), &[], |printed| printed == billed);
}

#[test]
fn the_example_of_the_eventlog_calls_both_handlers() {
    let Some(url) = postgres::url() else { return };
    let folder = tempfile::tempdir().unwrap();
    printed("eventlog", folder.path(), &[("DATABASE_URL", url)], |printed| {
        ["mail to ada@example.org: order 42 is placed\n", "stock for order 42 is reserved\n"]
            .iter()
            .all(|line| printed.contains(line))
    });
}
