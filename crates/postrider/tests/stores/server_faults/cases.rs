//! The list of all cases.

/// The tests of a server, each case by its own name.
macro_rules! server_fault_tests {
    ($server:ty) => {
        $crate::server_faults::server_fault_tests!($server: network
            nothing_is_lost_when_connections_are_cut
            nothing_is_lost_when_the_answer_to_a_commit_is_lost
            nothing_is_lost_when_a_request_is_cut_in_the_middle
            a_server_that_falls_silent_on_an_open_connection_is_given_up_in_time
            a_network_that_swallows_everything_is_given_up_in_time
            a_relay_in_a_blackhole_loses_its_lease_and_changes_nothing
            a_relay_that_is_heard_and_hears_nothing_loses_its_lease);
        $crate::server_faults::server_fault_tests!($server: outage
            a_relay_waits_for_a_server_that_is_down_at_its_start
            nothing_is_lost_when_the_server_is_restarted_under_load
            nothing_is_lost_when_the_server_is_killed_under_load);
        $crate::server_faults::server_fault_tests!($server: history
            a_server_put_back_to_an_older_state_halts_the_relay_that_knew_better
            events_put_back_without_their_ledger_halt_the_subscription
            a_reset_counter_halts_the_subscription);
        $crate::server_faults::server_fault_tests!($server: failover
            a_failover_that_lost_events_halts_and_goes_on_once_accepted
            a_checked_failover_that_kept_everything_goes_on_by_itself
            a_checked_failover_halts_the_relay_that_saw_events_it_lost
            a_checked_failover_halts_where_the_last_event_seen_is_gone);
        $crate::server_faults::server_fault_tests!($server: refusal
            a_relay_without_a_free_connection_waits_for_one
            a_server_full_of_others_is_waited_for_at_the_start_and_later
            a_read_only_server_is_waited_for_and_delivers_nothing_over_and_over
            who_has_the_wrong_password_is_told_so_at_once_and_not_the_password
            a_password_changed_under_a_running_relay_is_waited_out
            a_schema_of_another_name_is_named_in_the_error
            a_user_that_may_not_settle_is_told_which_right_it_lacks
            a_full_disk_loses_nothing_and_is_over_when_there_is_room);
    };
    ($server:ty: $module:ident $($case:ident)+) => {
        mod $module {
            #[allow(unused_imports, reason = "the server may be named by a path")]
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() -> postrider::Result<()> {
                    $crate::server_faults::$module::$case::<$server>().await
                }
            )+
        }
    };
}
pub(crate) use server_fault_tests;
