//! The conformance suite: the requirements that every backend must meet, one function each.
//!
//! A backend's test file defines a function that opens an empty store, and instantiates the suite with it:
//! `gatelodge_store::conformance!(open);`.
#![expect(missing_docs, reason = "the name of each case is a sentence")]
#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a suite fails by panicking")]

pub mod admin_log;
pub mod call_log;
pub mod change_feed;
pub mod counter_window;
pub mod grants;
pub mod hash_chain;
pub mod policies;
pub mod reservation;
pub mod reservation_races;
pub mod reservation_release;
pub mod servers;
pub mod sessions;
pub mod support;
pub mod task_owners;
pub mod tool_pins;

use std::any::Any;
use std::sync::Arc;

use crate::{AdminLog, ChangeFeed, Grants, Ledger, ManualClock, Policies, Servers, Sessions, TaskOwners, ToolPins};

/// All parts of an empty store.
pub struct ConformanceBackend {
    pub servers: Arc<dyn Servers>,
    pub tool_pins: Arc<dyn ToolPins>,
    pub sessions: Arc<dyn Sessions>,
    pub tasks: Arc<dyn TaskOwners>,
    pub policies: Arc<dyn Policies>,
    pub grants: Arc<dyn Grants>,
    pub admin_log: Arc<dyn AdminLog>,
    pub change_feed: Arc<dyn ChangeFeed>,
    pub ledger: Arc<dyn Ledger>,
    /// The store's clock, which starts at [`support::START_TIME`].
    pub clock: Arc<ManualClock>,
    /// Keeps the store's directory until the test ends.
    pub temp_dir_guard: Box<dyn Any + Send + Sync>,
}

