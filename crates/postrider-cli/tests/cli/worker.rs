//! Runs many command lines in one process. A start of the program costs far more than most commands, and some tests
//! need thousands of them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use postrider_cli::config::Environment;
use serde::{Deserialize, Serialize};

use crate::program::{Program, Ran};

/// The file with the command lines of a worker; a process that has this variable is a worker.
const COMMAND_LINES: &str = "POSTRIDER_TEST_COMMAND_LINES";

/// Begins the line that a worker prints on both streams after each command.
const END: &str = "== end of command line, exit";

/// A process runs no more than this: what a command leaves behind, such as a thread that still connects, ends with it.
const COMMAND_LINES_MAX: usize = 500;

/// A command line with its folder and its environment.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CommandLine {
    folder: PathBuf,
    variables: Vec<(String, String)>,
    args: Vec<String>,
}

impl CommandLine {
    /// In the folder of a program, with its variables.
    pub(crate) fn new(program: &Program, args: &[&str]) -> Self {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        Self { folder: program.path().to_owned(), variables: program.variables().to_vec(), args }
    }
}

/// Runs the command lines one after the other and calls `check` with each result, as [`Program::run`] returns it.
pub(crate) fn run_all(lines: &[CommandLine], check: impl Fn(&CommandLine, &Ran)) {
    for lines in lines.chunks(COMMAND_LINES_MAX) {
        let results = run_in_worker(lines);
        assert_eq!(results.len(), lines.len(), "the worker ended early: {:?}", results.last());
        lines.iter().zip(&results).for_each(|(line, ran)| check(line, ran));
    }
}

/// Starts this test program again, as a worker.
fn run_in_worker(lines: &[CommandLine]) -> Vec<Ran> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("lines"), serde_json::to_vec(lines).unwrap()).unwrap();
    let mut worker = Command::new(std::env::current_exe().unwrap());
    worker.args(["--exact", "worker::a_worker_prints_what_the_program_prints", "--nocapture"]);
    worker.env_clear().env(COMMAND_LINES, path("lines"));
    worker.stdin(Stdio::null());
    worker.stdout(File::create(path("stdout")).unwrap()).stderr(File::create(path("stderr")).unwrap());
    let status = worker.status().unwrap();
    let text = |name: &str| String::from_utf8_lossy(&fs::read(path(name)).unwrap()).into_owned();
    let (stdout, stderr) = (text("stdout"), text("stderr"));
    assert!(status.success(), "{status}: {stdout}{stderr}");
    parts(&stdout)
        .into_iter()
        .zip(parts(&stderr))
        .map(|((stdout, exit), (stderr, _))| Ran { exit: Some(exit), stdout, stderr })
        .collect()
}

/// The output of each command line with its exit code. The output of the test harness before the first one is dropped.
fn parts(output: &str) -> Vec<(String, i32)> {
    let output = output.split_once(START).map_or("", |(_, rest)| rest);
    let mut rest = output;
    let mut parts = Vec::new();
    while let Some((part, after)) = rest.split_once(END) {
        let (exit, after) = after.split_once('\n').unwrap();
        parts.push((part.to_owned(), exit.trim().parse().unwrap()));
        rest = after;
    }
    parts
}

/// What a worker prints before the first command.
const START: &str = "== the worker starts\n";

/// Runs the command lines of the file in this process.
fn work(file: &Path) {
    let lines: Vec<CommandLine> = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let say = |text: &str| {
        io::stdout().write_all(text.as_bytes()).unwrap();
        io::stdout().flush().unwrap();
        io::stderr().write_all(text.as_bytes()).unwrap();
    };
    say(START);
    for CommandLine { folder, variables, args } in lines {
        std::env::set_current_dir(folder).unwrap();
        let args = std::iter::once("postrider".to_owned()).chain(args).map(Into::into).collect();
        let environment: Environment = variables.into_iter().collect();
        let exit = postrider_cli::run_with(args, environment);
        say(&format!("{END} {}\n", exit.number()));
    }
}

#[test]
fn a_worker_prints_what_the_program_prints() {
    if let Some(file) = std::env::var_os(COMMAND_LINES) {
        return work(Path::new(&file));
    }
    let config = "outbox.a.url = 'env:SHOP'\nsink.o.type = 'stdout'\nsubscription.s.sink = 'o'\n";
    let program = || Program::with_config(config).variable("SHOP", "sqlite:shop.db");
    let (in_worker, alone) = (program(), program());
    let commands = [
        &["config", "show", "--origin"][..],
        &["status"],
        &["migrate", "up"],
        &["migrate", "status"],
        &["relay", "--drain"],
        &["config", "check", "--set", "relay.lgo=info"],
        &["--color=always", "nonsense"],
        &["--help"],
    ];
    let lines: Vec<CommandLine> = commands.iter().map(|args| CommandLine::new(&in_worker, args)).collect();
    let results = std::cell::RefCell::new(Vec::new());
    run_all(&lines, |line, ran| results.borrow_mut().push((line.args.clone(), format!("{ran:?}"))));
    let of_program = commands.map(|args| (args.to_vec(), format!("{:?}", alone.run(args))));
    // Two tasks of a relay write their lines in any order.
    let without_times = |text: &str| {
        let line = |line: &str| line.split(' ').filter(|word| !word.ends_with("Z")).collect::<String>();
        let mut lines: Vec<String> = text.split("\\n").map(line).collect();
        lines.sort();
        lines
    };
    for ((args, ran), (expected_args, expected)) in results.into_inner().iter().zip(&of_program) {
        assert_eq!(args, expected_args);
        assert_eq!(without_times(ran), without_times(expected), "{args:?}");
    }
}
