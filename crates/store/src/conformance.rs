//! The conformance suite: the requirements that every backend must meet, one function each.
//!
//! A backend's test file defines an async function that opens an empty store, and instantiates the suite with it:
//! `gatelodge_store::conformance!(open);`.
#![expect(missing_docs, reason = "the name of each case is a sentence")]
#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a suite fails by panicking")]

pub mod admin_log_conformance;
pub mod call_log_conformance;
pub mod change_feed_conformance;
pub mod conformance_support;
pub mod counter_window_conformance;
pub mod grant_conformance;
pub mod hash_chain_conformance;
pub mod policy_conformance;
pub mod reservation_conformance;
pub mod reservation_race_conformance;
pub mod reservation_release_conformance;
pub mod server_conformance;
pub mod session_conformance;
pub mod task_owner_conformance;
pub mod tool_pin_conformance;

use std::any::Any;
use std::sync::Arc;

use crate::{ManualClock, Store};

/// An empty store of a backend.
pub struct ConformanceBackend {
    pub store: Store,
    /// The store's clock, which starts at [`conformance_support::START_TIME`].
    pub clock: Arc<ManualClock>,
    /// Keeps the store's directory until the test ends.
    pub temp_dir_guard: Box<dyn Any + Send + Sync>,
}

/// Generates one test per case. Takes an async function that opens an empty
/// [`ConformanceBackend`](crate::conformance::ConformanceBackend).
#[macro_export]
macro_rules! conformance {
    ($open:path) => {
        $crate::conformance! { $open =>
            server_conformance::servers_are_listed_by_name;
            server_conformance::a_second_server_of_a_name_is_a_conflict;
            server_conformance::removing_a_server_detaches_it_from_grants;
            tool_pin_conformance::an_unlisted_server_differs_from_one_without_tools;
            tool_pin_conformance::pinned_definitions_stay_while_the_listed_ones_change;
            tool_pin_conformance::only_listed_definitions_are_accepted_all_or_none;
            tool_pin_conformance::an_unlisted_server_stays_unlisted_when_its_tools_are_accepted;
            tool_pin_conformance::the_first_listing_is_recorded_and_pinned_in_one_step;
            tool_pin_conformance::a_category_override_keeps_author_and_reason_until_cleared;
            session_conformance::a_session_is_found_by_its_id;
            session_conformance::subscriptions_are_stored_with_the_session;
            session_conformance::the_log_level_is_stored_with_the_session;
            session_conformance::a_deleted_session_is_gone_and_others_stay;
            session_conformance::unused_sessions_are_swept;
            session_conformance::a_session_writes_no_admin_entry_and_changes_no_version;
            task_owner_conformance::a_task_is_found_by_its_id;
            task_owner_conformance::a_task_stays_with_its_grant_until_it_expires;
            task_owner_conformance::tasks_of_a_grant_at_a_server_are_listed;
            task_owner_conformance::expired_tasks_are_swept;
            policy_conformance::each_put_makes_a_new_version;
            policy_conformance::a_missing_policy_is_not_found;
            policy_conformance::policies_are_listed_by_name_at_their_last_version;
            policy_conformance::concurrent_puts_get_different_versions;
            grant_conformance::a_grant_is_found_by_id_and_by_label;
            grant_conformance::a_label_can_be_reused_after_revocation;
            grant_conformance::a_token_belongs_to_one_grant;
            grant_conformance::rotation_changes_only_token_and_expiry;
            grant_conformance::a_revoked_grant_stays_revoked;
            grant_conformance::attaching_a_server_replaces_its_attachment;
            grant_conformance::changing_a_missing_grant_is_not_found;
            grant_conformance::grants_are_listed_by_label_and_then_by_age;
            admin_log_conformance::entries_are_listed_newest_first;
            admin_log_conformance::the_admin_log_chain_verifies;
            admin_log_conformance::concurrent_entries_make_one_chain;
            admin_log_conformance::raw_entries_have_verifiable_hashes;
            admin_log_conformance::each_change_writes_its_entry;
            admin_log_conformance::a_failed_change_writes_no_entry;
            change_feed_conformance::each_change_makes_a_new_version;
            change_feed_conformance::failed_changes_and_reads_keep_the_version;
            change_feed_conformance::a_waiter_is_notified_within_a_second;
            reservation_conformance::a_reservation_charges_and_writes_the_intent;
            reservation_conformance::all_charges_are_taken_or_none;
            reservation_conformance::the_first_exhausted_charge_is_named;
            reservation_conformance::an_exhausted_counter_writes_nothing;
            reservation_conformance::a_call_without_charges_only_writes_its_intent;
            reservation_conformance::decimal_amounts_are_exact;
            reservation_conformance::an_amount_above_the_limit_never_fits;
            reservation_conformance::a_changed_limit_keeps_the_usage;
            reservation_conformance::counters_with_different_keys_are_independent;
            reservation_conformance::counters_are_listed_by_key;
            reservation_race_conformance::concurrent_callers_take_exactly_the_limit;
            reservation_race_conformance::concurrent_callers_take_exactly_the_decimal_limit;
            reservation_race_conformance::concurrent_callers_take_two_counters_together;
            reservation_race_conformance::concurrent_reservations_and_releases_never_exceed_the_limit;
            reservation_release_conformance::a_release_refunds_and_writes_the_outcome;
            reservation_release_conformance::a_release_after_the_window_refunds_nothing;
            reservation_release_conformance::a_release_after_a_rolling_window_refunds_nothing;
            reservation_release_conformance::a_release_refunds_the_slot_of_its_charge;
            reservation_release_conformance::a_dropped_reservation_is_spent;
            reservation_release_conformance::an_abandoned_reservation_is_refunded;
            reservation_release_conformance::an_unread_reply_is_refunded;
            counter_window_conformance::a_calendar_day_ends_at_midnight;
            counter_window_conformance::windows_in_seconds_start_at_multiples_of_their_length;
            counter_window_conformance::a_week_starts_on_monday;
            counter_window_conformance::a_month_starts_on_its_first_day;
            counter_window_conformance::a_rolling_charge_expires_with_its_whole_slot;
            counter_window_conformance::a_rolling_window_reports_when_enough_has_expired;
            counter_window_conformance::a_clock_set_back_does_not_refill_a_window;
            counter_window_conformance::a_clock_briefly_ahead_does_not_refill_a_window;
            counter_window_conformance::a_rolling_window_does_not_move_back_with_the_clock;
            call_log_conformance::the_newest_rows_are_returned_oldest_first;
            call_log_conformance::each_filter_returns_only_matching_rows;
            call_log_conformance::a_record_is_read_as_it_was_written;
            call_log_conformance::a_healthy_ledger_counts_no_errors;
            call_log_conformance::raw_rows_come_in_pages_with_verifiable_hashes;
            call_log_conformance::raw_rows_begin_after_the_pruned_ones;
            hash_chain_conformance::the_chain_verifies_and_ends_at_its_head;
            hash_chain_conformance::a_known_head_verifies_and_a_foreign_one_fails;
            hash_chain_conformance::an_empty_log_verifies;
            hash_chain_conformance::pruning_leaves_an_anchor_and_a_row_about_it;
            hash_chain_conformance::pruning_again_moves_the_anchor;
            hash_chain_conformance::pruning_everything_keeps_the_chain;
            hash_chain_conformance::pruning_removes_only_older_rows;
            hash_chain_conformance::an_old_row_after_a_newer_one_stays;
        }
    };
    ($open:path => $($area:ident::$promise:ident;)+) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $promise() {
            $crate::conformance::$area::$promise(&$open().await).await;
        }
    )+};
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_is_in_the_suite() {
        let suite = include_str!("conformance.rs");
        let areas = [
            ("admin_log_conformance", include_str!("conformance/admin_log_conformance.rs")),
            ("hash_chain_conformance", include_str!("conformance/hash_chain_conformance.rs")),
            ("grant_conformance", include_str!("conformance/grant_conformance.rs")),
            ("change_feed_conformance", include_str!("conformance/change_feed_conformance.rs")),
            ("policy_conformance", include_str!("conformance/policy_conformance.rs")),
            ("reservation_race_conformance", include_str!("conformance/reservation_race_conformance.rs")),
            ("reservation_release_conformance", include_str!("conformance/reservation_release_conformance.rs")),
            ("reservation_conformance", include_str!("conformance/reservation_conformance.rs")),
            ("call_log_conformance", include_str!("conformance/call_log_conformance.rs")),
            ("server_conformance", include_str!("conformance/server_conformance.rs")),
            ("session_conformance", include_str!("conformance/session_conformance.rs")),
            ("task_owner_conformance", include_str!("conformance/task_owner_conformance.rs")),
            ("tool_pin_conformance", include_str!("conformance/tool_pin_conformance.rs")),
            ("counter_window_conformance", include_str!("conformance/counter_window_conformance.rs")),
        ];
        for (area, text) in areas {
            for rest in text.split("pub async fn ").skip(1) {
                let promise = rest.split('(').next().expect("a name");
                assert!(suite.contains(&format!(" {area}::{promise};")), "{area}::{promise}");
            }
        }
    }
}
