//! The file behind a connection: a process that has it open keeps the old one if it is deleted or replaced.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::{Code, Error, Result};

/// Opens a connection to the file, and says which file it was.
pub(super) struct Source {
    /// As the caller wrote it, for messages.
    given: PathBuf,
    /// The same, wherever the process goes later.
    path: PathBuf,
    open: Open,
}

type Open = Box<dyn Fn(&Path) -> Result<Connection> + Send>;

/// Prepared statements that are cached: more than all operations together use.
const STATEMENTS_MAX: usize = 64;

impl Source {
    /// Links in the path are followed each time, so a link that points to another file replaces the file.
    pub(super) fn new(path: &Path, open: impl Fn(&Path) -> Result<Connection> + Send + 'static) -> Self {
        let given = path.to_owned();
        let path = std::path::absolute(path).unwrap_or_else(|_| given.clone());
        Self { given, path, open: Box::new(open) }
    }

    pub(super) fn open(self) -> Result<OpenFile> {
        // Before it is opened: if it is replaced in between, the next call opens it again.
        let identity = Identity::of(&self.path);
        let connection = self.connect(&self.given)?;
        Ok(OpenFile { connection, identity, source: self })
    }

    fn connect(&self, path: &Path) -> Result<Connection> {
        let connection = (self.open)(path)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        Ok(connection)
    }
}

/// A connection to the file that its path had when it was opened.
pub(super) struct OpenFile {
    pub(super) connection: Connection,
    identity: Option<Identity>,
    source: Source,
}

impl OpenFile {
    /// Opens the file again if its path now leads to another one, and returns an error even then: what the caller knows is
    /// from the file that is gone.
    ///
    /// # Errors
    /// [`Code::StoreReplaced`], until a call finds the file that this connection has open.
    pub(super) fn check(&mut self) -> Result<()> {
        let now = Identity::of(&self.source.path);
        if now == self.identity {
            return Ok(());
        }
        let path = self.source.path.display();
        let replaced = |what: &str| Error::new(Code::StoreReplaced, format!("the file {path} was {what}"));
        if now.is_none() {
            return Err(replaced("deleted while it was open"));
        }
        match self.source.connect(&self.source.path) {
            Ok(connection) => {
                self.connection = connection;
                self.identity = now;
                Err(replaced("replaced by another one while it was open"))
            }
            Err(cause) => {
                Err(replaced("replaced while it was open, and the other file cannot be used")
                    .with_source(cause))
            }
        }
    }
}

/// Which file a path leads to. Elsewhere than on Unix an open file cannot be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    #[cfg(unix)]
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).ok().map(|file| Self { device: file.dev(), inode: file.ino() })
    }

    #[cfg(not(unix))]
    fn of(_: &Path) -> Option<Self> {
        Some(Self { device: 0, inode: 0 })
    }
}
