//! What is particular about a SQLite file.

use std::path::{Path, PathBuf};

use postrider::store::sqlite::SqliteStore;
use rusqlite::{Connection, OpenFlags};

use super::Check;
use super::config::is_writable;
use super::diagnosis::Patient;

/// Tables are STRICT from this version on.
const VERSION_MIN: i32 = 3_037_000;
/// SQLite empties the WAL at 4 MiB if nothing is in the way.
const WAL_BYTES_MAX: u64 = 256 * 1024 * 1024;
const ROOM_BYTES_WARN: u64 = 1024 * 1024 * 1024;
const ROOM_BYTES_FAIL: u64 = 64 * 1024 * 1024;

/// Looks at the file and says whether its tables can be read.
pub(super) fn examine(path: &Path, deep: bool, patient: &mut Patient<'_>) -> bool {
    let shown = path.display();
    if !path.is_file() {
        patient.fail(Check::Readable, format!("there is no file {shown}"));
        return false;
    }
    // Leaves nothing behind beside a file at rest, as a connection that can only read would.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags).and_then(|connection| {
        connection.pragma_update(None, "query_only", "ON")?;
        Ok(connection)
    });
    let connection = match opened {
        Ok(connection) => connection,
        Err(error) => {
            patient.fail(Check::Readable, format!("{shown}: {error}"));
            return false;
        }
    };
    writable(path, patient);
    version(patient);
    room(path, patient);
    let usable = schema(path, patient) && settings(&connection, patient);
    wal(path, patient);
    if deep {
        undamaged(&connection, patient);
    }
    usable
}

fn writable(path: &Path, patient: &mut Patient<'_>) {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (is_writable(path), is_writable(folder)) {
        (true, true) => patient.ok(Check::Writable, format!("{} is", path.display())),
        (false, _) => patient.fail(Check::Writable, format!("{} is not", path.display())),
        (true, false) => patient.fail(Check::Writable, format!("the folder of {} is not", path.display())),
    }
}

fn version(patient: &mut Patient<'_>) {
    let version = rusqlite::version();
    if rusqlite::version_number() < VERSION_MIN {
        patient.fail(Check::SqliteVersion, format!("SQLite {version}"));
    } else {
        patient.ok(Check::SqliteVersion, format!("SQLite {version}"));
    }
}

fn schema(path: &Path, patient: &mut Patient<'_>) -> bool {
    match SqliteStore::schema(path) {
        Ok(schema) if schema.found == schema.needed => {
            patient.ok(Check::Readable, format!("{} is", path.display()));
            patient.ok(Check::SchemaCurrent, format!("schema {}", schema.found));
            true
        }
        Ok(schema) => {
            let what = format!("schema {}, this program needs {}", schema.found, schema.needed);
            patient.fail(Check::SchemaCurrent, what);
            false
        }
        Err(error) => {
            patient.fail(Check::Readable, error.what());
            false
        }
    }
}

fn settings(connection: &Connection, patient: &mut Patient<'_>) -> bool {
    match connection.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0)) {
        Ok(mode) if mode == "wal" => patient.ok(Check::SqliteJournal, "WAL"),
        Ok(mode) => patient.fail(Check::SqliteJournal, format!("journal mode {mode}")),
        Err(error) => {
            patient.fail(Check::Readable, error.to_string());
            return false;
        }
    }
    patient.ok(Check::SqliteSynchronous, "the relay commits with FULL");
    true
}

fn wal(path: &Path, patient: &mut Patient<'_>) {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let bytes = PathBuf::from(wal).metadata().map_or(0, |metadata| metadata.len());
    let what = format!("{} MiB", bytes / (1024 * 1024));
    if bytes > WAL_BYTES_MAX {
        patient.warn(Check::SqliteWal, what);
    } else {
        patient.ok(Check::SqliteWal, what);
    }
}

#[cfg(unix)]
fn room(path: &Path, patient: &mut Patient<'_>) {
    let Ok(disk) = rustix::fs::statvfs(path) else { return };
    let bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
    let what = format!("{} MiB free", bytes / (1024 * 1024));
    match bytes {
        0..ROOM_BYTES_FAIL => patient.fail(Check::DiskSpace, what),
        ROOM_BYTES_FAIL..ROOM_BYTES_WARN => patient.warn(Check::DiskSpace, what),
        _ => patient.ok(Check::DiskSpace, what),
    }
}

#[cfg(not(unix))]
fn room(_: &Path, _: &mut Patient<'_>) {}

fn undamaged(connection: &Connection, patient: &mut Patient<'_>) {
    match connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)) {
        Ok(answer) if answer == "ok" => patient.ok(Check::Undamaged, "it is not"),
        Ok(damage) => patient.fail(Check::Undamaged, damage),
        Err(error) => patient.fail(Check::Undamaged, error.to_string()),
    }
}
