//! Readers in Python, which share no code with the sinks.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a script to its end. `Err` is what it wrote to its standard error.
pub(super) fn answer(script: &str, packages: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut python = Command::new("python3");
    python.args(["-c", script]).args(arguments).env("PYTHONPATH", packages);
    let ended = python.stdin(Stdio::null()).output().map_err(|e| format!("python3 cannot be run: {e}"))?;
    let said = if ended.status.success() { &ended.stdout } else { &ended.stderr };
    let said = String::from_utf8_lossy(said).into_owned();
    if ended.status.success() { Ok(said) } else { Err(said) }
}

/// The fields of a line: texts in hexadecimal, separated by tabs.
#[allow(clippy::expect_used, reason = "a test that cannot go on fails")]
pub(super) fn fields(line: &str) -> Vec<Vec<u8>> {
    let byte = |pair: &[u8]| {
        let digits = std::str::from_utf8(pair).ok();
        digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).expect("hexadecimal")
    };
    line.split('\t').map(|hex| hex.as_bytes().chunks(2).map(byte).collect()).collect()
}

/// Such a field as a text.
pub(super) fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}
