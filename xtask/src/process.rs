//! Starts other programs in the root of the repository.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// The root of the repository, determined at run time: with a target folder shared between clones, a compiled-in path
/// could be that of another clone.
pub(crate) fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    manifest.as_deref().and_then(Path::parent).map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The cargo that started this program, in the repository's root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    forget_package(&mut command);
    command
}

/// Removes cargo's variables about this package: build scripts that depend on them would run again and rebuild their
/// dependents, and tests would search for their files in the wrong folder.
pub(crate) fn forget_package(command: &mut Command) {
    let ours = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(ours)) {
        command.env_remove(name);
    }
}

/// The same command at a lower priority, if the machine supports this.
pub(crate) fn nice(command: Command) -> Command {
    let can = Command::new("nice").arg("true").status().is_ok_and(|status| status.success());
    if !can {
        return command;
    }
    let mut nice = Command::new("nice");
    nice.args(["-n", "5"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        nice.current_dir(folder);
    }
    nice
}

/// Runs a program and passes on its standard output line by line. Its standard error goes to the terminal.
pub(crate) fn stream(command: &mut Command, mut line: impl FnMut(&str)) -> Result<ExitStatus, String> {
    let name = command.get_program().display().to_string();
    let failed = |e: std::io::Error| format!("cannot run {name}: {e}");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(&failed)?;
    if let Some(stdout) = child.stdout.take() {
        let mut reader = BufReader::new(stdout);
        let mut bytes = Vec::new();
        // Bytes instead of `lines()`: output that is not UTF-8 must not end the run.
        while reader.read_until(b'\n', &mut bytes).map_err(&failed)? > 0 {
            line(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']));
            bytes.clear();
        }
    }
    child.wait().map_err(failed)
}

/// Runs a program and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().display().to_string();
    let out = command.current_dir(root()).output().map_err(|e| format!("cannot run {name}: {e}"))?;
    if !out.status.success() {
        return Err(format!("{name} failed: {}", String::from_utf8_lossy(&out.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
