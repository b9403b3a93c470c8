//! The store passes the suite of tables with a state per row.

use std::sync::Arc;

use postrider::Result;
use postrider::store::Store;
use postrider_testkit::conformance::rows::{Refusing, RowState, RowsUnderTest};
use rusqlite::OptionalExtension;

use super::case::{Case, failed, listed};

/// A table alone, or beside others.
struct Of<const SHARED: bool>(Case);

postrider_testkit::rows_conformance! {
    outbox_events: Of<false>,
    outbox_events_shared: Of<true>,
}

impl<const SHARED: bool> RowsUnderTest for Of<SHARED> {
    const MARKS: bool = SHARED;

    async fn fresh() -> Result<Self> {
        let mut case = Case::new()?;
        case.table = case.table.shared(SHARED);
        Ok(Self(case))
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        self.0.store()
    }

    async fn write(&self, key: &str, rows: usize) -> Result<Vec<String>> {
        self.0.write_rows(rows, |number| (Case::insert(key, number), None))
    }

    async fn row(&self, id: &str) -> Result<Option<(RowState, u32)>> {
        let sql = "SELECT status, attempt_count FROM outbox_events WHERE id = ?1";
        let row: Option<(String, u32)> = self
            .0
            .connect()?
            .query_row(sql, [id], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(failed)?;
        Ok(row.map(|(status, attempts)| {
            let state = match status.as_str() {
                "PUBLISHED" => RowState::Done,
                "PUBLISHING" => RowState::InFlight,
                "PENDING" => RowState::Waiting,
                _ if attempts >= 3 => RowState::GivenUp,
                _ => RowState::Retry,
            };
            (state, attempts)
        }))
    }

    async fn put_back(&self, id: &str) -> Result<()> {
        self.0.run(&format!("UPDATE outbox_events SET status = 'PENDING', attempt_count = 0 WHERE id = {id}"))
    }

    async fn deliver_elsewhere(&self, id: &str) -> Result<()> {
        self.0.run(&format!("UPDATE outbox_events SET status = 'PUBLISHED' WHERE id = {id}"))
    }

    async fn refuse(&self, ids: &[&str], how: Refusing) -> Result<bool> {
        self.0.refuse("outbox_events", &format!("CAST(old.id AS TEXT) IN ({})", listed(ids)), how)
    }

    async fn refuse_waiting(&self, ids: &[&str]) -> Result<bool> {
        let rows = format!("new.status = 'PENDING' AND CAST(old.id AS TEXT) IN ({})", listed(ids));
        self.0.refuse("outbox_events", &rows, Refusing::WithAnError)
    }

    async fn count_to_the_end(&self, id: &str) -> Result<bool> {
        self.0.run(&format!("UPDATE outbox_events SET attempt_count = 2147483647 WHERE id = {id}"))?;
        Ok(true)
    }

    async fn expire_lease(&self) -> Result<()> {
        self.0.expire_lease()
    }

    async fn age(&self) -> Result<()> {
        self.0.age("outbox_events", &["created_at"])
    }
}
