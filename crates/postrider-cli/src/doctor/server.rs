//! Checks that PostgreSQL, MySQL and MariaDB share.

use std::time::Duration;

use postrider::operate::explain::{SqlFlavor, without_values};
use postrider::store::admin::Admin;
use postrider::{Clock, Ident, SystemClock};

use super::{CLOCK_SKEW_MAX, Check, Subject};
use crate::output::age;

/// A server to check.
pub(crate) struct Server<'a, C> {
    pub(crate) config: &'a C,
    pub(crate) schema: &'a Ident,
    pub(crate) admin: &'a dyn Admin,
    /// The database without secrets, for findings.
    pub(crate) shown: &'a str,
}

/// Reports whether the connection is encrypted.
pub(super) fn encryption(is_exposed: bool, check: Check, subject: &mut Subject<'_>) {
    if is_exposed {
        subject.warn(check, "the connection is not encrypted");
    } else {
        subject.ok(check, "encrypted, or local to this machine");
    }
}

/// Compares the server's clock, in microseconds since 1970, with that of this machine.
pub(super) fn clock(server: Result<Vec<i64>, String>, check: Check, subject: &mut Subject<'_>) {
    let here = SystemClock::new().now().wall.as_micros();
    let difference = server.map(|rows| rows.first().copied().unwrap_or_default().abs_diff(here));
    match difference.map(Duration::from_micros) {
        Ok(difference) if difference > CLOCK_SKEW_MAX => {
            subject.warn(check, format!("the clocks are {} apart", age(difference)));
        }
        Ok(_) => subject.ok(check, "the clocks agree"),
        Err(error) => subject.unchecked(check, &error),
    }
}

/// A line about a transaction, with its last statement if the server shows it. The statement may contain payloads.
pub(super) fn with_statement(line: String, statement: Option<&str>, flavor: SqlFlavor) -> String {
    match statement.map(|statement| without_values(statement, flavor)).filter(|shown| !shown.is_empty()) {
        Some(shown) => format!("{line}, last statement: {shown}"),
        None => line,
    }
}
