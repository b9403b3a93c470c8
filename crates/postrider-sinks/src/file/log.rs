//! The file as a log: whole batches are appended, or nothing is.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::config::FileConfig;
use super::error::AppendError;
use super::rotate::{rotate, sync_folder, with_suffix};

/// Appends batches to a file that other processes may append to as well, under a lock per batch.
pub(super) struct Log {
    path: PathBuf,
    rotate_bytes: Option<u64>,
    /// An open `<path>.lock`. A lock on the file itself would move away with it when it is rotated.
    lock: File,
    wrap: fn(File) -> Box<dyn LogFile>,
    current: Option<Current>,
}

/// The open file, and its state after our last write.
struct Current {
    file: Box<dyn LogFile>,
    identity: (u64, u64),
    /// Up to this length the file contains complete lines, and those of this process are acknowledged.
    len: u64,
}

impl Log {
    /// Opens the file, creates it if needed, and removes a partial line from its end.
    pub(super) fn open(config: &FileConfig, wrap: fn(File) -> Box<dyn LogFile>) -> io::Result<Self> {
        let path = std::path::absolute(&config.path)?;
        let lock = open(OpenOptions::new().write(true).truncate(false), &with_suffix(&path, ".lock"))?;
        let mut log = Self { path, rotate_bytes: config.rotate_bytes, lock, wrap, current: None };
        log.locked(|log| log.take_current().map(|current| log.current = Some(current)))?;
        Ok(log)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends all bytes and syncs them to disk.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), AppendError> {
        self.locked(|log| {
            let mut current = log.take_current()?;
            if log.rotate_bytes.is_some_and(|max| current.len > 0 && current.len + bytes.len() as u64 > max) {
                drop(current);
                let permissions = std::fs::metadata(&log.path)?.permissions();
                rotate(&log.path)?;
                current = log.reopen()?;
                // The next file is for the same readers.
                std::fs::set_permissions(&log.path, permissions)?;
            }
            // On an error `current` is dropped, and the next batch reopens the file.
            current.append(bytes)?;
            log.current = Some(current);
            Ok(())
        })
    }

    fn locked<T, E: From<io::Error>>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.lock.lock()?;
        let result = work(self);
        // If this fails, the lock is released when the file is closed.
        let _ = self.lock.unlock();
        result
    }

    /// The file as this process left it, or opened again if another process wrote to it, truncated or moved it.
    fn take_current(&mut self) -> io::Result<Current> {
        if let Some(current) = self.current.take()
            && let Ok(found) = std::fs::metadata(&self.path)
            && (identity(&found), found.len()) == (current.identity, current.len)
        {
            return Ok(current);
        }
        self.reopen()
    }

    fn reopen(&self) -> io::Result<Current> {
        // Opening a pipe would block until it has a reader.
        if std::fs::metadata(&self.path).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut file = open(OpenOptions::new().read(true).append(true), &self.path)?;
        let found = file.metadata()?;
        let len = end_of_last_line(&mut file, found.len())?;
        if len < found.len() {
            file.set_len(len)?;
        }
        file.sync_all()?;
        sync_folder(&self.path)?;
        Ok(Current { file: (self.wrap)(file), identity: identity(&found), len })
    }
}

impl Current {
    fn append(&mut self, bytes: &[u8]) -> Result<(), AppendError> {
        if let Err(error) = self.file.append(bytes) {
            return Err(match self.file.truncate(self.len).and_then(|()| self.file.sync()) {
                Ok(()) => AppendError::Unchanged(error),
                Err(_) => AppendError::Unknown(error),
            });
        }
        if let Err(error) = self.file.sync() {
            // A reader may have seen the lines, and they may be on disk, even if the truncation succeeds.
            let _ = self.file.truncate(self.len);
            return Err(AppendError::Unknown(error));
        }
        self.len += bytes.len() as u64;
        Ok(())
    }
}

/// Opens or creates a file. A new file is accessible only to its owner, because events may contain personal data. A
/// symbolic link is not followed: any user with write access to the folder could redirect the events to another file.
fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    options.create(true).open(path).map_err(|error| match path.is_symlink() {
        true => io::Error::other("it is a symbolic link, which is not followed; use the path of its target"),
        false => error,
    })
}

/// Where the last complete line of the file ends; 0 if there is none.
fn end_of_last_line(file: &mut File, len: u64) -> io::Result<u64> {
    let mut chunk = vec![0; 64 * 1024];
    let mut end = len;
    while end > 0 {
        let start = end.saturating_sub(chunk.len() as u64);
        file.seek(SeekFrom::Start(start))?;
        let mut part = file.take(end - start);
        let mut filled = 0;
        while let Some(rest) = chunk.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match part.read(rest)? {
                0 => break,
                count => filled += count,
            }
        }
        if let Some(at) = chunk.iter().take(filled).rposition(|&byte| byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// The file operations of the log. Tests replace them with a failing disk.
pub(super) trait LogFile: Send {
    /// Adds bytes at the end. After an error, some of them may have been written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Truncates the file to this length.
    fn truncate(&mut self, len: u64) -> io::Result<()>;

    /// Returns when all writes are on disk.
    fn sync(&mut self) -> io::Result<()>;
}

impl LogFile for File {
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

#[cfg(unix)]
fn identity(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

/// On other systems only the length shows that the file has changed.
#[cfg(not(unix))]
fn identity(_: &Metadata) -> (u64, u64) {
    (0, 0)
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
