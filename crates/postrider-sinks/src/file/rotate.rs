//! Putting a large file aside.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Renames the file to the next free `<path>.N`. Numbers grow: the highest is the youngest.
pub(super) fn put_aside(path: &Path) -> io::Result<()> {
    let last = numbers(path)?.into_iter().max().map_or(0, u64::from);
    fs::rename(path, beside(path, &format!(".{}", last + 1)))
}

/// The path with something added to its last part.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// The folder the file is in.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// Makes a new or renamed file stay so after a power cut.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    // Windows cannot open a folder like this, and its file systems log names on their own.
    if cfg!(unix) { File::open(folder(path))?.sync_all() } else { Ok(()) }
}

fn numbers(path: &Path) -> io::Result<Vec<u32>> {
    let prefix = path.file_name().map(|name| format!("{}.", name.to_string_lossy())).unwrap_or_default();
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder(path))? {
        let name = entry?.file_name();
        let number: Option<u32> = name.to_string_lossy().strip_prefix(&prefix).and_then(|n| n.parse().ok());
        numbers.extend(number);
    }
    Ok(numbers)
}
