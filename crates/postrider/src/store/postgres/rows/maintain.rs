//! Retention by the rule of each layout, in short transactions.

use std::time::Duration;

use super::super::session::Work;
use super::sql::Sql;
use crate::Result;
use crate::store::{Trim, Trimmed};

/// Longer than this is for ever, to a database whose calendar ends.
const FOR_EVER: Duration = Duration::from_secs(1_000 * 365 * 24 * 60 * 60);

/// See [`Store::trim`](crate::store::Store::trim). What is delivered says so itself, so there is no cursor.
pub(super) async fn trim(work: &Work<'_>, sql: &Sql, trim: &Trim) -> Result<Trimmed> {
    let micros = i64::try_from(trim.older_than.min(FOR_EVER).as_micros()).unwrap_or(i64::MAX);
    let most = i64::try_from(trim.events_max).unwrap_or(i64::MAX);
    let (mut deleted, mut more) = (0, false);
    for statement in sql.trim {
        let rows = work.execute(statement, &[&micros, &most]).await?;
        deleted += rows;
        more |= rows >= trim.events_max as u64;
    }
    Ok(Trimmed { deleted, reached: trim.after, more, held: None })
}
