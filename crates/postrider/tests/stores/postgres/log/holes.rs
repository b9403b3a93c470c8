//! Positions that are taken and not committed: no event is skipped, and none is delayed longer than necessary.

use std::time::Duration;

use postrider::store::Store;
use postrider::store::postgres::PostgresStore;
use postrider::{Event, Result};
use tokio_postgres::Client;

use super::case::{Case, case, failed};
use crate::holes::{self, HoleCase, Reader};

impl HoleCase for Case {
    type Writer = Client;

    async fn open_store(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(self.store().await?))
    }

    async fn open_store_with_holes_max(&self, holes_max: usize) -> Result<Box<dyn Store>> {
        Ok(Box::new(PostgresStore::connect(&self.config.clone().holes_max(holes_max)).await?))
    }

    async fn committed(&self, event: &str) -> Result<i64> {
        Case::committed(self, event).await
    }

    async fn begin(&self) -> Result<Client> {
        let writer = self.another_writer().await?;
        writer.batch_execute("BEGIN").await.map_err(failed)?;
        Ok(writer)
    }

    async fn begin_global(&self, _: &str) -> Result<Client> {
        self.begin().await
    }

    async fn write(&self, writer: &mut Client, event: &str) -> Result<()> {
        self.outbox().write(&*writer, Event::new(event, "")).await.map(|_| ())
    }

    async fn write_many(&self, writer: &mut Client) -> Result<i64> {
        let insert =
            "INSERT INTO {schema}.events (type, payload) SELECT 'bulk', '' FROM generate_series(1, 2500)";
        self.execute(writer, insert).await?;
        Ok(2500)
    }

    async fn execute(&self, writer: &mut Client, sql: &str) -> Result<()> {
        writer.batch_execute(&self.sql(sql)).await.map_err(failed)
    }

    async fn prepare(&self, writer: &mut Client, name: &str) -> Result<()> {
        self.execute(writer, &format!("PREPARE TRANSACTION '{{schema}} {name}'")).await
    }

    async fn disconnect(&self, writer: Client) -> Result<()> {
        drop(writer);
        Ok(())
    }

    async fn commit_prepared(&self, name: &str) -> Result<()> {
        self.run(&format!("COMMIT PREPARED '{{schema}} {name}'")).await
    }

    async fn roll_back_prepared(&self, name: &str) -> Result<()> {
        self.run(&format!("ROLLBACK PREPARED '{{schema}} {name}'")).await
    }
}

/// A reader that never lists the writers.
async fn with_the_horizon_rule(case: &Case) -> Result<Reader> {
    let config = case.config.clone().check_rollbacks_after(Duration::MAX);
    Ok(Reader::of(&PostgresStore::connect(&config).await?))
}

case! {
    async fn a_late_commit_is_delivered_after_earlier_commits(case) {
        holes::a_late_commit_is_delivered_after_earlier_commits(&case).await?;
    }
}

case! {
    async fn a_damaged_row_of_a_late_commit_fills_its_hole(case) {
        let late = case.another().await?;
        let insert = "BEGIN; INSERT INTO {schema}.events (type, payload, action) VALUES ('late', '', '{}')";
        late.batch_execute(&case.sql(insert)).await.map_err(failed)?;
        case.committed("fast").await?;
        let mut reader = Reader::on(&case).await?;
        assert_eq!(reader.claim().await?.holes, 1);
        late.batch_execute("COMMIT").await.map_err(failed)?;
        let page = reader.claim().await?;
        assert_eq!(page.damaged.iter().map(|(position, _)| position.get()).collect::<Vec<_>>(), [1]);
        assert_eq!((page.holes, page.empty_positions, page.has_unread), (0, Vec::new(), false));
    }
}

case! {
    async fn a_rolled_back_position_dies_by_the_horizon_rule(case) {
        let mut reader = with_the_horizon_rule(&case).await?;
        let gone = case.writing("gone").await?;
        case.committed("kept").await?;
        reader.stays_a_hole(1).await?;
        gone.batch_execute("ROLLBACK").await.map_err(failed)?;
        reader.until_empty(1).await?;
        assert_eq!((reader.read, reader.empty.to_string()), (vec![2], "1".to_owned()));
    }
}

case! {
    async fn a_rolled_back_position_dies_while_an_older_transaction_stays_open(case) {
        case.run("CREATE TABLE {schema}.orders (id int)").await?;
        let open = case.another().await?;
        let insert = case.sql("BEGIN; INSERT INTO {schema}.orders VALUES (1)");
        open.batch_execute(&insert).await.map_err(failed)?;
        let gone = case.writing("gone").await?;
        case.committed("kept").await?;
        let (mut cheap, mut listing) = (with_the_horizon_rule(&case).await?, Reader::on(&case).await?);
        listing.stays_a_hole(1).await?;
        gone.batch_execute("ROLLBACK").await.map_err(failed)?;
        listing.until_empty(1).await?;
        cheap.stays_a_hole(1).await?;
        open.batch_execute("ROLLBACK").await.map_err(failed)?;
        cheap.until_empty(1).await?;
    }
}

case! {
    async fn an_old_hole_is_checked_against_the_lock_table_after_a_second(case) {
        let patient = case.config.clone().check_rollbacks_after(Duration::from_secs(1));
        let open = case.another().await?;
        open.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.map_err(failed)?;
        let gone = case.writing("gone").await?;
        case.committed("kept").await?;
        gone.batch_execute("ROLLBACK").await.map_err(failed)?;
        let mut reader = Reader::of(&PostgresStore::connect(&patient).await?);
        reader.until_empty(1).await?;
        open.batch_execute("ROLLBACK").await.map_err(failed)?;
    }
}

