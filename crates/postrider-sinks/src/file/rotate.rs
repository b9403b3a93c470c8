//! Rotation of a large file.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Renames the file to `<path>.N` with the next number: the highest number is the newest file.
pub(super) fn rotate(path: &Path) -> io::Result<()> {
    let last = numbers(path)?.into_iter().max().map_or(0, u64::from);
    fs::rename(path, with_suffix(path, &format!(".{}", last + 1)))
}

/// The path with a suffix added to its file name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// The folder the file is in.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// Makes a new or renamed file survive a power failure.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    // Windows cannot open a folder like this, and its file systems journal names.
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
