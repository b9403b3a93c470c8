//! The list of all cases.

/// Makes one test of each case for a type that implements
/// [`RowsUnderTest`](crate::conformance::rows::RowsUnderTest). The crate that calls it needs `tokio` with `macros`
/// and `rt`. Several types, each with a name before it, make a module of tests each.
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
                one_subscription_is_all_a_table_has
                a_start_that_leaves_due_rows_out_is_refused
                an_unknown_subscription_is_an_error
            }
            settle {
                the_key_of_a_message_is_the_id_of_its_aggregate_or_the_rows_own_key
                due_rows_are_read_once_and_in_order
                a_page_keeps_to_its_budget
                a_claimed_row_says_so_where_it_can
                what_is_done_is_marked_and_never_read_again
                a_fenced_settlement_changes_no_row
                many_deliveries_are_marked_at_once
                a_fenced_settlement_of_many_changes_no_row
                a_row_that_somebody_else_delivered_is_left_alone
            }
            park {
                a_failed_try_is_counted_and_waits_for_its_time
                a_retry_is_handed_out_again_and_delivered
                a_row_behind_another_is_untouched
                a_row_whose_destination_is_down_burns_no_attempt
                a_waiting_row_that_somebody_else_delivered_is_taken
                an_unrouted_row_comes_back_with_the_next_owner
                a_row_that_was_unrouted_is_not_lost_when_it_waits_for_something_else
            }
            give_up {
                a_row_given_up_is_never_due
                a_row_given_up_and_put_back_is_read_again
                a_row_given_up_and_put_back_is_read_by_the_next_owner
                tries_of_an_earlier_owner_count
            }
            refused {
                a_delivered_row_that_cannot_be_updated_delays_no_other_and_is_not_read_again
                a_delivered_row_that_silently_stays_as_it_is_is_not_read_again
                some_of_many_delivered_rows_cannot_be_updated
                a_row_that_is_given_up_and_cannot_be_updated_is_not_read_again
                a_row_that_cannot_be_updated_from_the_begin_is_parked
                a_count_of_tries_at_the_end_of_its_column_stays_there
                rows_of_a_dead_owner_that_cannot_be_given_back_are_delivered_all_the_same
            }
            owners {
                a_released_lease_gives_its_rows_back
                the_rows_of_a_dead_owner_are_read_by_the_next
                an_owner_that_lost_its_lease_can_claim_nothing_more
                a_held_lease_is_not_granted
                rows_on_trial_are_remembered_and_read_first
                an_event_has_the_same_id_at_every_delivery
            }
            maintain {
                what_is_delivered_and_old_is_deleted_and_nothing_else
                what_others_delivered_stays_unless_it_is_asked_for
                the_overview_tells_what_waits_and_what_is_parked
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
