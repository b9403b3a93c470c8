//! Every layout passes the suite of tables with a state per row.

use std::sync::Arc;

use postrider::Result;
use postrider::layout::RowLayout;
use postrider::store::Store;
use postrider_testkit::conformance::rows::{Refusing, RowState, RowsUnderTest};

use super::case::{Case, failed};

/// The case of the layout at a place in the list of all, alone on its table or beside others.
struct Of<const LAYOUT: usize, const SHARED: bool = false>(Case);

postrider_testkit::rows_conformance! {
    event_outbox: Of<0>,
    outbox: Of<1>,
    outbox_events: Of<2>,
    event_outbox_shared: Of<0, true>,
    outbox_shared: Of<1, true>,
    outbox_events_shared: Of<2, true>,
}

impl<const LAYOUT: usize, const SHARED: bool> RowsUnderTest for Of<LAYOUT, SHARED> {
    const MARKS: bool = SHARED && matches!(RowLayout::ALL[LAYOUT], RowLayout::OutboxEvents);

    fn is_available() -> bool {
        Case::is_available()
    }

    async fn fresh() -> Result<Self> {
        Ok(Self(Case::new(RowLayout::ALL[LAYOUT]).await?.shared(SHARED)))
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        self.0.store().await
    }

    async fn write(&self, key: &str, rows: usize) -> Result<Vec<String>> {
        self.0.write_rows(rows, |number| self.0.insert(key, number)).await
    }

    async fn row(&self, id: &str) -> Result<Option<(RowState, u32)>> {
        let sql = match self.0.layout {
            RowLayout::EventOutbox => {
                "SELECT CASE WHEN status = 'sent' THEN 'done'
                             WHEN status = 'pending' THEN 'waiting'
                             WHEN next_attempt_at >= '9999-12-31' THEN 'given up' ELSE 'retry' END, attempts
                 FROM event_outbox WHERE id::text = $1"
            }
            RowLayout::Outbox => {
                "SELECT CASE WHEN status = 'published' THEN 'done'
                             WHEN status = 'failed' THEN 'given up'
                             WHEN retry_count > 0 THEN 'retry' ELSE 'waiting' END, retry_count::int
                 FROM outbox WHERE id::text = $1"
            }
            RowLayout::OutboxEvents | RowLayout::Custom => {
                "SELECT CASE WHEN status = 'PUBLISHED' THEN 'done'
                             WHEN status = 'PUBLISHING' THEN 'in flight'
                             WHEN status = 'PENDING' THEN 'waiting'
                             WHEN attempt_count >= 3 THEN 'given up' ELSE 'retry' END, attempt_count
                 FROM outbox_events WHERE id::text = $1"
            }
        };
        let Some(row) = self.0.client.query_opt(sql, &[&id]).await.map_err(failed)? else { return Ok(None) };
        let state = match row.get::<_, &str>(0) {
            "done" => RowState::Done,
            "waiting" => RowState::Waiting,
            "in flight" => RowState::InFlight,
            "given up" => RowState::GivenUp,
            _ => RowState::Retry,
        };
        Ok(Some((state, row.get::<_, i32>(1).unsigned_abs())))
    }

    async fn put_back(&self, id: &str) -> Result<()> {
        let sql = match self.0.layout {
            RowLayout::EventOutbox => "UPDATE event_outbox SET next_attempt_at = NULL, attempts = 0",
            RowLayout::Outbox => "UPDATE outbox SET status = 'pending', retry_count = 0",
            RowLayout::OutboxEvents | RowLayout::Custom => {
                "UPDATE outbox_events SET status = 'PENDING', attempt_count = 0"
            }
        };
        self.0.run(&format!("{sql} WHERE id::text = '{id}'")).await
    }

    async fn deliver_elsewhere(&self, id: &str) -> Result<()> {
        let sql = match self.0.layout {
            RowLayout::EventOutbox => "UPDATE event_outbox SET status = 'sent', processed_at = now()",
            RowLayout::Outbox => "UPDATE outbox SET status = 'published', published_at = now()",
            RowLayout::OutboxEvents | RowLayout::Custom => "UPDATE outbox_events SET status = 'PUBLISHED'",
        };
        self.0.run(&format!("{sql} WHERE id::text = '{id}'")).await
    }

    async fn refuse(&self, ids: &[&str], how: Refusing) -> Result<bool> {
        self.0.refuse("{t}", "old.id::text", ids, how).await
    }

    async fn refuse_waiting(&self, ids: &[&str]) -> Result<bool> {
        let key = "new.status = 'PENDING' AND old.id::text";
        self.0.refuse("{t}", key, ids, Refusing::WithAnError).await
    }

    async fn count_to_the_end(&self, id: &str) -> Result<bool> {
        let set = match self.0.layout {
            RowLayout::EventOutbox => "attempts = 2147483647",
            RowLayout::Outbox => "retry_count = 32767",
            RowLayout::OutboxEvents | RowLayout::Custom => "attempt_count = 2147483647",
        };
        self.0.run(&format!("UPDATE {{t}} SET {set} WHERE id::text = '{id}'")).await?;
        Ok(true)
    }

    async fn expire_lease(&self) -> Result<()> {
        self.0.expire_lease().await
    }

    async fn age(&self) -> Result<()> {
        let times = match self.0.layout {
            RowLayout::EventOutbox => &["created_at", "processed_at"][..],
            RowLayout::Outbox => &["created_at", "published_at", "expires_at"],
            RowLayout::OutboxEvents | RowLayout::Custom => &["created_at"],
        };
        self.0.age("{t}", times).await
    }
}