case! {
    async fn a_prepared_transaction_keeps_its_positions_open(case) {
        holes::a_prepared_transaction_keeps_its_positions_open(&case).await?;
    }
}

case! {
    async fn a_long_writing_transaction_keeps_its_own_positions_open_and_no_later_ones(case) {
        let mut reader = Reader::on(&case).await?;
        let long = case.writing("long").await?;
        case.committed("kept").await?;
        reader.stays_a_hole(1).await?;
        let gone = case.writing("gone").await?;
        case.committed("kept").await?;
        reader.stays_a_hole(3).await?;
        gone.batch_execute("ROLLBACK").await.map_err(failed)?;
        reader.until_empty(3).await?;
        // The writer continues, writes one event and is idle again: the new position belongs to it.
        case.outbox().write(&long, Event::new("long", "")).await?;
        case.committed("kept").await?;
        reader.stays_a_hole(5).await?;
        // As a prepared transaction it is idle as well.
        long.batch_execute(&case.sql("PREPARE TRANSACTION '{schema} long'")).await.map_err(failed)?;
        reader.stays_a_hole(5).await?;
        case.writing("gone").await?.batch_execute("ROLLBACK").await.map_err(failed)?;
        case.committed("kept").await?;
        reader.until_empty(7).await?;
        reader.stays_a_hole(1).await?;
        case.run("COMMIT PREPARED '{schema} long'").await?;
        reader.claim().await?;
        assert_eq!((reader.read, reader.empty.to_string()), (vec![2, 4, 6, 8, 1, 5], "0 3 7".to_owned()));
    }
}

case! {
    /// Without the right to see the activity of others, no writer is considered idle.
    async fn a_relay_without_the_right_to_see_other_sessions_waits_for_all_of_them(case) {
        case.run(
            "CREATE ROLE {schema} LOGIN;
             GRANT USAGE ON SCHEMA {schema} TO {schema};
             GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {schema};
             GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {schema}",
        )
        .await?;
        let config = case.config_as(case.schema.as_str())?;
        let mut reader = Reader::of(&PostgresStore::connect(&config).await?);
        let long = case.writing("long").await?;
        case.committed("kept").await?;
        reader.stays_a_hole(1).await?;
        case.writing("gone").await?.batch_execute("ROLLBACK").await.map_err(failed)?;
        case.committed("kept").await?;
        reader.stays_a_hole(3).await?;
        long.batch_execute("ROLLBACK").await.map_err(failed)?;
        reader.until_empty(3).await?;
    }
}

case! {
    async fn positions_rolled_back_to_a_savepoint_die_and_the_rest_is_delivered(case) {
        holes::positions_rolled_back_to_a_savepoint_die_and_the_rest_is_delivered(&case).await?;
    }
}

case! {
    async fn a_failed_statement_leaves_a_hole_that_dies(case) {
        case.run("INSERT INTO {schema}.events (type, payload) VALUES ('', '')").await.unwrap_err();
        case.committed("kept").await?;
        let mut reader = Reader::on(&case).await?;
        reader.until_empty(1).await?;
        assert_eq!(reader.read, [2]);
    }
}

case! {
    async fn a_large_late_transaction_is_read_in_order_page_by_page(case) {
        _ = holes::a_large_late_transaction_is_read_in_order_page_by_page(&case).await?;
    }
}

case! {
    async fn too_many_holes_pause_the_tail_and_are_reported_until_one_closes(case) {
        holes::too_many_holes_pause_the_tail_and_are_reported_until_one_closes(&case).await?;
    }
}

case! {
    /// Undocumented, and required by the horizon rule: a transaction that took a position already had a transaction id.
    async fn defaults_are_evaluated_in_column_order(case) {
        case.run(
            "CREATE SEQUENCE {schema}.step;
             CREATE TABLE {schema}.probe (
                 first  bigint DEFAULT nextval('{schema}.step'),
                 second bigint GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME {schema}.identity),
                 third  bigint DEFAULT nextval('{schema}.step'),
                 value  int
             );
             INSERT INTO {schema}.probe DEFAULT VALUES;
             INSERT INTO {schema}.probe (value) VALUES (1), (2), (3);
             INSERT INTO {schema}.probe (value) SELECT n FROM generate_series(1, 100) AS n ORDER BY n DESC;
             PREPARE probe AS INSERT INTO {schema}.probe (value) VALUES ($1);
             EXECUTE probe(7);",
        )
        .await?;
        let wrong: i64 = case.one("SELECT count(*) FROM {schema}.probe WHERE first >= third").await?;
        assert_eq!(wrong, 0);
        let rows: i64 = case.one("SELECT count(*) FROM {schema}.probe").await?;
        assert_eq!(rows, 105);
    }
}

case! {
    async fn a_transaction_with_a_position_has_a_transaction_id(case) {
        // A writer has no right to read the events.
        let writer = case.another().await?;
        writer.batch_execute("BEGIN").await.map_err(failed)?;
        case.outbox().write(&writer, Event::new("open", "")).await?;
        let sql = "SELECT pg_current_xact_id_if_assigned() IS NOT NULL AND
                          (SELECT bool_and(tx = pg_current_xact_id_if_assigned()) FROM {schema}.events)";
        let row = writer.query_one(&case.sql(sql), &[]).await.map_err(failed)?;
        assert!(row.get::<_, bool>(0));
    }
}
