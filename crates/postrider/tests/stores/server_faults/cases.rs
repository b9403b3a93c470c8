//! The list of all cases.

/// The tests of a server, each case by its own name.
macro_rules! server_fault_tests {
    ($server:ty) => {
        $crate::server_faults::server_fault_tests!($server: network
            nothing_is_lost_when_connections_are_cut
            nothing_is_lost_when_the_response_to_a_commit_is_lost
            nothing_is_lost_when_a_request_is_cut_in_the_middle
            a_server_that_stops_responding_on_an_open_connection_times_out
            a_network_that_drops_everything_times_out
            a_relay_in_a_blackhole_loses_its_lease_and_changes_nothing
            a_relay_that_receives_no_responses_loses_its_lease);
        $crate::server_faults::server_fault_tests!($server: outage
            a_relay_waits_for_a_server_that_is_down_at_its_start
            nothing_is_lost_when_the_server_is_restarted_under_load
            nothing_is_lost_when_the_server_is_killed_under_load);
        $crate::server_faults::server_fault_tests!($server: history
            a_restored_server_halts_the_relay_that_saw_later_events
            events_restored_without_their_ledger_halt_the_subscription
            a_reset_counter_halts_the_subscription);
        $crate::server_faults::server_fault_tests!($server: failover
            a_failover_that_lost_events_halts_and_continues_once_accepted
            a_checked_failover_that_kept_everything_continues_by_itself
            a_checked_failover_halts_the_relay_that_saw_events_it_lost
            a_checked_failover_halts_if_the_last_event_seen_is_missing);
        $crate::server_faults::server_fault_tests!($server: refusal
            a_relay_without_a_free_connection_waits_for_one
            a_relay_waits_for_a_server_without_free_connections_at_start_and_later
            a_relay_waits_for_a_read_only_server_and_delivers_nothing_repeatedly
            a_wrong_password_is_reported_at_once_and_not_printed
            a_running_relay_waits_until_a_changed_password_works_again
            a_schema_of_another_name_is_named_in_the_error
            the_right_that_a_user_lacks_for_settling_is_named
            a_full_disk_loses_nothing_and_delivery_resumes_once_there_is_room);
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
