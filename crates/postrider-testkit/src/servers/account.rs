//! The account that a server runs as. PostgreSQL, for example, refuses to run as root.

use std::path::Path;
use std::process::Command;

/// An unprivileged account, if this process runs as root.
#[derive(Debug, Clone, Copy)]
pub(super) struct Account(Option<(u32, u32)>);

impl Account {
    /// The user `nobody` if the test runs as root, otherwise the current user.
    pub(super) fn unprivileged() -> Result<Self, String> {
        if id(&["-u"])? != 0 {
            return Ok(Self(None));
        }
        Ok(Self(Some((id(&["-u", "nobody"])?, id(&["-g", "nobody"])?))))
    }

    /// Makes the account the owner of a folder or file.
    pub(super) fn give(self, path: &Path) -> Result<(), String> {
        let Some((user, group)) = self.0 else { return Ok(()) };
        std::os::unix::fs::chown(path, Some(user), Some(group))
            .map_err(|e| format!("{} cannot be given away: {e}", path.display()))
    }

    /// The command that runs a program as the account. The program replaces the one that changes the account, so the
    /// process id stays the same.
    pub(super) fn command(self, program: &Path) -> Command {
        let Some((user, group)) = self.0 else { return Command::new(program) };
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()]);
        command.arg(program);
        command
    }

    /// Runs a program as the account, to its end.
    pub(super) fn run(self, program: &Path, arguments: &[&str]) -> Result<(), String> {
        let name = program.file_name().unwrap_or_default().display().to_string();
        let mut command = self.command(program);
        command.args(arguments).env("LC_ALL", "C").stdin(std::process::Stdio::null());
        let ended = command.output().map_err(|e| format!("{name} cannot be run: {e}"))?;
        if ended.status.success() {
            return Ok(());
        }
        Err(format!("{name} failed: {}", String::from_utf8_lossy(&ended.stderr).trim()))
    }
}

fn id(args: &[&str]) -> Result<u32, String> {
    let answer = Command::new("id").args(args).output().map_err(|e| format!("id cannot be run: {e}"))?;
    let number = String::from_utf8_lossy(&answer.stdout);
    number.trim().parse().map_err(|_| format!("id {} is {number:?}", args.join(" ")))
}
