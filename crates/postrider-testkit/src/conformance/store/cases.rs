//! The list of all cases.

/// Generates one test per case for a type that implements
/// [`StoreUnderTest`](crate::conformance::store::StoreUnderTest). The calling crate needs `tokio` with `macros` and
/// `rt`.
#[macro_export]
macro_rules! store_conformance {
    ($under_test:ty) => {
        $crate::store_conformance! { @tests $under_test;
            subscribe {
                starting_at_the_beginning_delivers_existing_events
                starting_now_delivers_only_later_events
                starting_now_on_an_empty_outbox_misses_nothing
                starting_at_a_position_delivers_it_first
                starting_at_a_time_delivers_every_event_from_then_on
                starting_at_a_time_after_every_event_equals_starting_now
                subscribing_twice_keeps_the_progress
                an_unknown_subscription_is_an_error_of_every_verb
            }
            lease {
                a_free_lease_is_granted_and_a_held_one_is_not
                an_expired_lease_is_taken_over
                the_same_holder_gets_its_lease_again_with_a_new_epoch
                renewing_extends_the_lease_until_a_takeover
                releasing_frees_the_lease
                releasing_a_lost_lease_frees_nothing
                only_a_clean_release_counts_as_clean
                leases_of_different_subscriptions_are_independent
                a_lease_is_free_when_the_session_that_took_it_is_gone_and_not_before
            }
            settle {
                progress_is_loaded_as_it_was_settled
                an_empty_settlement_clears_trial_and_mark
                rows_are_parked_in_every_state
                parked_rows_are_replaced_and_removed
                subscriptions_do_not_share_progress_or_parked_rows
                a_fenced_settlement_changes_nothing_at_all
                a_parked_row_that_an_operator_changed_is_reported_and_never_overwritten
                rows_that_an_owner_parks_itself_are_not_reported_as_changed
                an_expired_lease_without_a_takeover_can_still_settle
            }
            claim {
                every_event_is_read_once_and_in_order
                a_page_keeps_to_the_number_of_events
                a_page_keeps_to_the_number_of_bytes
                every_column_counts_against_the_bytes_of_a_page
                an_event_beyond_the_limits_is_reported_and_stops_no_other
                an_event_larger_than_the_budget_is_read_alone
                an_idle_outbox_gives_empty_pages
                after_a_load_exactly_the_remaining_events_are_read
                a_wasted_position_is_reported_empty
                a_position_with_an_event_is_never_reported_empty
                the_highest_possible_position_is_read_once
                two_claimers_read_independently
                a_row_that_cannot_become_an_event_is_reported_once_and_stops_no_other
                damaged_rows_fill_a_page_like_events
                fetch_reads_again_and_reports_missing_events
                fetch_stops_at_its_byte_budget
            }
            content {
                every_field_comes_back_as_it_was_written
                an_event_with_only_a_type_comes_back
                payloads_come_back_byte_for_byte
                the_largest_event_comes_back
                times_before_1970_come_back
            }
            visible {
                an_uncommitted_event_is_not_seen_until_its_commit
                a_rolled_back_event_is_never_seen
                two_processes_see_the_same_outbox
                a_takeover_by_another_process_fences_the_first
            }
            history {
                deleting_the_last_event_seen_is_a_changed_history
                a_loaded_mark_that_is_gone_is_a_changed_history
                an_outbox_that_fell_behind_is_a_changed_history
                an_outbox_that_was_rewritten_is_a_changed_history
                an_outbox_that_fell_behind_the_floor_is_a_changed_history
                deleting_earlier_events_is_not_a_changed_history
            }
            admin {
                a_pause_is_reported_by_the_next_renewal_and_load
                a_halted_subscription_is_not_granted
                an_owner_that_lost_its_lease_can_neither_halt_nor_pause
                an_owner_from_before_a_restore_can_halt
                accepting_the_history_restarts_at_the_chosen_position
                accepting_the_history_discards_parked_rows_above_its_start
                accepting_the_history_discards_parked_rows_whose_position_belongs_to_another_event
                accepting_the_history_fences_the_previous_owner
            }
            maintain {
                old_delivered_events_are_deleted
                deletion_respects_its_batch_size
                a_recent_event_ends_the_deletion
                parked_events_are_not_deleted
                the_slowest_subscription_holds_everything_back
                a_halted_subscription_holds_everything_back
                without_a_subscription_nothing_is_deleted
                a_subscription_created_during_deletion_loses_none_of_its_events
                a_subscription_moved_back_keeps_the_remaining_events
                a_subscription_that_starts_after_the_deleted_events_holds_nothing_back
            }
            replay {
                a_replay_parks_finished_events_again_and_nothing_else
                a_replay_continues_where_its_last_batch_ended
                a_halted_or_unknown_subscription_is_not_replayed
                a_replay_selects_by_time_type_key_and_position
                an_event_that_is_replayed_is_not_deleted
            }
            operate {
                parked_events_are_listed_by_filter_and_page_by_page
                a_dead_event_that_is_retried_is_loaded_again_with_its_mark
                events_are_skipped_discarded_and_given_up_in_the_states_that_allow_it
                a_delivery_removes_its_row_even_if_an_operator_retried_it_meanwhile
                a_failure_that_is_settled_after_an_operators_change_does_not_overwrite_it
                a_dead_event_whose_key_moved_on_is_retried_only_out_of_order
                every_change_of_an_operator_is_in_the_audit_trail
                a_command_of_many_batches_is_listed_and_each_of_its_events_is_found
                two_operators_at_once_change_each_event_once
                an_operator_cannot_change_an_unknown_subscription
            }
            explain {
                a_parked_event_is_explained_by_its_row
                a_delivered_event_is_explained_as_delivered_before_a_time
                an_event_that_waits_is_explained_by_what_stops_its_subscription
                an_unread_event_waits_behind_a_parked_one_of_its_key
                an_event_that_an_operator_gave_up_is_explained_by_the_audit_trail
                an_event_whose_replay_an_operator_gave_up_is_not_called_undelivered
                an_event_below_the_start_of_a_subscription_is_not_called_delivered
                an_event_that_does_not_exist_is_explained
                an_id_of_the_oldest_events_millisecond_is_unknown
                an_event_that_retention_removed_is_explained
                a_damaged_row_is_explained
                a_key_is_explained_by_its_first_unfinished_event
                an_event_is_found_by_its_id_among_many
            }
            subscriptions {
                an_operator_adds_a_subscription_and_the_audit_trail_says_who
                a_moved_subscription_skips_or_repeats_what_the_plan_counted
                a_halted_subscription_is_not_moved
                a_subscription_is_removed_only_without_a_leader
            }
            overview {
                the_backlog_is_every_event_that_is_not_done
                counting_stops_at_its_limit
                the_overview_contains_the_owner_and_the_end_of_its_lease
                the_overview_contains_pauses_and_halts
                parked_rows_are_counted
                the_overview_lists_relays_with_what_they_last_reported
                the_overview_contains_a_limited_number_of_reports
                reading_the_overview_changes_nothing
            }
        }
    };
    (@tests $under_test:ty; $($file:ident { $($case:ident)+ })+) => {
        #[test]
        fn the_databases_page_lists_the_cases_of_this_store() -> ::std::result::Result<(), ::std::string::String> {
            $crate::conformance::store::page::check(
                <$under_test as $crate::conformance::store::StoreUnderTest>::DATABASE,
                &[$((stringify!($file), &[$(stringify!($case)),+])),+],
            )
        }

        $(mod $file {
            use super::*;

            $(
                #[tokio::test]
                async fn $case() -> ::postrider::Result<()> {
                    if !<$under_test as $crate::conformance::store::StoreUnderTest>::is_available() {
                        return Ok(());
                    }
                    let databases = $crate::conformance::store::Databases::of::<$under_test>();
                    $crate::conformance::store::$file::$case(&databases).await
                }
            )+
        })+
    };
}
