//! Checks of a SQLite file.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use postrider::store::admin::Admin;
use postrider::store::sqlite::SqliteStore;
use rusqlite::{Connection, params};

use super::report::Subject;
use super::{Check, INBOX_EXPIRED, INBOX_ROWS_MAX, InboxHealth, layout};
use crate::context::is_writable;

/// The first version with STRICT tables.
const VERSION_MIN: i32 = 3_037_000;
/// SQLite checkpoints the WAL at 4 MiB unless a reader prevents it.
const WAL_BYTES_MAX: u64 = 256 * 1024 * 1024;
const ROOM_BYTES_WARN: u64 = 1024 * 1024 * 1024;
const ROOM_BYTES_FAIL: u64 = 64 * 1024 * 1024;

/// Checks the file. Returns whether its tables can be read.
pub(crate) async fn check(path: &Path, admin: &dyn Admin, deep: bool, subject: &mut Subject<'_>) -> bool {
    let connection = match SqliteStore::connect_read_only(path) {
        Ok(connection) => {
            subject.ok(Check::Readable, format!("{} is readable", path.display()));
            connection
        }
        Err(error) => {
            subject.refused(Check::Readable, &error);
            return false;
        }
    };
    writable(path, subject);
    let usable = match admin.row_table() {
        Some(rows) => layout::check(admin, rows, subject).await,
        None => schema(path, subject),
    };
    match SqliteStore::triggers(path) {
        Ok(names) if names.is_empty() => subject.ok(Check::SqliteTriggers, "none"),
        Ok(names) => subject.warn(Check::SqliteTriggers, names.join("; ")),
        Err(error) => subject.warn(Check::SqliteTriggers, error.one_line()),
    }
    version(subject);
    settings(path, subject);
    wal(path, subject);
    room(path, subject);
    if deep {
        undamaged(&connection, subject);
    }
    usable
}

/// See [`crate::database::Database::inbox_health`].
pub(crate) fn inbox_health(path: &Path, kept: Duration) -> Result<InboxHealth, String> {
    // No index: the schema of one table.
    const KEY: &str = "
        SELECT EXISTS (SELECT 1 FROM pragma_index_list('postrider_inbox') AS i
                       WHERE i.\"unique\" AND i.partial = 0
                         AND (SELECT group_concat(name) FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY name))
                             = 'consumer_group,event_id')";
    // Index: postrider_inbox_expires_at (expires_at), from its begin.
    const EXPIRED: &str = "
        WITH clock AS (SELECT CAST(round((julianday('now') - 2440587.5) * 86400) AS INTEGER) AS seconds)
        SELECT count(*)
        FROM (SELECT 1 FROM postrider_inbox, clock
              WHERE expires_at < (seconds - ?) * 1000000 AND processed_at < (seconds - ?) * 1000000
              LIMIT ?)";
    let connection = SqliteStore::connect_read_only(path).map_err(|error| error.one_line())?;
    let limits = params![INBOX_EXPIRED.as_secs() as i64, kept.as_secs() as i64, INBOX_ROWS_MAX];
    let expired = connection.query_row(EXPIRED, limits, |row| row.get(0));
    let has_key = connection.query_row(KEY, [], |row| row.get(0));
    let found = expired.and_then(|expired| Ok(InboxHealth { expired, has_key: has_key? }));
    found.map_err(|error| error.to_string())
}

fn writable(path: &Path, subject: &mut Subject<'_>) {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (is_writable(path), is_writable(folder)) {
        (true, true) => subject.ok(Check::Writable, format!("{} is writable", path.display())),
        (false, _) => subject.fail(Check::Writable, format!("{} is not writable", path.display())),
        (true, false) => {
            subject.fail(Check::Writable, format!("the folder of {} is not writable", path.display()))
        }
    }
}

fn version(subject: &mut Subject<'_>) {
    let version = rusqlite::version();
    if rusqlite::version_number() < VERSION_MIN {
        subject.fail(Check::SqliteVersion, format!("SQLite {version}"));
    } else {
        subject.ok(Check::SqliteVersion, format!("SQLite {version}"));
    }
}

fn schema(path: &Path, subject: &mut Subject<'_>) -> bool {
    match SqliteStore::schema(path) {
        Ok(schema) if schema.found == schema.needed => match SqliteStore::read_overview(path, 0) {
            Ok(_) => {
                subject.ok(Check::SchemaCurrent, format!("schema {}", schema.found));
                true
            }
            Err(error) => {
                subject.refused(Check::SchemaCurrent, &error);
                false
            }
        },
        Ok(schema) => {
            let what = format!("schema {}, this program needs {}", schema.found, schema.needed);
            let fix = match schema.found > schema.needed {
                true => "a newer version created these tables: upgrade this program",
                false => "run `postrider migrate up`",
            };
            subject.fail_with(Check::SchemaCurrent, what, fix);
            false
        }
        Err(error) => {
            subject.refused(Check::SchemaCurrent, &error);
            false
        }
    }
}

/// Reads the mode from the file, because a read-only connection may report another one.
fn settings(path: &Path, subject: &mut Subject<'_>) {
    match header(path) {
        Ok(header) if header[18..] == [2, 2] => subject.ok(Check::SqliteJournal, "WAL"),
        Ok(_) => subject.fail(Check::SqliteJournal, "it is not in WAL mode"),
        Err(error) => subject.fail(Check::SqliteJournal, error.to_string()),
    }
    subject.ok(Check::SqliteSynchronous, "the relay commits with FULL");
}

/// The first bytes of the file. The last two of them are 2 in WAL mode: https://sqlite.org/fileformat.html
fn header(path: &Path) -> io::Result<[u8; 20]> {
    let mut header = [0; 20];
    File::open(path)?.read_exact(&mut header)?;
    Ok(header)
}

fn wal(path: &Path, subject: &mut Subject<'_>) {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let bytes = PathBuf::from(wal).metadata().map_or(0, |metadata| metadata.len());
    let what = format!("{} MiB", bytes / (1024 * 1024));
    if bytes > WAL_BYTES_MAX {
        subject.warn(Check::SqliteWal, what);
    } else {
        subject.ok(Check::SqliteWal, what);
    }
}

#[cfg(unix)]
fn room(path: &Path, subject: &mut Subject<'_>) {
    let Ok(disk) = rustix::fs::statvfs(path) else { return };
    let bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
    let what = format!("{} MiB free", bytes / (1024 * 1024));
    match bytes {
        0..ROOM_BYTES_FAIL => subject.fail(Check::DiskSpace, what),
        ROOM_BYTES_FAIL..ROOM_BYTES_WARN => subject.warn(Check::DiskSpace, what),
        _ => subject.ok(Check::DiskSpace, what),
    }
}

#[cfg(not(unix))]
fn room(_: &Path, _: &mut Subject<'_>) {}

fn undamaged(connection: &Connection, subject: &mut Subject<'_>) {
    match connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)) {
        Ok(answer) if answer == "ok" => subject.ok(Check::NotCorrupt, "no corruption found"),
        Ok(damage) => subject.fail(Check::NotCorrupt, damage),
        Err(error) => subject.fail(Check::NotCorrupt, error.to_string()),
    }
}
