//! What the log needs of an open file: the seam where tests put a disk that fails.

use std::fs::File;
use std::io::{self, Write};

pub(super) trait Medium: Send {
    /// Adds bytes at the end. After an error, some of them may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Cuts everything after so many bytes off.
    fn truncate(&mut self, len: u64) -> io::Result<()>;

    /// Returns when the disk has what was written.
    fn sync(&mut self) -> io::Result<()>;
}

impl Medium for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
