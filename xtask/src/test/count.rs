//! Reads the output of test programs with `--show-output`, one program after the other, and counts.

use std::collections::BTreeSet;
use std::fmt;

/// A test that did not run, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Skip {
    pub(super) name: String,
    pub(super) reason: String,
}

/// The sum over all test programs of a run.
#[derive(Debug, Default)]
pub(super) struct Count {
    passed: usize,
    failed: usize,
    ignored: usize,
    /// Tests of finished programs that passed only because they were skipped.
    said_skipped: usize,
    skips: Vec<Skip>,
    failures: Vec<String>,
    /// Tests that failed, and passed in their second run.
    unstable: Vec<String>,
    program: Program,
    /// Prefix of the names of tests that run again elsewhere.
    place: String,
    /// Lists of tests that the program started and has not ended.
    open: usize,
    /// Lists of tests that the program ended.
    ended: usize,
    /// Number of failed tests when the program began.
    failed_before: usize,
}

/// The state of the running test program.
#[derive(Debug, Default)]
struct Program {
    section: Section,
    /// The test whose captured output is being read.
    test: Option<String>,
    /// Tests that reported a skip. A test counts once, even if it skipped several parts.
    skipping: BTreeSet<String>,
}

/// The parts of a test program's output.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Section {
    /// One line per test.
    #[default]
    Tests,
    /// The output of passed tests, then their names.
    Successes,
    /// The output of failed tests, then their names.
    Failures,
}

impl Count {
    /// Handles one line. Returns whether to show it: the output of passed tests is not shown.
    pub(super) fn read(&mut self, line: &str) -> bool {
        if running(line) {
            self.program = Program::default();
            self.open += 1;
            return true;
        }
        if let Some(result) = Sums::parse(line) {
            self.passed += result.passed;
            self.failed += result.failed;
            self.ignored += result.ignored;
            self.said_skipped += std::mem::take(&mut self.program).skipping.len().min(result.passed);
            self.open = self.open.saturating_sub(1);
            self.ended += 1;
            return true;
        }
        match line {
            "successes:" => self.program.section = Section::Successes,
            "failures:" => self.program.section = Section::Failures,
            _ => self.read_within(line),
        }
        self.program.section != Section::Successes
    }

    /// A program begins. The place is where its tests run again, for example another version of a server.
    pub(super) fn enter(&mut self, place: Option<&str>) {
        self.place = place.map(|place| format!("{place}: ")).unwrap_or_default();
        self.program = Program::default();
        (self.open, self.ended, self.failed_before) = (0, 0, self.failed);
    }

    /// The program has ended, with or without success. A program that crashed counts as failed, whatever it printed.
    pub(super) fn leave(&mut self, program: &str, succeeded: bool) {
        let silent = usize::from(self.ended == 0 && self.open == 0);
        let unexplained = usize::from(!succeeded && self.failed == self.failed_before && self.open == 0);
        for _ in 0..self.open + silent.max(unexplained) {
            self.fail(&format!("{program} died"));
        }
    }

    /// Something other than a test failed, such as the build.
    pub(super) fn fail(&mut self, what: &str) {
        self.failed += 1;
        self.failures.push(self.here(what));
    }

    /// A test that failed has passed in its second run.
    pub(super) fn passed_alone(&mut self, name: &str) {
        if let Some(at) = self.failures.iter().position(|failure| failure == name) {
            self.unstable.push(self.failures.remove(at));
            self.failed -= 1;
            self.passed += 1;
        }
    }

    /// Something that could not be run at all.
    pub(super) fn skip(&mut self, name: &str, reason: &str) {
        self.ignored += 1;
        self.skips.push(Skip { name: name.to_owned(), reason: reason.to_owned() });
    }

    fn here(&self, name: &str) -> String {
        format!("{}{name}", self.place)
    }

