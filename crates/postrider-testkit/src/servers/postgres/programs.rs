//! Finds the programs of a PostgreSQL version.

use std::path::{Path, PathBuf};

use crate::servers::cache;

/// The programs of one version of PostgreSQL.
#[derive(Debug, Clone)]
pub(super) struct Programs(PathBuf);

impl Programs {
    /// The programs of a major version, such as `"14"`; without a version, those of the newest installed one, or of the
    /// newest downloaded one.
    pub(super) fn of(version: Option<&str>) -> Result<Self, String> {
        let installed = versions(Path::new("/usr/lib/postgresql"), "");
        let fetched = versions(&cache(), "postgres-");
        let in_path = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .map(|folder| (Vec::new(), folder))
            .collect();
        let all = [installed, in_path, fetched].into_iter().flatten();
        let wanted: Option<u32> = version.and_then(|version| version.parse().ok());
        let mut found = all
            .filter(|(number, _)| {
                version.is_none() || wanted.is_some_and(|wanted| number.first() == Some(&wanted))
            })
            .map(|(_, folder)| Self(folder))
            .filter(|programs| programs.path("initdb").exists() && programs.path("postgres").exists());
        found.next().ok_or_else(|| match version {
            Some(version) => {
                format!("no PostgreSQL {version} here; `cargo run -p xtask -- servers` fetches it")
            }
            None => "no PostgreSQL here; `cargo run -p xtask -- servers` installs it".to_owned(),
        })
    }

    pub(super) fn path(&self, program: &str) -> PathBuf {
        self.0.join(program)
    }
}

/// The folders of programs in `folder`, each with its version, the newest first.
fn versions(folder: &Path, prefix: &str) -> Vec<(Vec<u32>, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut versions: Vec<(Vec<u32>, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version: Result<Vec<u32>, _> =
                name.strip_prefix(prefix)?.split('.').map(str::parse).collect();
            Some((version.ok()?, entry.path().join("bin")))
        })
        .collect();
    versions.sort();
    versions.reverse();
    versions
}
