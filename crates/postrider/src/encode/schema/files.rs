//! Schema files, as they are read: limited in size, and only from the folder that the configuration names.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::limits::{FILE_BYTES_MAX, FILES_BYTES_MAX};

/// The bytes that the files of one encoder may still have.
#[derive(Debug, Clone)]
pub(super) struct Budget(Arc<Mutex<u64>>);

impl Default for Budget {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(FILES_BYTES_MAX)))
    }
}

impl Budget {
    fn take(&self, bytes: u64) -> Result<(), String> {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left
            .checked_sub(bytes)
            .ok_or_else(|| format!("all schema files together have more than {FILES_BYTES_MAX} bytes"))?;
        Ok(())
    }
}

/// Why a file was not read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unread {
    Missing,
    Refused(String),
}

impl Unread {
    /// The end of a sentence.
    pub(super) fn words(self) -> String {
        match self {
            Self::Missing => "it cannot be read: there is no such file".into(),
            Self::Refused(why) => why,
        }
    }
}

/// The folder of a file.
pub(super) fn folder_of(path: &Path) -> PathBuf {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).into()
}

/// Reads a file that the configuration names.
///
/// # Errors
/// What is wrong, as the end of a sentence.
pub(super) fn read(path: &Path, budget: &Budget) -> Result<String, String> {
    let name = path.file_name().ok_or("it is not a file")?;
    read_in(&folder_of(path), Path::new(name), budget).map_err(Unread::words)
}

/// Reads a file of a folder, or of a folder in it. The name may come from another schema file: it must not lead out of the
/// folder, and neither may a symbolic link. Links within it, as Kubernetes mounts files, are followed.
pub(super) fn read_in(folder: &Path, name: &Path, budget: &Budget) -> Result<String, Unread> {
    let is_within = name.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_within || name.as_os_str().is_empty() {
        return Err(Unread::Refused("it is not a path within the folder of the schema".into()));
    }
    let real = |path: &Path| path.canonicalize().map_err(|error| failed(&error));
    let path = real(&folder.join(name))?;
    if !path.starts_with(real(folder)?) {
        return Err(Unread::Refused(
            "it is a symbolic link that leads out of its folder; use the path of its target".into(),
        ));
    }
    // A pipe would wait for its other end.
    if !fs::metadata(&path).map_err(|error| failed(&error))?.is_file() {
        return Err(Unread::Refused("it is not a file".into()));
    }
    let file = File::open(&path).map_err(|error| failed(&error))?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    let size = bytes.len() as u64;
    if size > FILE_BYTES_MAX {
        return Err(Unread::Refused(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    budget.take(size).map_err(Unread::Refused)?;
    String::from_utf8(bytes).map_err(|_| Unread::Refused("it cannot be read: it is not UTF-8".into()))
}

fn failed(error: &std::io::Error) -> Unread {
    match error.kind() {
        ErrorKind::NotFound => Unread::Missing,
        _ => Unread::Refused(format!("it cannot be read: {error}")),
    }
}
