//! The shop: customers who order, pay and receive parcels, in a new SQLite file.

mod closing;
mod journal;
mod order;
mod writers;

pub(super) use journal::Journal;
pub(super) use writers::Writers;

use std::path::{Path, PathBuf};
use std::time::Duration;

use postrider::store::sqlite::SqliteStore;
use postrider::{Code, Error, Result};
use rusqlite::{Connection, ErrorCode};

/// How long a transaction waits for the others.
const BUSY: Duration = Duration::from_secs(30);

/// Each customer is a key: its events are delivered in order.
const CUSTOMERS: [&str; 32] = [
    "ada",
    "alan",
    "annie",
    "barbara",
    "bjarne",
    "claude",
    "dennis",
    "donald",
    "dorothy",
    "edsger",
    "evelyn",
    "frances",
    "gladys",
    "grace",
    "hedy",
    "jean",
    "joan",
    "john",
    "karen",
    "katherine",
    "ken",
    "kristen",
    "leslie",
    "linus",
    "margaret",
    "mary",
    "radia",
    "robin",
    "shafi",
    "sophie",
    "tim",
    "tony",
];

/// The shop's tables. `version` counts a customer's events, so that their order can be checked.
const TABLES: &str = "
    CREATE TABLE customers (
        id      INTEGER PRIMARY KEY,
        name    TEXT NOT NULL,
        version INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE orders (
        id       INTEGER PRIMARY KEY,
        customer INTEGER NOT NULL REFERENCES customers,
        state    TEXT NOT NULL,
        cents    INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX orders_open ON orders (customer, id) WHERE state <> 'shipped';";

/// A shop that is ready to open.
#[derive(Debug)]
pub(super) struct Shop {
    database: PathBuf,
}

impl Shop {
    /// Creates the file with the shop's tables and the outbox.
    pub(super) fn found(database: &Path) -> Result<Self> {
        SqliteStore::migrate(database)?;
        let shop = Self { database: database.to_owned() };
        let connection = shop.connect()?;
        let fill = || -> rusqlite::Result<()> {
            connection.execute_batch(TABLES)?;
            let mut insert = connection.prepare("INSERT INTO customers (name) VALUES (?1)")?;
            CUSTOMERS.iter().try_for_each(|name| insert.execute([name]).map(drop))
        };
        fill().map_err(failed)?;
        Ok(shop)
    }

    fn connect(&self) -> Result<Connection> {
        let open = || {
            let connection = Connection::open(&self.database)?;
            connection.busy_timeout(BUSY)?;
            // The file is deleted after the demo, so it need not survive a power failure.
            connection.pragma_update(None, "synchronous", "NORMAL")?;
            Ok(connection)
        };
        open().map_err(failed)
    }
}

/// An error of SQLite as a Postrider error.
fn failed(error: rusqlite::Error) -> Error {
    let code = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Code::StoreBusy,
        Some(ErrorCode::DiskFull | ErrorCode::ReadOnly) => Code::StoreReadOnly,
        _ => Code::StoreFailed,
    };
    Error::new(code, "the demo shop cannot use its database").with_source(error)
}
