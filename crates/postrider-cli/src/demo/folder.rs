//! The folder of the demo's files.

use std::path::{Path, PathBuf};

use postrider::{Code, Error, Result};
use tempfile::TempDir;

const DATABASE: &str = "shop.db";
const AUDIT: &str = "audit.jsonl";

/// A folder with the demo's files. A temporary one is deleted when this is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    temporary: Option<TempDir>,
}

impl Folder {
    /// A new temporary folder that only this user can read.
    pub(crate) fn temporary(keep: bool) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("postrider-demo-").tempdir().map_err(|error| {
            Error::new(Code::StoreFailed, "cannot create a temporary folder")
                .with_source(error)
                .with_hint("set TMPDIR to a writable folder, or pass one with --folder")
        })?;
        let path = folder.path().to_owned();
        if keep {
            let path = folder.keep();
            return Ok(Self { path, temporary: None });
        }
        Ok(Self { path, temporary: Some(folder) })
    }

    /// This folder, created if it does not exist. No file in it is overwritten.
    pub(crate) fn named(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path).map_err(|error| {
            Error::new(Code::StoreFailed, format!("cannot create the folder {}", path.display()))
                .with_source(error)
                .with_hint("pass another folder with --folder")
        })?;
        let folder = Self { path: path.to_owned(), temporary: None };
        for file in [folder.database(), folder.audit()] {
            if file.exists() {
                return Err(Error::new(Code::FileExists, format!("{} already exists", file.display()))
                    .with_hint("choose another folder, or remove the file"));
            }
        }
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the files are kept after the demo.
    pub(crate) fn stays(&self) -> bool {
        self.temporary.is_none()
    }

    /// The shop's database.
    pub(crate) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Where the subscription `audit` writes.
    pub(crate) fn audit(&self) -> PathBuf {
        self.path.join(AUDIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_folder_goes_unless_it_is_kept() {
        let path = Folder::temporary(false).unwrap().path().to_owned();
        assert!(!path.exists());
        let kept = Folder::temporary(true).unwrap().path().to_owned();
        assert!(kept.exists());
        std::fs::remove_dir(kept).unwrap();
    }

    #[test]
    fn nothing_in_a_named_folder_is_overwritten() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("new");
        let folder = Folder::named(&path).unwrap();
        std::fs::write(folder.database(), "mine").unwrap();
        assert_eq!(Folder::named(&path).unwrap_err().code(), Code::FileExists);
    }
}
