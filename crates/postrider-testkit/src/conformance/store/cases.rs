//! The list of all cases.

/// Makes one test of each case for a type that implements
/// [`StoreUnderTest`](crate::conformance::store::StoreUnderTest). The crate that calls it needs `tokio` with
/// `macros` and `rt`.
#[macro_export]
macro_rules! store_conformance {
    ($under_test:ty) => {
        $crate::store_conformance! { @tests $under_test;
            subscribe {
                beginning_delivers_what_is_there
                now_delivers_only_what_comes_later
                now_on_an_empty_outbox_misses_nothing
                a_position_is_the_first_delivered
                a_time_is_where_delivery_begins_and_nothing_after_it_is_left_out
                a_time_after_every_event_is_like_now
                subscribing_twice_keeps_the_progress
                an_unknown_subscription_is_an_error_of_every_verb
            }
            lease {
                a_free_lease_is_granted_and_a_held_one_is_not
                an_expired_lease_is_taken_over
                the_same_holder_gets_its_lease_again_with_a_new_epoch
                renewing_prolongs_until_somebody_takes_over
                releasing_frees_the_lease
                releasing_a_lost_lease_frees_nothing
                only_a_clean_release_counts_as_clean
                leases_of_different_subscriptions_do_not_meet
            }
            settle {
                progress_is_loaded_as_it_was_settled
                an_empty_settlement_clears_trial_and_mark
                rows_are_parked_in_every_state
                parked_rows_are_replaced_and_removed
                subscriptions_do_not_share_progress_or_parked_rows
                a_fenced_settlement_changes_nothing_at_all
                a_parked_row_that_an_operator_changed_is_told_and_never_overwritten
                what_an_owner_parks_itself_is_no_change_of_somebody_else
                an_expired_lease_that_nobody_took_can_still_settle
            }
            claim {
                every_event_is_read_once_and_in_order
                a_page_keeps_to_the_number_of_events
                a_page_keeps_to_the_number_of_bytes
                every_column_counts_against_the_bytes_of_a_page
                an_event_beyond_the_limits_is_named_and_stops_nobody
                an_event_larger_than_the_budget_is_read_alone
                an_idle_outbox_gives_empty_pages
                after_a_load_exactly_what_is_not_done_is_read
                a_wasted_position_is_reported_dead
                a_position_with_an_event_is_never_reported_dead
                the_last_position_there_can_be_is_read_once_like_any_other
                two_claimers_read_independently
                a_row_no_event_can_be_made_of_is_named_once_and_stops_nobody
                damaged_rows_fill_a_page_like_events
                fetch_reads_again_and_says_what_is_gone
                fetch_stops_at_its_byte_budget
            }
            content {
                every_field_comes_back_as_it_was_written
                an_event_with_nothing_but_a_type_comes_back
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
                an_outbox_that_was_written_anew_is_a_changed_history
                an_outbox_that_fell_behind_the_floor_is_a_changed_history
                deleting_earlier_events_is_not_a_changed_history
            }
            admin {
                a_pause_is_told_at_the_next_renewal_and_load
                a_halted_subscription_is_not_granted
                who_lost_the_lease_can_neither_halt_nor_pause
                an_owner_from_before_a_restore_can_halt
                accepting_the_history_starts_again_where_told
                accepting_the_history_forgets_what_is_parked_above_its_start
                accepting_the_history_forgets_rows_whose_position_another_event_has
                accepting_the_history_fences_the_owner_before
            }
            maintain {
                what_is_delivered_and_old_is_deleted
                deleting_keeps_to_its_batch
                a_young_event_ends_the_deleting
                what_is_parked_stays
                the_slowest_subscription_holds_everything_back
                a_halted_subscription_holds_everything_back
                without_a_subscription_nothing_is_deleted
                a_subscription_created_meanwhile_loses_nothing_it_counted_on
                a_subscription_moved_back_keeps_what_is_left
                a_subscription_that_begins_after_what_was_deleted_holds_nothing_back
            }
            overview {
                what_is_not_done_is_the_backlog
                counting_stops_at_its_limit
                the_owner_is_told_with_the_end_of_its_lease
                pauses_and_halts_are_told
                parked_rows_are_counted
                relays_are_told_while_their_reports_hold
                looking_changes_nothing
            }
        }
    };
    (@tests $under_test:ty; $($file:ident { $($case:ident)+ })+) => {
        #[test]
        fn the_page_of_databases_tells_the_cases_of_this_one() -> ::std::result::Result<(), ::std::string::String> {
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
