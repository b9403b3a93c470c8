//! Tests of `.ci/run` with a `cargo` that does nothing: a stage that fails or does not end is a failure of the run, and
//! the last line stays that of the tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::process;

/// Logs its arguments, and fails in the stage that `FAILS` names.
const CARGO: &str = r#"#!/usr/bin/env bash
echo "$(ps -o ni= -p $$ | tr -d ' ') $*" >>"$CALLS"
case "$*" in
    *"--version") exit 0 ;;
    "run -q -p xtask -- test")
        echo "      1 s  no further builds"
        [ "$FAILS" = count ] || echo "7 passed, $([ "$FAILS" = test ] && echo 1 || echo 0) failed, 0 skipped" ;;
    "clippy"*) [ "$FAILS" != hang ] || kill -9 $PPID ;;
esac
case "$FAILS:$*" in
    test:*"-- test" | fmt:fmt* | clippy:clippy* | docs:doc* | deny:deny*check* | tidy:*"-- tidy" | msrv:*"--features sqlite") exit 1 ;;
esac
exit 0
"#;

/// A repository that contains only the script.
struct Clone(PathBuf);

impl Clone {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("postrider-ci-{name}-{}", std::process::id()));
        _ = fs::remove_dir_all(&folder);
        let bin = folder.join("bin");
        fs::create_dir_all(folder.join(".ci")).unwrap();
        fs::create_dir_all(&bin).unwrap();
        fs::copy(process::root().join(".ci/run"), folder.join(".ci/run")).unwrap();
        fs::write(folder.join("Cargo.toml"), "rust-version = \"1.0\"\n").unwrap();
        fs::write(bin.join("cargo"), CARGO).unwrap();
        fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
        let git = Command::new("git").args(["init", "-q"]).arg(&folder).status().unwrap();
        assert!(git.success());
        let added = Command::new("git").arg("-C").arg(&folder).args(["add", ".ci", "Cargo.toml"]).status();
        assert!(added.unwrap().success());
        Self(folder)
    }

    fn run(&self, fails: &str) -> Output {
        let path = format!("{}:{}", self.0.join("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(self.0.join(".ci/run"));
        command.env("PATH", path).env("FAILS", fails).env("CALLS", self.calls());
        command.env("CARGO_TARGET_DIR", self.0.join("target"));
        command.output().unwrap()
    }

    fn calls(&self) -> PathBuf {
        self.0.join("calls")
    }
}

impl Drop for Clone {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn last_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned()
}

#[test]
fn a_run_in_which_all_stages_succeed_succeeds_and_ends_with_the_count() {
    let clone = Clone::new("good");
    let output = clone.run("nothing");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert_eq!(last_line(&output), "7 passed, 0 failed, 0 skipped");
    for stage in ["servers", "fmt", "clippy", "test", "docs", "deny", "msrv", "tidy"] {
        assert!(text.contains(&format!(" {stage}: ok, ")), "{stage} in {text}");
    }
    let calls = fs::read_to_string(clone.calls()).unwrap();
    let of = |part: &str| {
        calls.lines().find(|call| call.contains(part)).map(|call| call.split(' ').next().unwrap())
    };
    assert_eq!(of("clippy -q"), Some("19"), "at the lowest priority: {calls}");
    assert_eq!(of("-- test"), of("fmt --all"), "the tests have the usual one: {calls}");
}

#[test]
fn a_stage_that_fails_fails_the_run_and_is_named_once() {
    let clone = Clone::new("bad");
    for stage in ["fmt", "clippy", "test", "docs", "deny", "msrv", "tidy"] {
        let output = clone.run(stage);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{stage}: {text}");
        assert!(text.contains(&format!("\nfailed: {stage}\n")), "{stage}: {text}");
        let failed = usize::from(stage == "test");
        assert_eq!(last_line(&output), format!("7 passed, {failed} failed, 0 skipped"));
    }
}

#[test]
fn stages_that_have_not_ended_have_failed() {
    let clone = Clone::new("hang");
    let output = clone.run("hang");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("\nfailed: clippy docs deny msrv\n"), "{text}");
    assert_eq!(last_line(&output), "7 passed, 0 failed, 0 skipped");
}

#[test]
fn tests_that_print_no_count_are_a_failure() {
    let clone = Clone::new("count");
    let output = clone.run("count");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(last_line(&output), "0 passed, 1 failed, 0 skipped");
}

/// The script must not build before cargo has left the folder, and both sides know the line by its text.
#[test]
fn the_script_waits_for_the_line_that_the_tests_print() {
    let script = fs::read_to_string(process::root().join(Path::new(".ci/run"))).unwrap();
    assert!(script.contains(&format!("free_line=\"{}\"", crate::test::NO_FURTHER_BUILDS)));
}
