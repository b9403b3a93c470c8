//! A second run of a few failed tests, alone on the machine (adr/0078).
//!
//! Thousands of tests with real servers share two cores. A test that fails there and passes alone is reported as unstable,
//! with both outputs, and does not fail the run. A test that looks for a rare interleaving never gets a second run: there, one failure in
//! many runs is what the test is for.

use super::job::{Ended, Job};

/// More failures than this have a common cause.
const FAILED_MAX: usize = 3;

/// Programs in which every failure counts.
const STRICT_PROGRAMS: [&str; 3] = ["postrider/storm", "postrider-testkit/lib", "xtask/bin"];

/// Parts of the names of tests in which every failure counts: crashes, exactly-once effects, order and loss.
const STRICT_WORDS: [&str; 12] = [
    "kill",
    "crash",
    "die",
    "once",
    "order",
    "overtake",
    "lost",
    "lose",
    "storm",
    "race",
    "twice",
    "concurren",
];

/// Whether all of these tests may run again. `STRICT=1` forbids it.
pub(super) fn is_allowed(failed: &[(Job, Vec<String>)]) -> bool {
    let is_strict = std::env::var("STRICT").is_ok_and(|value| value == "1");
    let tests: usize = failed.iter().map(|(_, tests)| tests.len()).sum();
    !is_strict && tests <= FAILED_MAX && failed.iter().all(|(job, tests)| may_repeat(&job.name, tests))
}

fn may_repeat(program: &str, tests: &[String]) -> bool {
    !STRICT_PROGRAMS.contains(&program)
        && !tests.is_empty()
        && tests.iter().all(|test| !STRICT_WORDS.iter().any(|word| test.contains(word)))
}

/// Whether the one test ran and passed.
pub(super) fn has_passed(ended: &Ended) -> bool {
    ended.status.as_ref().is_ok_and(std::process::ExitStatus::success)
        && ended
            .stdout
            .lines()
            .any(|line| line.starts_with("test result: ok. 1 passed; 0 failed; 0 ignored;"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeats(program: &str, test: &str) -> bool {
        may_repeat(program, &[test.to_owned()])
    }

    #[test]
    fn a_test_that_looks_for_an_interleaving_gets_no_second_run() {
        assert!(repeats("postrider-cli/cli", "status::a_table_is_printed"));
        assert!(!repeats("postrider/storm", "a_table_is_printed"));
        assert!(!repeats("postrider/stores", "mysql::effects_happen_once"));
        assert!(!repeats("postrider-sinks/kafka", "hot_keys_keep_their_order_when_the_broker_is_killed"));
        assert!(!may_repeat("postrider-cli/cli", &[]), "a program that died without naming a test");
    }

    #[test]
    fn only_a_run_of_exactly_the_test_is_a_pass() {
        let ended = |stdout: &str| Ended {
            name: String::new(),
            place: None,
            status: Ok(std::process::ExitStatus::default()),
            again: None,
            stdout: stdout.to_owned(),
            stderr: String::new(),
            took: std::time::Duration::ZERO,
        };
        assert!(has_passed(&ended(
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out"
        )));
        assert!(!has_passed(&ended(
            "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out"
        )));
    }
}
