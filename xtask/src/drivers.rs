//! The drivers of other languages for `crates/postrider/tests/languages`: downloaded once per machine, with each
//! language's package manager, in the versions of `examples/any-language`. Tests never download anything.
//!
//! They are in `POSTRIDER_DRIVERS_DIR`, otherwise in `postrider-drivers` in the user's cache, one folder per language
//! and set of versions. The file [`COMPLETE`] is written last and contains the manifests of the folder; a test uses the
//! folder whose manifests equal those of its clone.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::process;

/// The file that marks a complete folder and contains its manifests.
const COMPLETE: &str = "complete";

/// A language and how its drivers are downloaded.
struct Language {
    name: &'static str,
    /// The manifests with the versions, in the language's folder.
    manifests: &'static [&'static str],
    /// Downloads the drivers of the first folder's manifests into the second folder.
    fetch: fn(&Path, &Path) -> Result<(), String>,
}

const LANGUAGES: &[Language] = &[
    Language { name: "python", manifests: &["requirements.txt"], fetch: python },
    Language { name: "node", manifests: &["package.json", "package-lock.json"], fetch: node },
    Language { name: "go", manifests: &["go.mod", "go.sum"], fetch: go },
    Language { name: "java", manifests: &["pom.xml"], fetch: java },
];

/// Downloads missing drivers. Returns the languages whose drivers are not available, with the reasons.
pub(crate) fn prepare() -> Vec<(&'static str, String)> {
    // In parallel, because each mostly waits for the network.
    std::thread::scope(|scope| {
        let fetch =
            |language: &'static Language| scope.spawn(|| Some((language.name, language.prepare().err()?)));
        let fetches: Vec<_> = LANGUAGES.iter().map(fetch).collect();
        fetches.into_iter().filter_map(|fetch| fetch.join().ok().flatten()).collect()
    })
}

/// `xtask drivers`: downloads them and prints the result.
pub(crate) fn run() -> Result<bool, String> {
    let missing = prepare();
    println!("drivers are in {}", cache().display());
    for (language, reason) in &missing {
        println!("missing: {language}: {reason}");
    }
    Ok(missing.is_empty())
}

/// The folder of all drivers. The tests use the same rule.
fn cache() -> PathBuf {
    if let Some(folder) = std::env::var_os("POSTRIDER_DRIVERS_DIR") {
        return folder.into();
    }
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from).join("postrider-drivers")
}

impl Language {
    fn prepare(&self) -> Result<(), String> {
        let program = process::root().join("examples/any-language").join(self.name);
        let wanted = self.wanted(&program)?;
        let cache = cache();
        if self.finished(&cache).any(|found| found == wanted) {
            return Ok(());
        }
        std::fs::create_dir_all(&cache).map_err(|e| format!("{} cannot be made: {e}", cache.display()))?;
        // Concurrent runs would download into the same folder.
        let lock = File::create(cache.join(format!("{}.lock", self.name)))
            .and_then(|file| file.lock().map(|()| file));
        let _lock = lock.map_err(|e| format!("{} cannot be locked: {e}", cache.display()))?;
        if self.finished(&cache).any(|found| found == wanted) {
            return Ok(());
        }
        println!("fetching drivers for {}", self.name);
        let folder = self.unfinished(&cache);
        _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).map_err(|e| format!("{} cannot be made: {e}", folder.display()))?;
        (self.fetch)(&program, &folder)?;
        std::fs::write(folder.join(COMPLETE), wanted).map_err(|e| format!("it cannot be kept: {e}"))
    }

    /// The manifests, one after the other.
    fn wanted(&self, program: &Path) -> Result<Vec<u8>, String> {
        let mut wanted = Vec::new();
        for name in self.manifests {
            let path = program.join(name);
            wanted
                .extend(std::fs::read(&path).map_err(|e| format!("{} cannot be read: {e}", path.display()))?);
        }
        Ok(wanted)
    }

    /// The manifests of the complete folders of this language.
    fn finished(&self, cache: &Path) -> impl Iterator<Item = Vec<u8>> {
        let folders = (1..).map(|number| self.folder(cache, number)).take_while(|folder| folder.exists());
        folders.filter_map(|folder| std::fs::read(folder.join(COMPLETE)).ok())
    }

    /// A folder that does not exist or is incomplete.
    fn unfinished(&self, cache: &Path) -> PathBuf {
        let mut number = 1;
        while self.folder(cache, number).join(COMPLETE).exists() {
            number += 1;
        }
        self.folder(cache, number)
    }

    fn folder(&self, cache: &Path, number: u32) -> PathBuf {
        cache.join(format!("{}-{number}", self.name))
    }
}

fn python(program: &Path, folder: &Path) -> Result<(), String> {
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
        "--target",
    ];
    let manifest = program.join("requirements.txt");
    run_quietly(Command::new("python3").args(pip).arg(folder).arg("-r").arg(manifest))
}

fn node(program: &Path, folder: &Path) -> Result<(), String> {
    for name in ["package.json", "package-lock.json"] {
        std::fs::copy(program.join(name), folder.join(name))
            .map_err(|e| format!("{name} is not there: {e}"))?;
    }
    let npm = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"];
    run_quietly(Command::new("npm").args(npm).current_dir(folder))
}

/// Builds the program once, so that the test's build finds everything except the program itself in Go's cache.
fn go(program: &Path, folder: &Path) -> Result<(), String> {
    let mut go = Command::new("go");
    go.args(["build", "-modcacherw", "-mod=readonly", "-buildvcs=false", "-o", "/dev/null", "."]);
    go.env("GOMODCACHE", folder.join("modules")).env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0");
    run_quietly(go.current_dir(program))
}

fn java(program: &Path, folder: &Path) -> Result<(), String> {
    let mut maven = Command::new("mvn");
    maven.args(["--batch-mode", "--quiet", "--strict-checksums", "dependency:copy-dependencies"]);
    maven.arg(format!("-DoutputDirectory={}", folder.display()));
    run_quietly(maven.arg("--file").arg(program.join("pom.xml")))
}

/// Runs a program; prints its output only if it fails.
fn run_quietly(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    let ended = command.stdin(Stdio::null()).output().map_err(|e| format!("{name} cannot be run: {e}"))?;
    if ended.status.success() {
        return Ok(());
    }
    // Maven prints errors on its standard output.
    let said = if ended.stderr.trim_ascii().is_empty() { ended.stdout } else { ended.stderr };
    let said = String::from_utf8_lossy(&said);
    Err(format!("{name} failed: {}", said.trim().lines().next().unwrap_or("it printed nothing")))
}
