//! The list of all cases.

/// Generates one test per case for a type that implements [`RowsUnderTest`](crate::conformance::rows::RowsUnderTest).
/// The calling crate needs `tokio` with `macros` and `rt`. With several types, each after a name, it generates one
/// module per type.
#[macro_export]
macro_rules! rows_conformance {
    ($($name:ident: $under_test:ty),+ $(,)?) => { $(
        mod $name {
            use super::*;
            $crate::rows_conformance!($under_test);
        }
    )+ };
    ($under_test:ty) => {
        $crate::rows_conformance! { @tests $under_test;
            subscribe {
                a_table_has_only_one_subscription
                a_start_that_skips_due_rows_is_refused
                an_unknown_subscription_is_an_error
            }
            settle {
                the_key_of_a_message_is_the_id_of_its_aggregate_or_the_rows_own_key
                due_rows_are_read_once_and_in_order
                a_page_keeps_to_its_budget
                a_claimed_row_is_marked_if_the_layout_has_a_mark
                delivered_rows_are_marked_and_never_read_again
                a_fenced_settlement_changes_no_row
                many_deliveries_are_marked_at_once
                a_fenced_settlement_of_many_changes_no_row
                a_row_delivered_by_another_publisher_is_not_modified
            }
            park {
                a_failed_attempt_is_counted_and_waits_for_its_retry_time
                a_retry_is_handed_out_again_and_delivered
                a_row_behind_another_is_untouched
                a_row_whose_destination_is_down_counts_no_attempt
                a_waiting_row_delivered_by_another_publisher_is_reported_as_taken
                an_unrouted_row_comes_back_with_the_next_owner
                an_unrouted_row_is_not_lost_when_it_waits_for_another_reason
            }
            give_up {
                a_row_given_up_is_never_due
                a_row_given_up_and_reset_is_read_again
                a_row_given_up_and_reset_is_read_by_the_next_owner
                attempts_of_an_earlier_owner_count
            }
            operate {
                a_row_given_up_is_listed_and_retried_by_an_operator
                a_row_that_waits_is_retried_at_once_by_an_operator
                a_row_that_waits_is_given_up_by_an_operator_only_without_an_owner
                a_row_can_neither_be_discarded_nor_skipped
                a_row_that_the_table_refuses_to_change_stays_listed_and_the_others_are_changed
                a_subscription_of_rows_is_neither_moved_nor_removed
            }
            explain {
                a_row_is_explained_by_its_state
                a_row_that_waits_is_explained_by_what_stops_its_subscription
                a_row_that_does_not_exist_is_explained
                a_key_of_rows_is_explained_by_its_first_parked_row
            }
            refused {
                a_delivered_row_that_cannot_be_updated_delays_no_other_and_is_not_read_again
                a_delivered_row_whose_update_is_silently_ignored_is_not_read_again
                some_of_many_delivered_rows_cannot_be_updated
                a_row_that_is_given_up_and_cannot_be_updated_is_not_read_again
                a_row_that_cannot_be_updated_from_the_start_is_parked
                an_attempt_count_at_the_maximum_of_its_column_stays_there
                rows_of_a_dead_owner_that_cannot_be_released_are_still_delivered
            }
            owners {
                releasing_a_lease_releases_its_rows
                the_rows_of_a_dead_owner_are_read_by_the_next
                an_owner_that_lost_its_lease_can_claim_nothing_more
                a_held_lease_is_not_granted
                rows_on_trial_are_remembered_and_read_first
                an_event_has_the_same_id_at_every_delivery
            }
            maintain {
                only_old_delivered_rows_are_deleted
                rows_delivered_by_other_publishers_stay_unless_configured
                a_cleanup_by_hand_deletes_only_old_delivered_rows
                the_overview_counts_waiting_and_parked_rows
            }
        }
    };
    (@tests $under_test:ty; $($file:ident { $($case:ident)+ })+) => { $(
        mod $file {
            use super::*;

            $(
                #[tokio::test]
                async fn $case() -> ::postrider::Result<()> {
                    if !<$under_test as $crate::conformance::rows::RowsUnderTest>::is_available() {
                        return Ok(());
                    }
                    let tables = $crate::conformance::rows::Tables::of::<$under_test>();
                    $crate::conformance::rows::$file::$case(&tables).await
                }
            )+
        }
    )+ };
}