    fn read_within(&mut self, line: &str) {
        let section = self.program.section;
        if section != Section::Tests
            && let Some(name) = captured_header(line)
        {
            self.program.test = Some(name.to_owned());
        } else if section == Section::Tests
            && let Some((name, outcome)) = test_line(line)
        {
            match outcome.split_once(',').unwrap_or((outcome, "")) {
                ("ignored", reason) => {
                    let reason = if reason.is_empty() { "ignored" } else { reason.trim() };
                    self.skips.push(Skip { name: self.here(name), reason: reason.to_owned() });
                }
                ("FAILED", _) => self.failures.push(self.here(name)),
                _ => {}
            }
        } else if section != Section::Failures
            && let Some(skip) = Skip::parse(line)
        {
            // A failed test counts as failed even if it reported a skip.
            let test = self.program.test.clone().unwrap_or_else(|| skip.name.clone());
            self.program.skipping.insert(test);
            self.skips.push(Skip { name: self.here(&skip.name), ..skip });
        }
    }

    /// Tests that ran and passed.
    pub(super) fn passed(&self) -> usize {
        self.passed - self.said_skipped
    }

    /// Tests that failed.
    pub(super) fn failed(&self) -> usize {
        self.failed
    }

    /// Tests that did not run.
    pub(super) fn skipped(&self) -> usize {
        self.ignored + self.said_skipped
    }

    /// Skipped tests, in the order of the output.
    pub(super) fn skips(&self) -> &[Skip] {
        &self.skips
    }

    /// Names of the tests that failed, and passed in their second run.
    pub(super) fn unstable(&self) -> &[String] {
        &self.unstable
    }

    /// Names of the tests that failed.
    pub(super) fn failures(&self) -> &[String] {
        &self.failures
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed(), self.failed(), self.skipped())
    }
}

impl Skip {
    /// `SKIPPED: name: reason`. The name may contain `::`.
    fn parse(line: &str) -> Option<Self> {
        let rest = line.strip_prefix("SKIPPED: ")?;
        let (name, reason) = rest.split_once(": ").unwrap_or((rest, "no reason given"));
        Some(Self { name: name.trim().to_owned(), reason: reason.trim().to_owned() })
    }
}

/// The numbers of one `test result:` line.
struct Sums {
    passed: usize,
    failed: usize,
    ignored: usize,
}

impl Sums {
    /// `test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s`
    fn parse(line: &str) -> Option<Self> {
        let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let number = |word: &str| {
            numbers.split("; ").find_map(|part| part.strip_suffix(word)?.trim().parse::<usize>().ok())
        };
        Some(Self { passed: number("passed")?, failed: number("failed")?, ignored: number("ignored")? })
    }
}

/// `running 3 tests`
fn running(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    matches!(words[..], ["running", n, "test" | "tests"] if n.parse::<usize>().is_ok())
}

/// `test name ... outcome`. The name of a doc test contains spaces.
fn test_line(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("test ")?.rsplit_once(" ... ")
}

/// The names of the tests that failed in the output of a program.
pub(super) fn failed_tests(output: &str) -> Vec<String> {
    let failed =
        |line| test_line(line).filter(|(_, outcome)| *outcome == "FAILED").map(|(name, _)| name.to_owned());
    output
        .lines()
        .take_while(|line| *line != "successes:" && *line != "failures:")
        .filter_map(failed)
        .collect()
}

