//! Another publisher and a relay on one table, with the queries of `outbox_events`.

use postrider::Result;
use postrider::layout::RowLayout;
use rusqlite::Connection;

use super::case::{Case, failed};
use crate::outbox_events_publisher::{
    DELETE_PUBLISHED_EVENTS_OLDER_THAN, GET_EVENTS_TO_PROCESS, MARK_EVENT_AS_FAILED, MARK_EVENT_AS_PUBLISHED,
    MARK_EVENT_FOR_PROCESSING, Publisher, neither_publishes_rows_of_the_other,
};
use crate::row_database::RowDatabase;

impl Publisher for Connection {
    async fn due(&mut self) -> Result<Vec<(i64, String, String)>> {
        let mut due = self.prepare_cached(GET_EVENTS_TO_PROCESS).map_err(failed)?;
        let rows = due.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).map_err(failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    async fn mark_for_processing(&mut self, id: i64) -> Result<bool> {
        Ok(self.execute(MARK_EVENT_FOR_PROCESSING, [id]).map_err(failed)? == 1)
    }

    async fn mark_as_published(&mut self, id: i64) -> Result<()> {
        self.execute(MARK_EVENT_AS_PUBLISHED, [id]).map(|_| ()).map_err(failed)
    }

    async fn mark_as_failed(&mut self, id: i64) -> Result<()> {
        self.execute(MARK_EVENT_AS_FAILED, [id]).map(|_| ()).map_err(failed)
    }
}

/// The queries block their thread, so the relay needs another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queries_of_outbox_events_run_next_to_a_relay_and_neither_publishes_rows_of_the_other()
-> Result<()> {
    let case = Case::create(RowLayout::OutboxEvents).await?.with_sharing(true);
    neither_publishes_rows_of_the_other(&case, case.connect()?).await?;
    let deleted =
        case.connect()?.execute(DELETE_PUBLISHED_EVENTS_OLDER_THAN, ["2001-01-01"]).map_err(failed)?;
    assert_eq!(deleted, 0);
    Ok(())
}
