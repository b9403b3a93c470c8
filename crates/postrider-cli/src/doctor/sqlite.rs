//! What is particular about a SQLite file.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use postrider::layout::RowTable;
use postrider::store::sqlite::{SqliteRowStore, SqliteStore};
use rusqlite::Connection;

use super::Check;
use super::config::is_writable;
use super::diagnosis::Patient;
use super::layout::Findings;

/// Tables are STRICT from this version on.
const VERSION_MIN: i32 = 3_037_000;
/// SQLite empties the WAL at 4 MiB if nothing is in the way.
const WAL_BYTES_MAX: u64 = 256 * 1024 * 1024;
const ROOM_BYTES_WARN: u64 = 1024 * 1024 * 1024;
const ROOM_BYTES_FAIL: u64 = 64 * 1024 * 1024;

/// Looks at the file and says whether its tables can be read.
pub(crate) fn examine(path: &Path, rows: Option<&RowTable>, deep: bool, patient: &mut Patient<'_>) -> bool {
    let connection = match SqliteStore::connect_read_only(path) {
        Ok(connection) => {
            patient.ok(Check::Readable, format!("{} can be read", path.display()));
            connection
        }
        Err(error) => {
            patient.refused(Check::Readable, &error);
            return false;
        }
    };
    writable(path, patient);
    let usable = match rows {
        Some(rows) => layout(path, rows, patient),
        None => schema(path, patient),
    };
    match SqliteStore::triggers(path) {
        Ok(names) if names.is_empty() => patient.ok(Check::SqliteTriggers, "none"),
        Ok(names) => patient.warn(Check::SqliteTriggers, names.join("; ")),
        Err(error) => patient.warn(Check::SqliteTriggers, error.sentence()),
    }
    version(patient);
    settings(path, patient);
    wal(path, patient);
    room(path, patient);
    if deep {
        undamaged(&connection, patient);
    }
    usable
}

/// Looks at a table with a state per row and says whether it can be worked on.
fn layout(path: &Path, rows: &RowTable, patient: &mut Patient<'_>) -> bool {
    let found = Findings {
        differences: SqliteRowStore::differences(path, rows),
        // Looking is enough: what could not be worked on is refused all the same.
        opened: SqliteRowStore::read_overview(path, rows, 0).map(drop),
        strangers: SqliteRowStore::foreign_claims(path, rows),
    };
    found.tell(rows, patient)
}

fn writable(path: &Path, patient: &mut Patient<'_>) {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (is_writable(path), is_writable(folder)) {
        (true, true) => patient.ok(Check::Writable, format!("{} can be written", path.display())),
        (false, _) => patient.fail(Check::Writable, format!("{} cannot be written", path.display())),
        (true, false) => {
            patient.fail(Check::Writable, format!("the folder of {} cannot be written", path.display()))
        }
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
        Ok(schema) if schema.found == schema.needed => match SqliteStore::read_overview(path, 0) {
            Ok(_) => {
                patient.ok(Check::SchemaCurrent, format!("schema {}", schema.found));
                true
            }
            Err(error) => {
                patient.refused(Check::SchemaCurrent, &error);
                false
            }
        },
        Ok(schema) => {
            let what = format!("schema {}, this program needs {}", schema.found, schema.needed);
            let fix = match schema.found > schema.needed {
                true => "a newer version made these tables: update this program",
                false => "run `postrider migrate up`",
            };
            patient.fail_with(Check::SchemaCurrent, what, fix);
            false
        }
        Err(error) => {
            patient.refused(Check::SchemaCurrent, &error);
            false
        }
    }
}

/// Asks the file: a connection to a disk one can only read knows another mode for itself.
fn settings(path: &Path, patient: &mut Patient<'_>) {
    match header(path) {
        Ok(header) if header[18..] == [2, 2] => patient.ok(Check::SqliteJournal, "WAL"),
        Ok(_) => patient.fail(Check::SqliteJournal, "it is not in WAL mode"),
        Err(error) => patient.fail(Check::SqliteJournal, error.to_string()),
    }
    patient.ok(Check::SqliteSynchronous, "the relay commits with FULL");
}

/// Its last two bytes are 2 in WAL mode: https://sqlite.org/fileformat.html
fn header(path: &Path) -> io::Result<[u8; 20]> {
    let mut header = [0; 20];
    File::open(path)?.read_exact(&mut header)?;
    Ok(header)
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
        Ok(answer) if answer == "ok" => patient.ok(Check::Undamaged, "no damage was found"),
        Ok(damage) => patient.fail(Check::Undamaged, damage),
        Err(error) => patient.fail(Check::Undamaged, error.to_string()),
    }
}
