//! The list of all cases.

/// One test of a case per layout and database.
macro_rules! on_each_table {
    ($case:path) => {
        on_layouts!(sqlite, on_each_table on_sqlite: Sqlite, $case;);
        on_layouts!(postgres, on_each_table on_postgres: Postgres, $case;);
        on_layouts!(mysql, on_each_table on_mysql: MySql, $case;);
        on_layouts!(mysql, on_each_table on_mariadb: MariaDb, $case;);
    };
    ($database:ident: $stage:ident, $case:path; $($test:ident = $index:literal, $layout:ident;)+) => {
        mod $database {
            use super::*;

            $(
                #[tokio::test]
                async fn $test() -> Result<()> {
                    match $stage::new(RowLayout::$layout).await? {
                        Some(stage) => $case(&stage).await,
                        None => Ok(()),
                    }
                }
            )+
        }
    };
}

macro_rules! cases {
    ($($module:ident::$name:ident),+ $(,)?) => { $(
        mod $name {
            use postrider::Result;
            use postrider::layout::RowLayout;

            use crate::adopt::server::{MariaDb, MySql, Postgres};
            use crate::adopt::sqlite::Sqlite;
            use crate::adopt::stage::Stage;
            use crate::test_layouts::on_layouts;

            on_each_table!(crate::adopt::$module::$name);
        }
    )+ };
}

cases! {
    to_log::undelivered_rows_move_in_order_and_a_relay_delivers_each_once,
    to_log::attempts_of_a_row_are_kept,
    to_log::adopted_rows_are_not_deleted_by_retention,
    to_log::a_row_that_waits_for_a_retry_moves_before_those_behind_it,
    to_log::rows_older_than_the_start_stay,
    to_log::a_row_that_is_committed_late_moves_too,
    to_rows::undelivered_events_move_in_order_and_a_relay_delivers_each_once_from_the_table,
    to_rows::parked_events_move_with_their_attempts,
    to_rows::an_event_that_came_from_the_table_goes_back_into_it,
    refused::nothing_moves_without_an_explicit_start,
    refused::nothing_moves_while_a_relay_runs,
    refused::nothing_moves_between_outboxes_of_one_kind,
    refused::events_that_do_not_fit_are_reported_before_anything_is_changed,
    refused::a_row_that_cannot_become_an_event_is_reported_before_anything_is_changed,
    refused::events_that_were_given_up_stay,
    refused::another_publisher_that_delivers_after_the_count_is_detected,
    refused::another_publisher_that_delivers_between_batches_is_detected,
    refused::a_batch_is_rolled_back_if_another_publisher_takes_one_of_its_rows,
    stopped::a_copy_that_stops_between_batches_resumes_where_it_stopped,
    stopped::a_copy_back_that_stops_between_batches_resumes_where_it_stopped,
    stopped::a_copy_that_is_dropped_at_any_point_loses_nothing_and_copies_nothing_twice,
    stopped::a_copy_back_that_is_dropped_at_any_point_loses_nothing_and_copies_nothing_twice,
    stopped::a_batch_that_fails_is_neither_copied_nor_settled,
    stopped::a_copy_that_lost_its_lease_moves_nothing,
}
