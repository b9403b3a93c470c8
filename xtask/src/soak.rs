//! `xtask soak`: runs the long programs and keeps what they print in `docs/figures/NAME.txt`.

use crate::{machine, process};

/// A program that takes long and ends with figures.
struct Soak {
    /// Names its file of figures.
    name: &'static str,
    cargo: &'static [&'static str],
}

const SOAKS: &[Soak] = &[Soak {
    name: "soak",
    cargo: &[
        "test",
        "--release",
        "-p",
        "postrider-testkit",
        "--test",
        "soak",
        "--",
        "--ignored",
        "--nocapture",
    ],
}];

/// Runs all of them, or those named; answers whether all passed.
pub(crate) fn run(names: &[String]) -> Result<bool, String> {
    if let Some(unknown) = names.iter().find(|name| !SOAKS.iter().any(|soak| soak.name == **name)) {
        let known: Vec<&str> = SOAKS.iter().map(|soak| soak.name).collect();
        return Err(format!("no soak program is called {unknown}; there are: {}", known.join(", ")));
    }
    let wanted = |soak: &&Soak| names.is_empty() || names.iter().any(|name| name == soak.name);
    let mut failed = Vec::new();
    for soak in SOAKS.iter().filter(wanted) {
        if !soak.run()? {
            failed.push(soak.name);
        }
    }
    for name in &failed {
        println!("failed: {name}");
    }
    Ok(failed.is_empty())
}

impl Soak {
    /// Answers whether it passed. Figures of a run that failed are shown but not kept.
    fn run(&self) -> Result<bool, String> {
        let mut figures = format!("cargo {}\n{}\n", self.cargo.join(" "), machine::stamp());
        print!("{figures}");
        let status = process::stream(process::cargo().args(self.cargo), |line| {
            println!("{line}");
            figures.push_str(line);
            figures.push('\n');
        })?;
        if !status.success() {
            return Ok(false);
        }
        let folder = process::root().join("docs/figures");
        let file = folder.join(format!("{}.txt", self.name));
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(&file, figures))
            .map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        println!("kept in docs/figures/{}.txt", self.name);
        Ok(true)
    }
}
