//! Every layout passes the suite of tables with a state per row, on both servers.

use std::sync::Arc;

use mysql_async::prelude::Queryable;
use postrider::Result;
use postrider::layout::RowLayout;
use postrider::store::Store;
use postrider_testkit::conformance::rows::{Refusing, RowState, RowsUnderTest};

use super::case::{LAYOUTS, RowCase, listed};
use crate::mysql::log::case::{MariaDb, MySql, Which, failed};

/// The case of the layout at a place in the list of all, alone on its table or beside others.
struct Of<W, const LAYOUT: usize, const SHARED: bool = false>(RowCase<W>);

postrider_testkit::rows_conformance! {
    event_outbox_on_mysql: Of<MySql, 0>,
    event_outbox_on_mariadb: Of<MariaDb, 0>,
    outbox_events_on_mysql: Of<MySql, 1>,
    outbox_events_on_mariadb: Of<MariaDb, 1>,
    outbox_events_shared_on_mysql: Of<MySql, 1, true>,
    outbox_events_shared_on_mariadb: Of<MariaDb, 1, true>,
}

impl<W: Which, const LAYOUT: usize, const SHARED: bool> RowsUnderTest for Of<W, LAYOUT, SHARED> {
    const MARKS: bool = SHARED;

    fn is_available() -> bool {
        RowCase::<W>::is_available()
    }

    async fn fresh() -> Result<Self> {
        let mut case = RowCase::new(LAYOUTS[LAYOUT]).await?;
        case.table = case.table.shared(SHARED);
        Ok(Self(case))
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        self.0.store().await
    }

    async fn write(&self, key: &str, rows: usize) -> Result<Vec<String>> {
        self.0.write_rows(rows, |number| (self.0.insert(key, number), None)).await
    }

    async fn row(&self, id: &str) -> Result<Option<(RowState, u32)>> {
        let sql = match self.0.layout {
            RowLayout::EventOutbox => {
                "SELECT CASE WHEN status = 'sent' THEN 'done'
                             WHEN status = 'pending' THEN 'waiting'
                             WHEN next_attempt_at >= '9999-12-31' THEN 'given up' ELSE 'retry' END, attempts
                 FROM event_outbox WHERE id = ?"
            }
            _ => {
                "SELECT CASE WHEN status = 'PUBLISHED' THEN 'done'
                             WHEN status = 'PUBLISHING' THEN 'in flight'
                             WHEN status = 'PENDING' THEN 'waiting'
                             WHEN attempt_count >= 3 THEN 'given up' ELSE 'retry' END, attempt_count
                 FROM outbox_events WHERE id = ?"
            }
        };
        let mut client = self.0.client.lock().await;
        let row: Option<(String, u32)> = client.exec_first(sql, (id,)).await.map_err(failed)?;
        Ok(row.map(|(word, attempts)| {
            let state = match word.as_str() {
                "done" => RowState::Done,
                "waiting" => RowState::Waiting,
                "in flight" => RowState::InFlight,
                "given up" => RowState::GivenUp,
                _ => RowState::Retry,
            };
            (state, attempts)
        }))
    }

    async fn put_back(&self, id: &str) -> Result<()> {
        let sql = match self.0.layout {
            RowLayout::EventOutbox => "UPDATE event_outbox SET next_attempt_at = NULL, attempts = 0",
            _ => "UPDATE outbox_events SET status = 'PENDING', attempt_count = 0",
        };
        self.0.run(&format!("{sql} WHERE id = {id}")).await
    }

    async fn deliver_elsewhere(&self, id: &str) -> Result<()> {
        let sql = match self.0.layout {
            RowLayout::EventOutbox => {
                "UPDATE event_outbox SET status = 'sent', processed_at = UTC_TIMESTAMP(6)"
            }
            _ => "UPDATE outbox_events SET status = 'PUBLISHED'",
        };
        self.0.run(&format!("{sql} WHERE id = {id}")).await
    }

    async fn refuse(&self, ids: &[&str], how: Refusing) -> Result<bool> {
        self.0.refuse("{t}", &format!("OLD.id IN ({})", listed(ids)), how).await
    }

    async fn refuse_waiting(&self, ids: &[&str]) -> Result<bool> {
        let rows = format!("NEW.status = 'PENDING' AND OLD.id IN ({})", listed(ids));
        self.0.refuse("{t}", &rows, Refusing::WithAnError).await
    }

    async fn count_to_the_end(&self, id: &str) -> Result<bool> {
        let count = if self.0.layout == RowLayout::EventOutbox { "attempts" } else { "attempt_count" };
        self.0.run(&format!("UPDATE {{t}} SET {count} = 2147483647 WHERE id = {id}")).await?;
        Ok(true)
    }

    async fn expire_lease(&self) -> Result<()> {
        self.0.expire_lease().await
    }

    async fn age(&self) -> Result<()> {
        let times = match self.0.layout {
            RowLayout::EventOutbox => &["created_at", "processed_at"][..],
            _ => &["created_at"],
        };
        self.0.age("{t}", times).await
    }
}
