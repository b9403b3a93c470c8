//! A program of `examples/any-language`, with the drivers that `xtask drivers` downloaded.

use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    Node,
    Go,
    Java,
}

impl Language {
    /// Its folder next to the others.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "node",
            Self::Go => "go",
            Self::Java => "java",
        }
    }

    /// The program that runs the language, and arguments with which it ends immediately.
    fn runtime(self) -> [&'static str; 2] {
        match self {
            Self::Python => ["python3", "--version"],
            Self::Node => ["node", "--version"],
            Self::Go => ["go", "version"],
            Self::Java => ["java", "-version"],
        }
    }

    fn manifests(self) -> &'static [&'static str] {
        match self {
            Self::Python => &["requirements.txt"],
            Self::Node => &["package.json", "package-lock.json"],
            Self::Go => &["go.mod", "go.sum"],
            Self::Java => &["pom.xml"],
        }
    }
}

/// Something that can be run.
pub(crate) struct Program {
    command: Command,
    /// Built from source for this test.
    _built: Option<tempfile::TempDir>,
}

impl Program {
    /// Or why this machine cannot run it.
    pub(crate) fn find(language: Language) -> Result<Self, String> {
        has_runtime(language)?;
        let program = examples().join(language.folder());
        let drivers = drivers(language, &program)?;
        let mut built = None;
        let mut command = match language {
            Language::Python => {
                let mut python = Command::new("python3");
                python.arg("orders.py").env("PYTHONPATH", drivers);
                python
            }
            Language::Node => {
                let mut node = Command::new("node");
                node.arg("orders.js").env("NODE_PATH", drivers.join("node_modules"));
                node
            }
            Language::Go => {
                let folder = tempfile::tempdir().unwrap();
                let binary = folder.path().join("orders");
                build_go(&program, &drivers, &binary);
                built = Some(folder);
                Command::new(binary)
            }
            Language::Java => {
                let mut java = Command::new("java");
                // Older Javas read a source file in the encoding of the locale.
                java.arg("-Dfile.encoding=UTF-8").arg("-cp").arg(drivers.join("*")).arg("Orders.java");
                java
            }
        };
        command.current_dir(&program);
        Ok(Self { command, _built: built })
    }

    /// The same drivers, another program.
    pub(crate) fn python_mysql() -> Result<Self, String> {
        has_runtime(Language::Python)?;
        let program = examples().join("python");
        let mut command = Command::new("python3");
        command.arg("orders_mysql.py").env("PYTHONPATH", drivers(Language::Python, &program)?);
        command.current_dir(&program);
        Ok(Self { command, _built: None })
    }

    /// Python's own module needs no driver, only a SQLite that knows STRICT tables.
    pub(crate) fn python_sqlite() -> Result<Self, String> {
        has_runtime(Language::Python)?;
        let question =
            "import sqlite3; print(sqlite3.sqlite_version, sqlite3.sqlite_version_info >= (3, 37))";
        let answer = Command::new("python3").args(["-c", question]).output().map_err(|e| e.to_string())?;
        let answer = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        if !answer.ends_with("True") {
            return Err(format!("Python has no SQLite of 3.37 or later: {answer}"));
        }
        let mut command = Command::new("python3");
        command.arg("orders_sqlite.py").current_dir(examples().join("python"));
        Ok(Self { command, _built: None })
    }

    /// Runs it to its end, and asserts that it succeeds.
    pub(crate) async fn run(mut self, variables: &[(&str, &str)]) {
        self.command.envs(variables.iter().copied()).env("PYTHONDONTWRITEBYTECODE", "1");
        let ended = tokio::task::spawn_blocking(move || must_succeed(&mut self.command)).await;
        ended.unwrap();
    }
}

/// Builds without network access.
fn build_go(program: &Path, drivers: &Path, binary: &Path) {
    let mut go = Command::new("go");
    go.args(["build", "-mod=readonly", "-buildvcs=false", "-o"]).arg(binary).arg(".").current_dir(program);
    go.env("GOMODCACHE", drivers.join("modules"))
        .env("GOPROXY", "off")
        .env("GOTOOLCHAIN", "local")
        .env("CGO_ENABLED", "0");
    must_succeed(&mut go);
}

fn must_succeed(command: &mut Command) {
    let ended = command.output().unwrap();
    let [said, complained] = [&ended.stdout, &ended.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(ended.status.success(), "{command:?} ended with {}: {said}{complained}", ended.status);
}

fn has_runtime(language: Language) -> Result<(), String> {
    let [runtime, question] = language.runtime();
    match Command::new(runtime).arg(question).output() {
        Ok(answer) if answer.status.success() => Ok(()),
        _ => Err(format!("{runtime} cannot be run here")),
    }
}

/// The folder with the drivers for the manifests of this clone; see `xtask/src/drivers.rs`.
fn drivers(language: Language, program: &Path) -> Result<PathBuf, String> {
    let wanted: Vec<u8> =
        language.manifests().iter().flat_map(|name| std::fs::read(program.join(name)).unwrap()).collect();
    let folders = (1..).map(|number| cache().join(format!("{}-{number}", language.folder())));
    let mut folders = folders.take_while(|folder| folder.exists());
    let found =
        folders.find(|folder| std::fs::read(folder.join("complete")).is_ok_and(|made| made == wanted));
    found.ok_or_else(|| "its driver was not fetched; `cargo run -q -p xtask -- drivers` says why".to_owned())
}

fn cache() -> PathBuf {
    if let Some(folder) = std::env::var_os("POSTRIDER_DRIVERS_DIR") {
        return folder.into();
    }
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join("postrider-drivers")
}

fn examples() -> PathBuf {
    // Read at run time: with a target folder that clones share, a compiled-in path could be that of another clone.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap();
    manifest.join("../../examples/any-language")
}
