//! Positions that are taken and not committed: nothing is skipped, nobody is waited for.

use std::time::Duration;

use postrider::ledger::{Intervals, Progress};
use postrider::store::postgres::PostgresStore;
use postrider::store::{Budget, Claimed, Claimer, Page, Store};
use postrider::{Event, Position, Result};

use super::case::{Case, case, failed};

/// A proof that did not come within this does not come.
const LONG: Duration = Duration::from_secs(60);

/// Claims in which a hole that must stay would be buried by a wrong rule.
const MANY: usize = 20;

const PLENTY: Budget = Budget { events_max: 1_000, bytes_max: 1 << 26 };

/// A claimer from the beginning, and what it has said so far.
struct Reader {
    claimer: Box<dyn Claimer>,
    read: Vec<i64>,
    dead: Intervals,
}

impl Reader {
    fn of(store: &PostgresStore) -> Self {
        Self { claimer: store.claimer(&Progress::default()), read: Vec::new(), dead: Intervals::default() }
    }

    async fn on(case: &Case) -> Result<Self> {
        Ok(Self::of(&case.store().await?))
    }

    /// One that never lists the writers.
    async fn with_the_horizon_rule(case: &Case) -> Result<Self> {
        let config = case.config.clone().list_writers_after(Duration::MAX);
        Ok(Self::of(&PostgresStore::connect(&config).await?))
    }

    async fn claim(&mut self) -> Result<Page> {
        let Claimed::Page(page) = self.claimer.claim(PLENTY).await? else {
            panic!("the history did not change")
        };
        self.read.extend(page.events.iter().map(|event| event.position.get()));
        page.dead.iter().for_each(|(first, last)| self.dead.insert_range(*first, *last));
        Ok(page)
    }

    fn is_dead(&self, position: i64) -> bool {
        self.dead.contains(Position::new(position))
    }

    async fn until_dead(&mut self, position: i64) -> Result<()> {
        let waiting = async {
            while !self.is_dead(position) {
                self.claim().await?;
            }
            Ok(())
        };
        tokio::time::timeout(LONG, waiting).await.map_err(failed)?
    }

    async fn stays_alive(&mut self, position: i64) -> Result<()> {
        for _ in 0..MANY {
            self.claim().await?;
        }
        assert!(!self.is_dead(position), "{position} can still be committed");
        Ok(())
    }
}

case! {
    async fn a_late_commit_is_delivered_after_earlier_commits(case) {
        let mut reader = Reader::on(&case).await?;
        for _ in 1..=4 {
            case.committed("early").await?;
        }
        let late = case.writing("late").await?;
        case.committed("fast").await?;
        reader.claim().await?;
        assert_eq!(reader.read, [1, 2, 3, 4, 6]);
        reader.stays_alive(5).await?;
        late.batch_execute("COMMIT").await.map_err(failed)?;
        reader.claim().await?;
        assert_eq!(reader.read, [1, 2, 3, 4, 6, 5]);
        case.committed("next").await?;
        let page = reader.claim().await?;
        assert_eq!((page.holes, reader.read.last()), (0, Some(&7)));
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
        assert_eq!((page.holes, page.dead, page.has_unread), (0, Vec::new(), false));
    }
}

case! {
    async fn a_rolled_back_position_dies_by_the_horizon_rule(case) {
        let mut reader = Reader::with_the_horizon_rule(&case).await?;
        let gone = case.writing("gone").await?;
        case.committed("kept").await?;
        reader.stays_alive(1).await?;
        gone.batch_execute("ROLLBACK").await.map_err(failed)?;
        reader.until_dead(1).await?;
        assert_eq!((reader.read, reader.dead.to_string()), (vec![2], "1".to_owned()));
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
        let (mut cheap, mut listing) = (Reader::with_the_horizon_rule(&case).await?, Reader::on(&case).await?);
        listing.stays_alive(1).await?;
        gone.batch_execute("ROLLBACK").await.map_err(failed)?;
        listing.until_dead(1).await?;
        cheap.stays_alive(1).await?;
        open.batch_execute("ROLLBACK").await.map_err(failed)?;
        cheap.until_dead(1).await?;
    }
}

case! {
    async fn an_old_hole_is_checked_against_the_lock_table_after_a_second(case) {
        let patient = case.config.clone().list_writers_after(Duration::from_secs(1));
        let open = case.another().await?;
        open.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.map_err(failed)?;
        let gone = case.writing("gone").await?;
        case.committed("kept").await?;
        gone.batch_execute("ROLLBACK").await.map_err(failed)?;
        let mut reader = Reader::of(&PostgresStore::connect(&patient).await?);
        reader.until_dead(1).await?;
        open.batch_execute("ROLLBACK").await.map_err(failed)?;
    }
}

case! {
    async fn a_prepared_transaction_keeps_its_positions_alive(case) {
        let (late, gone) = (case.writing("late").await?, case.writing("gone").await?);
        case.committed("fast").await?;
        let mut reader = Reader::on(&case).await?;
        // Listed as open sessions first, as prepared transactions later.
        reader.stays_alive(1).await?;
        late.batch_execute(&case.sql("PREPARE TRANSACTION '{schema} late'")).await.map_err(failed)?;
        gone.batch_execute(&case.sql("PREPARE TRANSACTION '{schema} gone'")).await.map_err(failed)?;
        drop((late, gone));
        reader.stays_alive(1).await?;
        reader.stays_alive(2).await?;
        // And by one that never saw the sessions.
        let mut second = Reader::on(&case).await?;
        second.stays_alive(1).await?;
        case.run("COMMIT PREPARED '{schema} late'").await?;
        case.run("ROLLBACK PREPARED '{schema} gone'").await?;
        for reader in [&mut reader, &mut second] {
            reader.until_dead(2).await?;
            assert_eq!((reader.read.as_slice(), reader.is_dead(1)), (&[3, 1][..], false));
        }
    }
}

