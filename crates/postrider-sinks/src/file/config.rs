//! Settings of the file sink.

use std::path::PathBuf;

/// The file to write, and when to rotate it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileConfig {
    /// The file to append to. Its folder must exist. The lock file `<path>.lock` is created next to it.
    pub path: PathBuf,
    /// A batch that would make the file larger than this is written to a new file. `None`: no rotation.
    pub rotate_bytes: Option<u64>,
}

impl FileConfig {
    /// One file without rotation.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), rotate_bytes: None }
    }

    /// Rotates the file to `<path>.1`, `<path>.2` and so on before it grows larger than this.
    #[must_use]
    pub fn rotate_bytes(mut self, bytes: u64) -> Self {
        self.rotate_bytes = Some(bytes);
        self
    }
}
