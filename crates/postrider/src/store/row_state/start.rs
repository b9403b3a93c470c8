//! Where the one subscription of a table may begin.

use crate::layout::RowTable;
use crate::store::Start;
use crate::{Code, Error, Result};

/// The error of a second subscription: a row has one state.
pub(crate) fn second(table: &RowTable, other: &str) -> Error {
    let what = format!(
        "{} already has the subscription {other:?}, and a table with a state per row supports only one",
        table.name
    );
    Error::new(Code::SecondSubscription, what)
}

/// Refuses to leave out rows that are due.
pub(crate) fn refuse(table: &RowTable, start: Start, is_due: bool) -> Result<()> {
    let what = match (start, is_due) {
        (Start::Beginning, _) | (Start::Now, false) => return Ok(()),
        (Start::Now, true) => {
            format!("{} has undelivered rows that a start at \"now\" would skip", table.name)
        }
        _ => format!(
            "{} always starts with its first undelivered row; a position or time is not supported",
            table.name
        ),
    };
    Err(Error::new(Code::StartRefused, what))
}
