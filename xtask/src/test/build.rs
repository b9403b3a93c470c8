//! Builds the test programs, and passes each on as soon as it is linked.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::process;

/// A test program that cargo has built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// `package/target`, such as `postrider/relay`; the unit tests of a library are `package/lib`.
    pub(super) name: String,
    /// The package's name.
    pub(super) package: String,
    /// The package's folder, where cargo runs its tests.
    pub(super) folder: PathBuf,
    pub(super) executable: PathBuf,
}

/// The arguments of `cargo test` that also apply to a build.
const WHOLE: [&str; 2] = ["--workspace", "--all-features"];

/// Arguments that select targets of a package; `cargo test` with one of them runs no doc tests.
const TARGETS: [&str; 10] = [
    "--all-targets",
    "--benches",
    "--bin",
    "--bins",
    "--example",
    "--examples",
    "--lib",
    "--test",
    "--tests",
    "--doc",
];

/// `xtask test quick`: tests without a server, and the main parts of the stores on SQLite and one PostgreSQL.
const QUICK: &str = "quick";
const QUICK_TARGETS: [&str; 10] =
    ["--lib", "--bins", "--test", "conformance", "--test", "pages", "--test", "relay", "--test", "stores"];
const QUICK_STORES: [&str; 5] = [
    "sqlite::",
    "postgres::log::conformance::",
    "postgres::log::schema::",
    "postgres::log::write::",
    "postgres::row_state::conformance::",
];

/// The program with the tests of the simulator.
pub(super) const SIMULATOR: &str = "postrider-testkit/lib";

/// The program with the tests of all stores.
pub(super) const STORES: &str = "postrider/stores";

/// The selected tests: the arguments of cargo, and those of every test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    cargo: Vec<String>,
    program: Vec<String>,
    is_quick: bool,
}

impl Choice {
    /// `quick`, or arguments of `cargo test`; everything if there are none.
    pub(super) fn new(arguments: &[String]) -> Self {
        if arguments == [QUICK] {
            let cargo = WHOLE.iter().chain(&QUICK_TARGETS).map(|&argument| argument.to_owned()).collect();
            return Self { cargo, program: Vec::new(), is_quick: true };
        }
        let mut parts = arguments.splitn(2, |argument| argument == "--");
        let cargo = parts.next().unwrap_or_default().to_vec();
        let program = parts.next().unwrap_or_default().to_vec();
        let whole = || WHOLE.map(str::to_owned).to_vec();
        Self { cargo: if cargo.is_empty() { whole() } else { cargo }, program, is_quick: false }
    }

    /// The arguments of a test program.
    pub(super) fn arguments_of(&self, program: &Program) -> Vec<String> {
        if self.is_quick && program.name == STORES {
            return QUICK_STORES.map(str::to_owned).to_vec();
        }
        self.program.clone()
    }

    /// Whether doc tests are selected.
    pub(super) fn has_doc_tests(&self) -> bool {
        let names = |argument: &String| argument.split('=').next().unwrap_or_default().to_owned();
        !self.cargo.iter().map(names).any(|name| TARGETS.contains(&name.as_str()))
    }

    /// Whether all tests of the simulator are selected; they then run optimised.
    pub(super) fn has_simulator(&self) -> bool {
        self.cargo.starts_with(&WHOLE.map(str::to_owned)) && self.program.is_empty()
    }

    /// The unit tests of the testkit, which are those of the simulator, in a separate optimised profile, because they
    /// are the only tests that are limited by computation.
    pub(super) fn simulator() -> std::process::Command {
        let mut command = process::cargo();
        command.args([
            "test",
            "--profile",
            "sim",
            "-p",
            "postrider-testkit",
            "--features",
            "sim,proxy,conformance",
        ]);
        command.args(["--lib", "--", "--show-output"]);
        command
    }

    /// `cargo test --doc` for the same packages and features.
    pub(super) fn doc_tests(&self) -> std::process::Command {
        let mut command = process::cargo();
        command.args(["test", "--no-fail-fast", "--doc"]).args(&self.cargo);
        command.args(["--", "--show-output"]).args(&self.program);
        command
    }
}

