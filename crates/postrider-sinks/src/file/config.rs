//! Settings of the file sink.

use std::path::PathBuf;

/// Which file, and when to begin a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileConfig {
    /// The file that is written. Its folder must exist. `<path>.lock` stands beside it.
    pub path: PathBuf,
    /// A batch that would make the file larger than this goes into a new one. `None`: never.
    pub rotate_bytes: Option<u64>,
}

impl FileConfig {
    /// One file that grows forever.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), rotate_bytes: None }
    }

    /// Puts the file aside as `<path>.1`, `<path>.2` and so on before it grows past so many bytes.
    #[must_use]
    pub fn with_rotate_bytes(mut self, bytes: u64) -> Self {
        self.rotate_bytes = Some(bytes);
        self
    }
}
