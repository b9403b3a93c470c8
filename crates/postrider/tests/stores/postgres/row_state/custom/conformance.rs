//! Each kind of table passes the suite of tables with a state per row. One whose delivered rows are gone has nothing
//! that the suite could look at; it has its own tests.

use std::sync::Arc;

use postrider::Result;
use postrider::store::Store;
use postrider_testkit::conformance::rows::{Refusing, RowState, RowsUnderTest};

use super::case::{KINDS, Kind};
use crate::postgres::row_state::case::{Case, failed};

/// The kind at a place in the list, alone on its table or beside others.
struct Of<const KIND: usize, const SHARED: bool = false>(Case);

postrider_testkit::rows_conformance! {
    status: Of<0>,
    time: Of<1>,
    noted: Of<2>,
    status_shared: Of<0, true>,
}

impl<const KIND: usize, const SHARED: bool> Of<KIND, SHARED> {
    const KIND: Kind = KINDS[KIND];
}

impl<const KIND: usize, const SHARED: bool> RowsUnderTest for Of<KIND, SHARED> {
    const MARKS: bool = false;
    const SAYS_DELIVERED: bool = Self::KIND.says_delivered();

    fn is_available() -> bool {
        Case::is_available()
    }

    async fn fresh() -> Result<Self> {
        Ok(Self(Self::KIND.case().await?.shared(SHARED)))
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        self.0.store().await
    }

    async fn write(&self, key: &str, rows: usize) -> Result<Vec<String>> {
        Self::KIND.write(&self.0, key, rows).await
    }

    async fn row(&self, id: &str) -> Result<Option<(RowState, u32)>> {
        let [key, done, given_up, attempts] = Self::KIND.reported();
        // With the note goes what it counted.
        let is_noted = Self::KIND != Kind::Status;
        let sql = self.0.sql(&format!(
            "SELECT CASE WHEN {done} THEN 'done' WHEN {given_up} THEN 'given up'
                         WHEN coalesce({attempts}, 0) > 0 THEN 'retry' ELSE 'waiting' END,
                    CASE WHEN {done} AND {is_noted} THEN 0 ELSE coalesce({attempts}, 0)::int END
             {} WHERE {key} = $1",
            Self::KIND.from()
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
        // Nothing is changed of rows that do not say it.
        if !Self::KIND.says_delivered() {
            return Ok(false);
        }
        let key = Self::KIND.reported()[0].replace("t.", "old.");
        self.0.refuse("shop_events", &key, ids, how).await
    }

    async fn count_to_the_end(&self, id: &str) -> Result<bool> {
        if Self::KIND != Kind::Status {
            return Ok(false);
        }
        self.0.run(&format!("UPDATE shop_events SET tries = 32767 WHERE \"eventId\" = '{id}'")).await?;
        Ok(true)
    }

    async fn expire_lease(&self) -> Result<()> {
        self.0.expire_lease().await
    }

    async fn age(&self) -> Result<()> {
        let times = match Self::KIND {
            Kind::Status => &["\"madeAt\""][..],
            Kind::Time => &["made", "sent"],
            Kind::Noted | Kind::Deleted => &["\"timestamp\""],
        };
        self.0.age("shop_events", times).await
    }
}
