//! What every backend owes, one function a promise.
//!
//! A backend's test file has a function that opens it, and names the suite: `gatelodge_store::conformance!(open);`.
#![expect(missing_docs, reason = "the names of the promises are sentences")]
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

/// An empty store, all of its parts.
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
    /// The clock that the store follows; it stands at [`support::START_TIME`].
    pub clock: Arc<ManualClock>,
    /// What has to live as long: a directory.
    pub temp_dir_guard: Box<dyn Any + Send + Sync>,
}

/// Makes one test of each promise. Takes a function that opens an empty [`ConformanceBackend`](crate::conformance::Backend).
#[macro_export]
macro_rules! conformance {
    ($open:path) => {
        $crate::conformance! { $open =>
            servers::servers_are_listed_by_name;
            servers::a_second_server_of_a_name_is_a_conflict;
            servers::a_removed_server_is_gone_and_grants_lose_it;
            tool_pins::an_unlisted_server_differs_from_one_without_tools;
            tool_pins::what_is_accepted_stays_while_the_offer_changes;
            tool_pins::only_what_is_offered_is_accepted_all_or_nothing;
            tool_pins::what_is_offered_first_is_accepted_in_the_same_step;
            tool_pins::a_category_override_keeps_author_and_reason_until_cleared;
            sessions::a_session_is_found_by_its_id_as_it_was_put;
            sessions::what_a_session_listens_for_is_kept_with_it;
            sessions::which_log_messages_a_session_wants_is_kept_with_it;
            sessions::a_forgotten_session_is_gone_and_others_stay;
            sessions::unused_sessions_are_swept;
            sessions::a_session_leaves_no_entry_and_no_new_version;
            task_owners::a_task_is_found_by_its_id_as_it_was_put;
            task_owners::a_task_stays_with_its_grant_until_it_expires;
            task_owners::tasks_of_a_grant_at_a_server_are_listed;
            task_owners::tasks_that_have_expired_are_swept;
            policies::each_put_makes_a_new_version;
            policies::a_policy_that_is_not_there_is_not_found;
            policies::policies_are_listed_by_name_at_their_last_version;
            policies::concurrent_puts_have_different_versions;
            grants::a_grant_is_found_by_id_and_by_label;
            grants::a_label_is_free_again_after_revoking;
            grants::a_token_belongs_to_one_grant;
            grants::a_rotated_grant_keeps_all_but_token_and_expiry;
            grants::a_revoked_grant_stays_revoked;
            grants::attaching_replaces_what_the_grant_had_for_the_server;
            grants::what_is_done_to_a_missing_grant_is_not_found;
            grants::grants_are_listed_by_label_and_then_by_age;
            admin_log::entries_come_back_newest_first;
            admin_log::the_chain_of_changes_verifies;
            admin_log::concurrent_entries_make_one_chain;
            admin_log::raw_entries_have_verifiable_hashes;
            admin_log::each_change_brings_its_entry;
            admin_log::what_changes_nothing_leaves_no_entry;
            change_feed::each_change_makes_another_version;
            change_feed::what_fails_or_reads_keeps_the_version;
            change_feed::a_listener_hears_of_a_change_within_a_second;
            reservation::a_reservation_charges_and_writes_the_intent;
            reservation::all_charges_are_taken_or_none;
            reservation::the_first_exhausted_charge_is_named;
            reservation::a_full_counter_writes_nothing;
            reservation::a_call_without_charges_is_only_written;
            reservation::decimal_amounts_are_exact;
            reservation::an_amount_above_the_limit_never_fits;
            reservation::another_limit_meets_what_was_used;
            reservation::counters_with_different_keys_are_independent;
            reservation::counters_are_listed_by_key;
            reservation_races::exactly_the_limit_is_taken_however_many_try;
            reservation_races::exactly_the_decimal_limit_is_taken_however_many_try;
            reservation_races::two_counters_are_taken_together_however_many_try;
            reservation_races::reservations_and_releases_at_once_never_overshoot;
            reservation_release::a_release_refunds_and_writes_the_outcome;
            reservation_release::a_release_after_the_window_refunds_nothing;
            reservation_release::a_release_after_a_rolling_window_refunds_nothing;
            reservation_release::a_release_refunds_the_slot_of_its_charge;
            reservation_release::a_reservation_that_is_only_dropped_is_spent;
            reservation_release::an_abandoned_reservation_is_refunded;
            reservation_release::an_unread_reply_is_refunded;
            counter_window::a_calendar_day_ends_at_midnight;
            counter_window::seconds_begin_at_their_multiples;
            counter_window::a_week_begins_on_monday;
            counter_window::a_month_begins_on_the_first;
            counter_window::a_rolling_charge_leaves_with_its_whole_slot;
            counter_window::a_rolling_window_says_when_enough_has_left;
            counter_window::a_clock_that_goes_back_does_not_refill;
            counter_window::a_clock_that_was_ahead_for_a_moment_does_not_refill;
            counter_window::a_rolling_window_does_not_go_back_with_the_clock;
            call_log::rows_come_oldest_first_and_only_the_newest;
            call_log::each_filter_admits_its_rows_alone;
            call_log::a_record_comes_back_as_it_was_written;
            call_log::raw_rows_come_in_pages_with_verifiable_hashes;
            call_log::raw_rows_begin_after_the_pruned_ones;
            hash_chain::the_chain_verifies_and_ends_at_its_head;
            hash_chain::a_known_head_verifies_and_a_foreign_one_fails;
            hash_chain::an_empty_log_verifies;
            hash_chain::removed_rows_leave_an_anchor_and_a_row_that_says_so;
            hash_chain::removing_again_moves_the_anchor;
            hash_chain::removing_everything_keeps_the_chain;
            hash_chain::where_nothing_is_old_nothing_is_removed;
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
    fn every_promise_is_in_the_suite() {
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