case! {
    async fn a_long_writing_transaction_keeps_its_own_positions_alive_and_no_later_ones(case) {
        let mut reader = Reader::on(&case).await?;
        let long = case.writing("long").await?;
        case.committed("kept").await?;
        reader.stays_alive(1).await?;
        let gone = case.writing("gone").await?;
        case.committed("kept").await?;
        reader.stays_alive(3).await?;
        gone.batch_execute("ROLLBACK").await.map_err(failed)?;
        reader.until_dead(3).await?;
        // It wakes up, writes once more and falls silent again: that position is its own.
        case.outbox().write(&long, Event::new("long", "")).await?;
        case.committed("kept").await?;
        reader.stays_alive(5).await?;
        // As a prepared transaction it is just as silent.
        long.batch_execute(&case.sql("PREPARE TRANSACTION '{schema} long'")).await.map_err(failed)?;
        reader.stays_alive(5).await?;
        case.writing("gone").await?.batch_execute("ROLLBACK").await.map_err(failed)?;
        case.committed("kept").await?;
        reader.until_dead(7).await?;
        reader.stays_alive(1).await?;
        case.run("COMMIT PREPARED '{schema} long'").await?;
        reader.claim().await?;
        assert_eq!((reader.read, reader.dead.to_string()), (vec![2, 4, 6, 8, 1, 5], "0 3 7".to_owned()));
    }
}

case! {
    /// Without the right to see what others do, nobody is taken for silent.
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
        reader.stays_alive(1).await?;
        case.writing("gone").await?.batch_execute("ROLLBACK").await.map_err(failed)?;
        case.committed("kept").await?;
        reader.stays_alive(3).await?;
        long.batch_execute("ROLLBACK").await.map_err(failed)?;
        reader.until_dead(3).await?;
    }
}

case! {
    async fn positions_rolled_back_to_a_savepoint_die_and_the_rest_is_delivered(case) {
        let writer = case.another().await?;
        writer.batch_execute("BEGIN; SAVEPOINT s").await.map_err(failed)?;
        case.outbox().write(&writer, Event::new("taken back", "")).await?;
        writer.batch_execute("ROLLBACK TO s").await.map_err(failed)?;
        case.outbox().write(&writer, Event::new("kept", "")).await?;
        case.committed("fast").await?;
        let mut reader = Reader::on(&case).await?;
        reader.stays_alive(2).await?;
        writer.batch_execute("COMMIT").await.map_err(failed)?;
        reader.until_dead(1).await?;
        assert_eq!((reader.read.as_slice(), reader.is_dead(2)), (&[3, 2][..], false));
    }
}

case! {
    async fn a_failed_statement_leaves_a_hole_that_dies(case) {
        case.run("INSERT INTO {schema}.events (type, payload) VALUES ('', '')").await.unwrap_err();
        case.committed("kept").await?;
        let mut reader = Reader::on(&case).await?;
        reader.until_dead(1).await?;
        assert_eq!(reader.read, [2]);
    }
}

case! {
    async fn a_large_late_transaction_is_read_in_order_page_by_page(case) {
        let late = case.another().await?;
        let bulk = "BEGIN; INSERT INTO {schema}.events (type, payload) SELECT 'bulk', '' FROM generate_series(1, 2500)";
        late.batch_execute(&case.sql(bulk)).await.map_err(failed)?;
        case.committed("fast").await?;
        let mut reader = Reader::on(&case).await?;
        assert_eq!(reader.claim().await?.holes, 1);
        late.batch_execute("COMMIT").await.map_err(failed)?;
        case.committed("next").await?;
        while reader.claim().await?.more_at_once {}
        let expected: Vec<i64> = std::iter::once(2501).chain(1..=2500).chain([2502]).collect();
        assert_eq!(reader.read, expected);
    }
}

case! {
    async fn too_many_holes_pause_the_tail_and_are_reported_until_one_closes(case) {
        let mut open = Vec::new();
        for _ in 0..2 {
            open.push(case.writing("open").await?);
            case.committed("kept").await?;
        }
        let config = case.config.clone().holes_max(2);
        let mut reader = Reader::of(&PostgresStore::connect(&config).await?);
        reader.claim().await?;
        case.committed("beyond").await?;
        let page = reader.claim().await?;
        assert_eq!((page.holes, page.holes_full), (2, true));
        assert_eq!((page.more_at_once, page.has_unread), (false, true));
        assert_eq!(reader.read, [2, 4]);
        open.remove(0).batch_execute("COMMIT").await.map_err(failed)?;
        let page = reader.claim().await?;
        assert_eq!((page.holes_full, page.more_at_once, page.has_unread), (false, true, true));
        reader.claim().await?;
        assert_eq!(reader.read, [2, 4, 1, 5]);
    }
}

case! {
    /// Undocumented, and what the cheap rule stands on: whoever took a position already had a transaction id.
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
        // A writer may not read what it wrote.
        let writer = case.another().await?;
        writer.batch_execute("BEGIN").await.map_err(failed)?;
        case.outbox().write(&writer, Event::new("open", "")).await?;
        let sql = "SELECT pg_current_xact_id_if_assigned() IS NOT NULL AND
                          (SELECT bool_and(tx = pg_current_xact_id_if_assigned()) FROM {schema}.events)";
        let row = writer.query_one(&case.sql(sql), &[]).await.map_err(failed)?;
        assert!(row.get::<_, bool>(0));
    }
}