/// Generates one test per case. Takes a function that opens an empty
/// [`ConformanceBackend`](crate::conformance::ConformanceBackend).
#[macro_export]
macro_rules! conformance {
    ($open:path) => {
        $crate::conformance! { $open =>
            servers::servers_are_listed_by_name;
            servers::a_second_server_of_a_name_is_a_conflict;
            servers::removing_a_server_detaches_it_from_grants;
            tool_pins::an_unlisted_server_differs_from_one_without_tools;
            tool_pins::pinned_definitions_stay_while_the_listed_ones_change;
            tool_pins::only_listed_definitions_are_accepted_all_or_none;
            tool_pins::the_first_listing_is_recorded_and_pinned_in_one_step;
            tool_pins::a_category_override_keeps_author_and_reason_until_cleared;
            sessions::a_session_is_found_by_its_id;
            sessions::subscriptions_are_stored_with_the_session;
            sessions::the_log_level_is_stored_with_the_session;
            sessions::a_deleted_session_is_gone_and_others_stay;
            sessions::unused_sessions_are_swept;
            sessions::a_session_writes_no_admin_entry_and_changes_no_version;
            task_owners::a_task_is_found_by_its_id;
            task_owners::a_task_stays_with_its_grant_until_it_expires;
            task_owners::tasks_of_a_grant_at_a_server_are_listed;
            task_owners::expired_tasks_are_swept;
            policies::each_put_makes_a_new_version;
            policies::a_missing_policy_is_not_found;
            policies::policies_are_listed_by_name_at_their_last_version;
            policies::concurrent_puts_get_different_versions;
            grants::a_grant_is_found_by_id_and_by_label;
            grants::a_label_can_be_reused_after_revocation;
            grants::a_token_belongs_to_one_grant;
            grants::rotation_changes_only_token_and_expiry;
            grants::a_revoked_grant_stays_revoked;
            grants::attaching_a_server_replaces_its_attachment;
            grants::changing_a_missing_grant_is_not_found;
            grants::grants_are_listed_by_label_and_then_by_age;
            admin_log::entries_are_listed_newest_first;
            admin_log::the_admin_log_chain_verifies;
            admin_log::concurrent_entries_make_one_chain;
            admin_log::raw_entries_have_verifiable_hashes;
            admin_log::each_change_writes_its_entry;
            admin_log::a_failed_change_writes_no_entry;
            change_feed::each_change_makes_a_new_version;
            change_feed::failed_changes_and_reads_keep_the_version;
            change_feed::a_waiter_is_notified_within_a_second;
            reservation::a_reservation_charges_and_writes_the_intent;
            reservation::all_charges_are_taken_or_none;
            reservation::the_first_exhausted_charge_is_named;
            reservation::an_exhausted_counter_writes_nothing;
            reservation::a_call_without_charges_only_writes_its_intent;
            reservation::decimal_amounts_are_exact;
            reservation::an_amount_above_the_limit_never_fits;
            reservation::a_changed_limit_keeps_the_usage;
            reservation::counters_with_different_keys_are_independent;
            reservation::counters_are_listed_by_key;
            reservation_races::concurrent_callers_take_exactly_the_limit;
            reservation_races::concurrent_callers_take_exactly_the_decimal_limit;
            reservation_races::concurrent_callers_take_two_counters_together;
            reservation_races::concurrent_reservations_and_releases_never_exceed_the_limit;
            reservation_release::a_release_refunds_and_writes_the_outcome;
            reservation_release::a_release_after_the_window_refunds_nothing;
            reservation_release::a_release_after_a_rolling_window_refunds_nothing;
            reservation_release::a_release_refunds_the_slot_of_its_charge;
            reservation_release::a_dropped_reservation_is_spent;
            reservation_release::an_abandoned_reservation_is_refunded;
            reservation_release::an_unread_reply_is_refunded;
            counter_window::a_calendar_day_ends_at_midnight;
            counter_window::windows_in_seconds_start_at_multiples_of_their_length;
            counter_window::a_week_starts_on_monday;
            counter_window::a_month_starts_on_its_first_day;
            counter_window::a_rolling_charge_expires_with_its_whole_slot;
            counter_window::a_rolling_window_reports_when_enough_has_expired;
            counter_window::a_clock_set_back_does_not_refill_a_window;
            counter_window::a_clock_briefly_ahead_does_not_refill_a_window;
            counter_window::a_rolling_window_does_not_move_back_with_the_clock;
            call_log::the_newest_rows_are_returned_oldest_first;
            call_log::each_filter_returns_only_matching_rows;
            call_log::a_record_is_read_as_it_was_written;
            call_log::raw_rows_come_in_pages_with_verifiable_hashes;
            call_log::raw_rows_begin_after_the_pruned_ones;
            hash_chain::the_chain_verifies_and_ends_at_its_head;
            hash_chain::a_known_head_verifies_and_a_foreign_one_fails;
            hash_chain::an_empty_log_verifies;
            hash_chain::pruning_leaves_an_anchor_and_a_row_about_it;
            hash_chain::pruning_again_moves_the_anchor;
            hash_chain::pruning_everything_keeps_the_chain;
            hash_chain::pruning_removes_only_older_rows;
            hash_chain::an_old_row_after_a_newer_one_stays;
        }
    };
    ($open:path => $($area:ident::$promise:ident;)+) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $promise() {
            $crate::conformance::$area::$promise(&$open()).await;
        }
    )+};
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_is_in_the_suite() {
        let suite = include_str!("conformance.rs");
        let areas = [
            ("admin_log", include_str!("conformance/admin_log.rs")),
            ("hash_chain", include_str!("conformance/hash_chain.rs")),
            ("grants", include_str!("conformance/grants.rs")),
            ("change_feed", include_str!("conformance/change_feed.rs")),
            ("policies", include_str!("conformance/policies.rs")),
            ("reservation_races", include_str!("conformance/reservation_races.rs")),
            ("reservation_release", include_str!("conformance/reservation_release.rs")),
            ("reservation", include_str!("conformance/reservation.rs")),
            ("call_log", include_str!("conformance/call_log.rs")),
            ("servers", include_str!("conformance/servers.rs")),
            ("sessions", include_str!("conformance/sessions.rs")),
            ("task_owners", include_str!("conformance/task_owners.rs")),
            ("tool_pins", include_str!("conformance/tool_pins.rs")),
            ("counter_window", include_str!("conformance/counter_window.rs")),
        ];
        for (area, text) in areas {
            for rest in text.split("pub async fn ").skip(1) {
                let promise = rest.split('(').next().expect("a name");
                assert!(suite.contains(&format!(" {area}::{promise};")), "{area}::{promise}");
            }
        }
    }
}
