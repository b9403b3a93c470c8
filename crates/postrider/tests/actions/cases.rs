//! Which cases run with which drivers.

/// Every driver, each on the databases that it is for.
mod with_every_driver {
    use crate::concurrent::concurrent_deposits_end_with_the_right_balance_and_one_event_each;
    use crate::hostile::{
        a_panic_in_an_action_writes_nothing_and_leaves_the_connections_usable,
        texts_of_attackers_are_stored_as_they_are_or_refused_as_a_whole,
    };
    use crate::kill_points::{
        a_program_that_dies_at_any_wait_of_the_transaction_leaves_all_of_it_or_nothing,
        an_execution_whose_caller_is_dropped_happens_as_a_whole_or_not_at_all,
    };
    use crate::layouts::{
        an_action_that_fails_leaves_nothing, an_action_without_events_is_recorded,
        rows_events_and_the_action_are_written_together,
    };
    use crate::once::a_call_with_an_id_is_executed_once_also_by_concurrent_callers;

    crate::drivers::on_every_driver! {
        rows_events_and_the_action_are_written_together,
        an_action_without_events_is_recorded,
        an_action_that_fails_leaves_nothing,
        a_program_that_dies_at_any_wait_of_the_transaction_leaves_all_of_it_or_nothing,
        an_execution_whose_caller_is_dropped_happens_as_a_whole_or_not_at_all,
        concurrent_deposits_end_with_the_right_balance_and_one_event_each,
        a_call_with_an_id_is_executed_once_also_by_concurrent_callers,
        a_panic_in_an_action_writes_nothing_and_leaves_the_connections_usable,
        texts_of_attackers_are_stored_as_they_are_or_refused_as_a_whole,
    }
}

/// One driver on every database.
mod with_sqlx {
    use crate::in_transaction::an_action_in_a_transaction_happens_if_its_caller_commits;
    use crate::retries::{
        a_stale_action_runs_again_as_a_whole_with_a_new_plan,
        an_action_that_stays_stale_fails_with_its_code_and_writes_nothing,
    };

    crate::drivers::on_every_database! {
        an_action_in_a_transaction_happens_if_its_caller_commits,
        a_stale_action_runs_again_as_a_whole_with_a_new_plan,
        an_action_that_stays_stale_fails_with_its_code_and_writes_nothing,
    }
}
