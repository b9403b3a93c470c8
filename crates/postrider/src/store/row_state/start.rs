//! Where the one subscription of a table may begin.

use crate::layout::RowTable;
use crate::store::Start;
use crate::{Code, Error, Result};

/// The error of a second subscription: a row has one state.
pub(crate) fn second(table: &RowTable, other: &str) -> Error {
    let what =
        format!("{} has the subscription {other:?} already, and a state per row serves one", table.name);
    Error::new(Code::SecondSubscription, what)
}

/// Refuses to leave out rows that are due.
pub(crate) fn refuse(table: &RowTable, start: Start, is_due: bool) -> Result<()> {
    let what = match (start, is_due) {
        (Start::Beginning, _) | (Start::Now, false) => return Ok(()),
        (Start::Now, true) => {
            format!("{} has rows that are due, and a start at \"now\" would leave them out", table.name)
        }
        _ => format!("{} begins with its first row that is due, at no position or time", table.name),
    };
    Err(Error::new(Code::StartRefused, what))
}
