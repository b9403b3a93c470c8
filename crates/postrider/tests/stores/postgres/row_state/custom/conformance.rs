//! Each kind of table passes the suite of tables with a state per row. One whose delivered rows are gone has nothing
//! that the suite could look at; it has its own tests.

use std::sync::Arc;

use postrider::Result;
use postrider::store::Store;
use postrider_testkit::conformance::rows::{Refusing, RowState, RowsUnderTest};

use super::case::{KINDS, Kind};
use crate::postgres::row_state::case::{Case, failed};

const GIVEN_UP: &str = "n.state IN ('dead', 'unrouted')";

/// The kind at a place in the list, alone on its table or beside others.
struct Of<const KIND: usize, const SHARED: bool = false>(Case);

mod status {
    use super::*;
    postrider_testkit::rows_conformance!(Of<0>);
}

mod time {
    use super::*;
    postrider_testkit::rows_conformance!(Of<1>);
}

mod noted {
    use super::*;
    postrider_testkit::rows_conformance!(Of<2>);
}

mod status_shared {
    use super::*;
    postrider_testkit::rows_conformance!(Of<0, true>);
}

impl<const KIND: usize, const SHARED: bool> Of<KIND, SHARED> {
    const KIND: Kind = KINDS[KIND];
}

impl<const KIND: usize, const SHARED: bool> RowsUnderTest for Of<KIND, SHARED> {
    const MARKS: bool = false;
    const SAYS_DELIVERED: bool = matches!(Self::KIND, Kind::Status | Kind::Time);

    fn is_available() -> bool {
        Case::is_available()
    }

    async fn fresh() -> Result<Self> {
        let mut case = Self::KIND.case().await?;
        case.table = case.table.shared(SHARED);
        Ok(Self(case))
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        self.0.store().await
    }

    async fn write(&self, key: &str, rows: usize) -> Result<Vec<String>> {
        Self::KIND.write(&self.0, key, rows).await
    }

    async fn row(&self, id: &str) -> Result<Option<(RowState, u32)>> {
        let (key, done, given_up, attempts) = match Self::KIND {
            Kind::Status => ("\"eventId\"", "step = 'out'", "step = 'stuck'", "tries::int"),
            Kind::Time => ("number::text", "sent IS NOT NULL", GIVEN_UP, "n.attempts::int"),
            Kind::Noted | Kind::Deleted => ("id::text", "d.row_id IS NOT NULL", GIVEN_UP, "n.attempts::int"),
        };
        // With the note goes what it counted.
        let is_noted = Self::KIND != Kind::Status;
        let sql = self.0.sql(&format!(
            "SELECT CASE WHEN {done} THEN 'done' WHEN {given_up} THEN 'given up'
                         WHEN coalesce({attempts}, 0) > 0 THEN 'retry' ELSE 'waiting' END,
                    CASE WHEN {done} AND {is_noted} THEN 0 ELSE coalesce({attempts}, 0) END
             FROM shop_events AS t
             LEFT JOIN {{ledger}}.row_notes AS n ON n.row_id = {key}
             LEFT JOIN {{ledger}}.row_done AS d ON d.row_id = {key}
             WHERE {key} = $1"
        ));
        let Some(row) = self.0.client.query_opt(&sql, &[&id]).await.map_err(failed)? else { return Ok(None) };
        let state = match row.get::<_, &str>(0) {
            "done" => RowState::Done,
            "waiting" => RowState::Waiting,
            "given up" => RowState::GivenUp,
            _ => RowState::Retry,
        };
        Ok(Some((state, row.get::<_, i32>(1).unsigned_abs())))
    }

    async fn put_back(&self, id: &str) -> Result<()> {
        let sql = match Self::KIND {
            Kind::Status => {
                format!("UPDATE shop_events SET step = 'new', tries = 0 WHERE \"eventId\" = '{id}'")
            }
            // Where a table has no word for it, the note is all there is.
            _ => format!("DELETE FROM {{ledger}}.row_notes WHERE row_id = '{id}'"),
        };
        self.0.run(&sql).await
    }

    async fn deliver_elsewhere(&self, id: &str) -> Result<()> {
        let sql = match Self::KIND {
            Kind::Status => format!("UPDATE shop_events SET step = 'out' WHERE \"eventId\" = '{id}'"),
            Kind::Time => format!("UPDATE shop_events SET sent = now() WHERE number = {id}"),
            _ => format!("INSERT INTO {{ledger}}.row_done (row_id) VALUES ('{id}')"),
        };
        self.0.run(&sql).await
    }

    async fn refuse(&self, ids: &[&str], how: Refusing) -> Result<bool> {
        let key = match Self::KIND {
            Kind::Status => "old.\"eventId\"",
            Kind::Time => "old.number::text",
            // Nothing of it is changed.
            Kind::Noted | Kind::Deleted => return Ok(false),
        };
        self.0.refuse("shop_events", key, ids, how).await
    }

    async fn count_to_the_end(&self, id: &str) -> Result<bool> {
        if Self::KIND != Kind::Status {
            return Ok(false);
        }
        self.0.run(&format!("UPDATE shop_events SET tries = 32767 WHERE \"eventId\" = '{id}'")).await?;
        Ok(true)
    }

    async fn expire_lease(&self) -> Result<()> {
        self.0.run("UPDATE {ledger}.leases SET expires_at = 'epoch'").await
    }

    async fn age(&self) -> Result<()> {
        let end = format!(
            "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
             WHERE application_name = '{}' AND state = 'idle in transaction'",
            self.0.schema
        );
        self.0.one::<i64>(&end).await?;
        let older = match Self::KIND {
            Kind::Status => "UPDATE shop_events SET \"madeAt\" = \"madeAt\" - interval '2 days'",
            Kind::Time => {
                "UPDATE shop_events SET made = made - interval '2 days', sent = sent - interval '2 days'"
            }
            _ => "UPDATE shop_events SET \"timestamp\" = \"timestamp\" - interval '2 days'",
        };
        self.0.run(older).await?;
        self.0.run("UPDATE {ledger}.row_done SET done_at = done_at - interval '2 days'").await
    }
}
