//! One program of a test run: starts it, watches it, and reads its output when it has ended.

#![allow(clippy::disallowed_methods, reason = "how long a real process takes is what is asked here")]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::build::Program;
use crate::{process, servers};

/// Time limit, longer than any program takes on a slow machine; a program that hangs is killed and counts as failed.
const SECONDS_MAX: u64 = 30 * 60;

/// How often to check whether a program has ended.
const LOOK_AFTER: Duration = Duration::from_millis(50);

/// A program to run.
#[derive(Debug)]
pub(super) struct Job {
    /// Its name, and where it runs if it runs several times.
    pub(super) name: String,
    /// Prefix of the names of its tests: the other server that they run on.
    pub(super) place: Option<String>,
    command: Command,
    /// Whether single tests of it can be selected: it is not a command that runs several programs.
    is_program: bool,
}

/// The result and output of a program.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) name: String,
    pub(super) place: Option<String>,
    pub(super) status: Result<ExitStatus, String>,
    /// Its program, to run single tests again.
    pub(super) again: Option<Box<Job>>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) took: Duration,
}

impl Job {
    /// A test program, as cargo would run it, with this many tests at a time.
    pub(super) fn of(program: &Program, threads: usize, arguments: &[String]) -> Self {
        let mut command = Command::new(&program.executable);
        command.current_dir(&program.folder).arg("--show-output").args(arguments);
        process::forget_package(&mut command);
        if std::env::var_os("RUST_TEST_THREADS").is_none() {
            command.env("RUST_TEST_THREADS", threads.to_string());
        }
        command.env("CARGO_MANIFEST_DIR", &program.folder).env("CARGO_PKG_NAME", &program.package);
        Self { name: program.name.clone(), place: None, command, is_program: true }
    }

    /// The same program and environment, with these tests only.
    pub(super) fn only(&self, tests: &[String]) -> Self {
        let mut command = Command::new(self.command.get_program());
        if let Some(folder) = self.command.get_current_dir() {
            command.current_dir(folder);
        }
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.args(["--show-output", "--exact"]).args(tests);
        Self { name: self.name.clone(), place: self.place.clone(), command, is_program: self.is_program }
    }

    /// The tests of these modules of a program again, on another version of PostgreSQL.
    pub(super) fn on_postgres(program: &Program, threads: usize, version: &str, modules: &[&str]) -> Self {
        let mut job = Self::of(program, threads, &[]);
        job.command.args(modules).env("POSTRIDER_TEST_POSTGRES_VERSION", version);
        job.command.env_remove("POSTRIDER_TEST_POSTGRES");
        let name = format!("{} on PostgreSQL {version}", program.name);
        Self { name, place: Some(format!("postgres {version}")), ..job }
    }

    /// A command that is not a test program.
    pub(super) fn command(name: &str, command: Command) -> Self {
        Self { name: name.to_owned(), place: None, command, is_program: false }
    }

    /// Runs it to its end or to the time limit. The folder is for its temporary files and its output.
    pub(super) fn run(mut self, folder: &Path) -> Ended {
        let began = Instant::now();
        let status = self.wait(folder);
        let said = |stream: &str| fs::read(folder.join(stream)).unwrap_or_default();
        // Output that is not UTF-8 must not end the run.
        let text = |stream: &str| String::from_utf8_lossy(&said(stream)).into_owned();
        let (stdout, stderr) = (text("stdout"), text("stderr"));
        let (name, place) = (self.name.clone(), self.place.clone());
        let again = self.is_program.then(|| Box::new(self));
        Ended { name, place, status, again, stdout, stderr, took: began.elapsed() }
    }

    /// Its output goes to files, because a server that it leaves behind could keep a pipe open.
    #[allow(
        clippy::disallowed_methods,
        reason = "the end of a process gives no signal that also ends in time"
    )]
    fn wait(&mut self, folder: &Path) -> Result<ExitStatus, String> {
        let failed = |e: std::io::Error| format!("cannot run it: {e}");
        let file = |stream: &str| File::create(folder.join(stream)).map_err(failed);
        self.command.stdin(Stdio::null()).stdout(file("stdout")?).stderr(file("stderr")?);
        self.command.env("POSTRIDER_SERVERS_DIR", servers::cache()).env("TMPDIR", folder);
        let mut child = self.command.spawn().map_err(failed)?;
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                return Ok(status);
            }
            if began.elapsed().as_secs() >= SECONDS_MAX {
                child.kill().map_err(failed)?;
                child.wait().map_err(failed)?;
                return Err(format!("still running after {SECONDS_MAX} s, and ended"));
            }
            std::thread::sleep(LOOK_AFTER);
        }
    }
}