/// `---- name stdout ----`
fn captured_header(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> Count {
        let mut count = Count::default();
        for line in text.lines() {
            count.read(line);
        }
        count
    }

    const TWO_PROGRAMS: &str = "
running 3 tests
test a::one ... ok
test a::two ... ok
test a::three ... ignored, needs a week

successes:

---- a::two stdout ----
hello
SKIPPED: a::two: no postgres on this machine: apt has none

successes:
    a::one
    a::two

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s

running 2 tests
test src/lib.rs - Thing (line 3) ... ok
test src/lib.rs - Other (line 9) ... ignored
test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.20s
";

    #[test]
    fn all_programs_are_summed_and_a_skip_is_not_a_pass() {
        let count = count(TWO_PROGRAMS);
        assert_eq!(count.to_string(), "2 passed, 0 failed, 3 skipped");
    }

    #[test]
    fn every_skip_is_listed_with_its_reason() {
        let count = count(TWO_PROGRAMS);
        let skips: Vec<String> = count.skips().iter().map(|s| format!("{} | {}", s.name, s.reason)).collect();
        assert_eq!(
            skips,
            [
                "a::three | needs a week",
                "a::two | no postgres on this machine: apt has none",
                "src/lib.rs - Other (line 9) | ignored",
            ]
        );
    }

    #[test]
    fn a_test_that_skips_two_parts_counts_once_and_lists_both() {
        let count = count(
            "running 1 test\ntest t ... ok\n\nsuccesses:\n\n---- t stdout ----\nSKIPPED: mysql: none\n\
             SKIPPED: postgres: none\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured",
        );
        assert_eq!(count.to_string(), "0 passed, 0 failed, 1 skipped");
        assert_eq!(count.skips().len(), 2);
    }

    #[test]
    fn a_test_that_says_skipped_and_fails_counts_as_failed() {
        let count = count(
            "running 2 tests\ntest t ... FAILED\ntest u ... ok\n\nfailures:\n\n---- t stdout ----\n\
             SKIPPED: t: half of it\npanicked\n\nfailures:\n    t\n\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
        );
        assert_eq!(count.to_string(), "1 passed, 1 failed, 0 skipped");
        assert_eq!(count.failures(), ["t"]);
    }

    #[test]
    fn a_skip_that_was_not_captured_counts_too() {
        let count = count(
            "running 1 test\nSKIPPED: t: no disk\ntest t ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored",
        );
        assert_eq!(count.to_string(), "0 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn a_failed_build_never_ends_with_zero_failed() {
        let mut count = count("");
        count.fail("the build");
        assert_eq!(count.to_string(), "0 passed, 1 failed, 0 skipped");
        assert_eq!(count.failures(), ["the build"]);
    }

    #[test]
    fn a_test_program_that_died_counts_as_failed() {
        let mut count = count(TWO_PROGRAMS);
        for (said, succeeded) in [
            // In the middle of a test, even with exit code 0.
            ("running 1 test", false),
            ("running 1 test", true),
            // Before and after its tests.
            ("", true),
            ("running 1 test\ntest t ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored", false),
        ] {
            count.enter(None);
            said.lines().for_each(|line| _ = count.read(line));
            count.leave("p/t", succeeded);
        }
        assert_eq!(count.to_string(), "3 passed, 4 failed, 3 skipped");
        assert_eq!(count.failures(), ["p/t died"; 4]);
    }

    #[test]
    fn a_program_whose_tests_failed_did_not_die() {
        let mut count = Count::default();
        count.enter(None);
        let said = "running 1 test\ntest t ... FAILED\ntest result: FAILED. 0 passed; 1 failed; 0 ignored";
        said.lines().for_each(|line| _ = count.read(line));
        count.leave("p/t", false);
        assert_eq!(count.to_string(), "0 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn a_program_that_could_not_run_is_counted_as_skipped() {
        let mut count = Count::default();
        count.skip("postgres 18", "no network");
        count.enter(Some("postgres 14"));
        for line in
            ["running 1 test", "test t ... FAILED", "test result: FAILED. 0 passed; 1 failed; 0 ignored"]
        {
            count.read(line);
        }
        assert_eq!(count.to_string(), "0 passed, 1 failed, 1 skipped");
        assert_eq!(count.failures(), ["postgres 14: t"]);
    }

    #[test]
    fn the_output_of_passed_tests_is_not_shown() {
        let mut count = Count::default();
        let shown: Vec<&str> = TWO_PROGRAMS.lines().filter(|line| count.read(line)).collect();
        assert!(!shown.contains(&"hello"));
        assert!(shown.contains(&"test a::one ... ok"));
        assert_eq!(shown.iter().filter(|line| line.starts_with("test result:")).count(), 2);
    }
}
