//! The lock that shows other processes that a connection exists: a locked file next to the database.
//!
//! The system releases the lock when the process ends, however it ends. A file that exists and is not locked therefore
//! belongs to a process that is gone, and so do its leases. Nothing is concluded if there is no file: the lease then ends
//! with its time. This needs what SQLite itself needs: a local disk, with locks that all processes see.
//!
//! A connection belongs to its thread ([`worker`](super::worker)), and so does its lock.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use uuid::Uuid;

/// Between the name of the database and the token: `shop.db-relay-0192...`.
const INFIX: &str = "-relay-";

thread_local! {
    static OWN: RefCell<Option<SessionLock>> = const { RefCell::new(None) };
}

/// A file that this process has locked. It is removed when the value is dropped.
#[derive(Debug)]
struct SessionLock {
    token: String,
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // If it stays, it is unlocked.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl SessionLock {
    /// `None` if the file cannot be created or locked, or if the database has no file.
    fn take(connection: &Connection) -> Option<Self> {
        let token = Uuid::now_v7().simple().to_string();
        let path = path(connection, &token)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).ok()?;
        let lock = Self { token, path, _file: file };
        lock._file.try_lock().ok()?;
        Some(lock)
    }
}

/// The token of this thread's lock, which is taken if it has none.
pub(super) fn token(connection: &Connection) -> Option<String> {
    OWN.with_borrow_mut(|own| {
        let is_of = |lock: &SessionLock| path(connection, &lock.token).as_ref() == Some(&lock.path);
        if own.as_ref().is_none_or(|lock| !is_of(lock) || !lock.path.exists()) {
            *own = SessionLock::take(connection);
        }
        own.as_ref().map(|lock| lock.token.clone())
    })
}

/// Ends this thread's lock. A thread that ends does the same, but perhaps after the process has ended.
pub(super) fn release() {
    OWN.with_borrow_mut(|own| *own = None);
}

/// Whether the owner of this lock is gone. Its file is left as it is; see [`remove`].
pub(super) fn is_gone(connection: &Connection, token: &str) -> bool {
    let Some(path) = path(connection, token) else { return false };
    let is_file = path.symlink_metadata().is_ok_and(|file| file.is_file());
    is_file && File::open(path).is_ok_and(|file| file.try_lock_shared().is_ok())
}

/// Removes the file of an owner that is gone.
pub(super) fn remove(connection: &Connection, token: &str) {
    if is_gone(connection, token)
        && let Some(path) = path(connection, token)
    {
        // If it stays, it is only a file that no relay needs.
        let _ = std::fs::remove_file(path);
    }
}

/// `None` for a database without a file, and for a token that no relay has made: it comes from a table that others may
/// write.
fn path(connection: &Connection, token: &str) -> Option<PathBuf> {
    let database = connection.path().filter(|path| !path.is_empty())?;
    let is_token = token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut path = Path::new(database).as_os_str().to_owned();
    path.push(INFIX);
    path.push(token);
    is_token.then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_gone_with_its_thread_or_process_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Connection::open(folder.path().join("shop.db")).unwrap();
        let connection = open();
        let token = token(&connection).unwrap();
        assert_eq!(super::token(&connection).as_ref(), Some(&token), "one per thread");
        assert!(!is_gone(&connection, &token));
        let file = path(&connection, &token).unwrap();
        release();
        assert!(!file.exists(), "it is removed");
        assert!(!is_gone(&connection, &token), "nothing is concluded without a file");
        // What a killed process leaves behind.
        std::fs::write(&file, "").unwrap();
        assert!(is_gone(&connection, &token) && file.exists());
        remove(&connection, &token);
        assert!(!file.exists());
    }

    #[test]
    fn a_hostile_token_reaches_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("shop.db")).unwrap();
        let token = "0".repeat(32);
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "").unwrap();
        assert!(!is_gone(&connection, "/../victim") && !is_gone(&connection, ""));
        #[cfg(unix)]
        std::os::unix::fs::symlink(&victim, path(&connection, &token).unwrap()).unwrap();
        assert!(!is_gone(&connection, &token), "a link is not followed");
        remove(&connection, &token);
        assert!(victim.exists());
        assert_eq!(super::token(&Connection::open_in_memory().unwrap()), None);
    }
}