/// Builds, and calls `built` with each test program when it and the binaries of its package are linked: cargo may link
/// a test before the binary that it starts. Returns whether all were built.
///
/// The compiler runs at a lower priority than the tests: they mostly wait for servers and must react in time when a
/// server answers.
pub(super) fn build(choice: &Choice, mut built: impl FnMut(Program)) -> Result<bool, String> {
    let mut command = process::nice(process::cargo());
    command.args(["test", "--no-run", "--no-fail-fast", "--message-format=json-render-diagnostics"]);
    command.args(&choice.cargo);
    let mut ready = Ready::new(&process::output(process::cargo().args(METADATA))?);
    let status = process::stream(&mut command, |line| ready.read(line).into_iter().for_each(&mut built))?;
    ready.held.into_iter().for_each(built);
    Ok(status.success())
}

/// The arguments of cargo that list the packages of this workspace with their targets.
const METADATA: [&str; 4] = ["metadata", "--no-deps", "--format-version", "1"];

/// Holds test programs back until the binaries of their package are linked.
#[derive(Debug, Default)]
struct Ready {
    /// Package and name of each binary that is not linked yet.
    missing: BTreeSet<(String, String)>,
    held: Vec<Program>,
}

impl Ready {
    /// Reads the binaries of the workspace from the output of [`METADATA`].
    fn new(metadata: &str) -> Self {
        let metadata: Value = serde_json::from_str(metadata).unwrap_or_default();
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let targets = packages.flat_map(|package| {
            package["targets"].as_array().into_iter().flatten().map(|target| (&package["name"], target))
        });
        let missing = targets
            .filter(|(_, target)| target["kind"][0] == "bin")
            .filter_map(|(package, target)| Some((package.as_str()?.into(), target["name"].as_str()?.into())))
            .collect();
        Self { missing, held: Vec::new() }
    }

    /// Handles one line of cargo's messages. Returns the programs that can start now.
    fn read(&mut self, line: &str) -> Vec<Program> {
        match binary_of(line) {
            Some(binary) => _ = self.missing.remove(&binary),
            None => self.held.extend(Program::parse(line)),
        }
        let waits = |of: &Program| self.missing.iter().any(|(package, _)| *package == of.package);
        let (held, now) = std::mem::take(&mut self.held).into_iter().partition(waits);
        self.held = held;
        now
    }
}

/// Package and name, if the line reports that a binary is built.
fn binary_of(line: &str) -> Option<(String, String)> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_binary = message["reason"] == "compiler-artifact"
        && message["profile"]["test"] == false
        && message["target"]["kind"][0] == "bin";
    let package = package(message["package_id"].as_str()?)?;
    is_binary.then(|| Some((package.to_owned(), message["target"]["name"].as_str()?.to_owned()))).flatten()
}

impl Program {
    /// One line of cargo's messages, if it is about a test program.
    fn parse(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            return None;
        }
        let executable = PathBuf::from(message["executable"].as_str()?);
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
        let package = package(message["package_id"].as_str()?)?.to_owned();
        let kind = message["target"]["kind"][0].as_str()?;
        let target = match kind {
            "test" | "bench" | "example" => message["target"]["name"].as_str()?,
            // The unit tests of a library have the name of their crate, which a test program may also have.
            "bin" => "bin",
            _ => "lib",
        };
        Some(Self { name: format!("{package}/{target}"), package, folder, executable })
    }
}

