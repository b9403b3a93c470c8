//! The list of all cases.

/// Every case on every layout of every database.
macro_rules! cases {
    ($($module:ident::$name:ident),+ $(,)?) => { $(
        mod $name {
            use postrider::Result;
            use postrider::layout::RowLayout;

            async fn on<S: crate::adopt::stage::Stage>(layout: RowLayout) -> Result<()> {
                match S::new(layout).await? {
                    Some(stage) => crate::adopt::$module::$name(&stage).await,
                    None => Ok(()),
                }
            }

            #[tokio::test]
            async fn of_outbox_events_on_sqlite() -> Result<()> {
                on::<crate::adopt::sqlite::Sqlite>(RowLayout::OutboxEvents).await
            }

            #[tokio::test]
            async fn of_event_outbox_on_postgres() -> Result<()> {
                on::<crate::adopt::postgres::Postgres>(RowLayout::EventOutbox).await
            }

            #[tokio::test]
            async fn of_outbox_on_postgres() -> Result<()> {
                on::<crate::adopt::postgres::Postgres>(RowLayout::Outbox).await
            }

            #[tokio::test]
            async fn of_outbox_events_on_postgres() -> Result<()> {
                on::<crate::adopt::postgres::Postgres>(RowLayout::OutboxEvents).await
            }

            #[tokio::test]
            async fn of_event_outbox_on_mysql() -> Result<()> {
                on::<crate::adopt::mysql::Server<crate::adopt::mysql::OfMySql>>(RowLayout::EventOutbox).await
            }

            #[tokio::test]
            async fn of_outbox_events_on_mysql() -> Result<()> {
                on::<crate::adopt::mysql::Server<crate::adopt::mysql::OfMySql>>(RowLayout::OutboxEvents).await
            }

            #[tokio::test]
            async fn of_event_outbox_on_mariadb() -> Result<()> {
                on::<crate::adopt::mysql::Server<crate::adopt::mysql::OfMariaDb>>(RowLayout::EventOutbox).await
            }

            #[tokio::test]
            async fn of_outbox_events_on_mariadb() -> Result<()> {
                on::<crate::adopt::mysql::Server<crate::adopt::mysql::OfMariaDb>>(RowLayout::OutboxEvents).await
            }
        }
    )+ };
}

cases! {
    forth::undelivered_rows_move_in_order_and_a_relay_delivers_each_once,
    forth::tries_of_a_row_are_kept,
    forth::adopted_rows_are_not_deleted_by_retention,
    forth::a_row_that_waits_for_its_next_try_moves_before_those_behind_it,
    forth::what_is_older_than_the_start_stays,
    forth::a_row_that_is_committed_late_moves_too,
    back::undelivered_events_move_in_order_and_a_relay_delivers_each_once_from_the_table,
    back::what_was_parked_moves_with_its_tries,
    back::an_event_that_came_from_the_table_goes_back_into_it,
    refused::nothing_moves_while_nobody_says_what_is_to_move,
    refused::nothing_moves_while_a_relay_works,
    refused::nothing_moves_between_outboxes_of_one_kind,
    refused::what_does_not_fit_is_told_before_anything_is_changed,
    refused::a_row_that_no_event_can_be_made_of_is_told_before_anything_is_changed,
    refused::what_was_given_up_stays,
    refused::a_publisher_of_others_that_delivers_after_the_count_is_noticed,
    refused::a_publisher_of_others_that_delivers_between_batches_is_noticed,
    refused::a_row_that_others_take_after_it_was_read_takes_its_batch_back,
    stopped::a_copy_that_stops_between_batches_goes_on_where_it_was,
    stopped::a_copy_back_that_stops_between_batches_goes_on_where_it_was,
    stopped::a_copy_that_is_dropped_anywhere_loses_nothing_and_copies_nothing_twice,
    stopped::a_copy_back_that_is_dropped_anywhere_loses_nothing_and_copies_nothing_twice,
    stopped::a_batch_that_fails_is_neither_copied_nor_settled,
    stopped::who_lost_the_lease_moves_nothing,
}
