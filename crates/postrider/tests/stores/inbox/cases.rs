//! The list of all cases.

/// The tests of a database, each case by its own name.
macro_rules! inbox_tests {
    ($case:ty) => {
        $crate::inbox::cases::inbox_tests!($case: once
            an_effect_happens_once_under_32_concurrent_deliveries_and_rollbacks
            a_design_without_the_inbox_row_is_found_wrong
            a_second_group_has_its_own_effect
            a_duplicate_waits_for_the_first_and_applies_if_that_rolled_back
            the_inbox_is_part_of_the_callers_transaction);
        $crate::inbox::cases::inbox_tests!($case: crash
            a_consumer_lost_at_any_point_has_each_effect_once_after_redelivery);
        $crate::inbox::cases::inbox_tests!($case: expiry
            expired_rows_are_deleted_and_others_are_kept
            an_expired_row_still_recognises_a_duplicate_until_it_is_deleted);
        $crate::inbox::cases::inbox_tests!($case: names
            a_hostile_group_name_is_data_or_refused);
    };
    ($case:ty: $module:ident $($name:ident)+) => {
        mod $module {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    use $crate::inbox::case::InboxCase as _;
                    if let Some(case) = <$case>::new().await {
                        $crate::inbox::$module::$name(case).await;
                    }
                }
            )+
        }
    };
}
pub(crate) use inbox_tests;