/// The name in `path+file:///a/folder#name@0.1.0`, or in `path+file:///a/name#0.1.0` where folder and package are
/// have the same name.
fn package(id: &str) -> Option<&str> {
    let (path, version) = id.rsplit_once('#')?;
    version.split_once('@').map(|(name, _)| name).or_else(|| path.rsplit('/').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(text: &str) -> Choice {
        Choice::new(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_test_program_is_named_by_its_package_and_target() {
        let line = r#"{"reason":"compiler-artifact","package_id":"path+file:///r/bench#postrider-bench@0.1.0",
            "manifest_path":"/r/bench/Cargo.toml","target":{"kind":["test"],"name":"rows"},
            "profile":{"test":true},"executable":"/t/debug/deps/rows-1"}"#;
        let program = Program::parse(line).unwrap();
        assert_eq!(program.name, "postrider-bench/rows");
        assert_eq!(program.folder, Path::new("/r/bench"));
        assert_eq!(program.executable, Path::new("/t/debug/deps/rows-1"));
        let unit = line.replace("\"test\"]", "\"lib\"]").replace("/bench#postrider-bench@", "/postrider#");
        assert_eq!(Program::parse(&unit).unwrap().name, "postrider/lib");
    }

    #[test]
    fn a_test_waits_until_every_binary_of_its_package_is_linked() {
        let line = |kind: &str, name: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///r/crates/shop#0.1.0",
                "manifest_path":"/r/c/Cargo.toml","target":{{"kind":["{kind}"],"name":"{name}"}},
                "profile":{{"test":{test}}},"executable":"/t/debug/deps/{name}-1"}}"#
            )
        };
        let metadata = r#"{"packages":[{"name":"shop","targets":[{"kind":["lib"],"name":"shop"},
            {"kind":["bin"],"name":"till"},{"kind":["bin"],"name":"store"}]}]}"#;
        let mut ready = Ready::new(metadata);
        assert_eq!(ready.read(&line("test", "sale", true)), []);
        assert_eq!(ready.read(&line("bin", "till", true)), [], "its unit tests are not the binary");
        assert_eq!(ready.read(&line("bin", "till", false)), []);
        let started = ready.read(&line("bin", "store", false));
        assert_eq!(started.iter().map(|of| of.name.as_str()).collect::<Vec<_>>(), ["shop/sale", "shop/bin"]);
        assert_eq!(ready.read(&line("test", "sale", true)).len(), 1, "from here on at once");
        assert_eq!(Ready::new(r#"{"packages":[]}"#).read(&line("test", "sale", true)).len(), 1);
    }

    #[test]
    fn other_build_results_are_not_test_programs() {
        let library =
            r#"{"reason":"compiler-artifact","profile":{"test":false},"executable":"/t/debug/postrider"}"#;
        assert_eq!(Program::parse(library), None);
        assert_eq!(Program::parse(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(Program::parse("no JSON"), None);
    }

    #[test]
    fn arguments_before_the_dashes_are_cargos_and_those_after_are_the_programs() {
        assert_eq!(choice("").cargo, WHOLE);
        let chosen = choice("-p postrider --all-features -- lease");
        assert_eq!(chosen.cargo, ["-p", "postrider", "--all-features"]);
        assert_eq!(chosen.program, ["lease"]);
        assert_eq!(choice("-- lease").cargo, WHOLE);
    }

    #[test]
    fn the_quick_tests_of_the_stores_are_a_part_of_them() {
        let quick = choice("quick");
        assert!(!quick.has_doc_tests());
        let program = |name: &str| Program {
            name: name.to_owned(),
            package: String::new(),
            folder: PathBuf::new(),
            executable: PathBuf::new(),
        };
        assert_eq!(quick.arguments_of(&program(STORES)), QUICK_STORES);
        assert_eq!(quick.arguments_of(&program("postrider/relay")), [] as [&str; 0]);
    }

    #[test]
    fn a_choice_of_targets_leaves_the_doc_tests_out() {
        assert!(choice("").has_doc_tests());
        assert!(choice("-p postrider -- --test").has_doc_tests());
        assert!(!choice("-p postrider --test relay").has_doc_tests());
        assert!(!choice("--test=relay").has_doc_tests());
    }

    #[test]
    fn the_simulator_is_part_of_everything_and_of_the_quick_tests() {
        assert!(choice("").has_simulator() && choice("quick").has_simulator());
        assert!(!choice("-p postrider-testkit").has_simulator() && !choice("-- lease").has_simulator());
    }
}
