//! Maps error numbers of MySQL and MariaDB to Postrider's codes, for all drivers.

use crate::{Code, Error};

/// The code for the error number of a failed statement; MySQL and MariaDB share these numbers.
/// <https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html>
pub(crate) fn code_of(number: u16) -> Code {
    match number {
        // Lock wait timeout, deadlock, a row that changed since the snapshot (MariaDB from 11.6.2 on), NOWAIT, killed query,
        // time limit of either server: nothing happened.
        1205 | DEADLOCK | CHANGED_SINCE_SNAPSHOT | 3572 | 1317 | 3024 | 1969 => Code::StoreBusy,
        // Read-only server or transaction, table or disk full.
        1290 | 1792 | 1836 | 1114 | 1021 => Code::StoreReadOnly,
        // Unknown database, table, column or function.
        1049 | 1146 | 1054 | 1305 => Code::SchemaMissing,
        // Denied: a database, a command on a table or its columns, a privilege of the server, a routine.
        1044 | 1142 | 1143 | 1227 | 1370 => Code::PrivilegeMissing,
        // Wrong user or password, no such way to log in, account locked, password expired.
        1045 | 1251 | 1524 | 1698 | 3118 | 1820 | 1862 | 4151 => Code::LoginRefused,
        _ => Code::StoreFailed,
    }
}

/// Whether the server refuses the new values of a row and not the statement itself: a value that does not fit, a
/// violated constraint, or a SIGNAL of a trigger with any code.
#[cfg(feature = "mysql")]
pub(crate) fn is_about_a_row(number: u16, sqlstate: &str) -> bool {
    let class = sqlstate.get(..2).unwrap_or_default();
    let other_classes = ["00", "01", "08", "0A", "25", "28", "3D", "40", "42", "70", "HY", "S1", "XA"];
    // Numbers of the general class that concern a row: an invalid or missing value, a CHECK, a generated column, no
    // partition for it.
    let general = matches!(number, 1364 | 1366 | 1369 | 1442 | 1526 | 1906 | 3105 | 3819 | 4025);
    general || code_of(number) == Code::StoreFailed && !other_classes.contains(&class)
}

/// The one failure of an INSERT after which the server has rolled back everything.
const DEADLOCK: u16 = 1213;

/// MariaDB with `innodb_snapshot_isolation`: another transaction changed a row that this one locks or changes.
const CHANGED_SINCE_SNAPSHOT: u16 = 1020;

/// A row with the same key exists.
pub(crate) const DUPLICATE: u16 = 1062;

/// Whether a row with the same primary key exists. Another unique key, which the migrations do not create, would mean
/// another row. The server names the key last: `... for key 'inbox.PRIMARY'`.
pub(crate) fn is_duplicate(number: u16, message: &str) -> bool {
    number == DUPLICATE && message.trim_end().ends_with("PRIMARY'")
}

/// Whether this answer to a COMMIT means that the transaction was rolled back: deadlock, lock wait timeout, or a conflict
/// that a cluster found. After any other one, the commit may have happened.
#[cfg(feature = "actions")]
#[allow(dead_code, reason = "which drivers use it depends on the features")]
pub(crate) fn is_rolled_back(number: u16) -> bool {
    [DEADLOCK, 1205, 3101].contains(&number)
}

/// The error of a failed INSERT, with the server's number if it answered.
pub(crate) fn insert_failed(
    number: Option<u16>,
    cause: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    let code = number.map_or(Code::StoreFailed, code_of);
    let error = Error::new(code, "the event could not be inserted").with_source(cause);
    match number {
        Some(DEADLOCK) => error
            .with_effect("nothing was written; the server has rolled back the whole transaction")
            .with_hint("retry the whole transaction"),
        Some(number)
            if number != CHANGED_SINCE_SNAPSHOT && matches!(code, Code::StoreBusy | Code::StoreFailed) =>
        {
            error.with_effect("nothing was written; the transaction is unchanged and still usable")
        }
        None => error.with_effect("nothing was written, unless the transaction can still be committed"),
        Some(_) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_that_the_whole_transaction_can_be_repeated_after_is_busy() {
        for number in [1205, DEADLOCK, CHANGED_SINCE_SNAPSHOT] {
            assert_eq!(code_of(number), Code::StoreBusy, "{number}");
        }
        assert_eq!(code_of(DUPLICATE), Code::StoreFailed);
    }
}
