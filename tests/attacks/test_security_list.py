"""What a service must withstand, line by line, and the tests that try it; every test that is named here is there.

The first list is that of the service's security, the second that of attacks that succeed on Lomas 0.4, the third that
of the channels that depend on rows, each with its rule.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PEOPLE, TRAFFIC = "conformance/service/test_people.py", "conformance/service/test_queue.py"
SHARED = "conformance/service/test_service.py"
IDENTITY, PROTECTION = "unit/server/test_auth.py", "unit/server/test_middleware.py"
ROUTES, QUESTIONS = "unit/server/test_routes.py", "unit/server/test_questions.py"
OWNING, AUDIT = "unit/server/test_pages_owner.py", "unit/server/test_monitoring.py"
SERVE, ATTACKS, OIDC = "e2e/test_cli_serve.py", "attacks/test_service.py", "attacks/test_oidc.py"
MCP = "attacks/test_mcp.py"
WORK, DOOR = "attacks/test_priced_work.py", "unit/server/test_pgwire.py"
PAGE, OWNER = "browser/test_page.py", "browser/test_owner.py"
SECRECY, RELEASES = "statistical/test_service_secrecy.py", "statistical/test_release_secrecy.py"

SECURITY = {
    "session ids of 256 bits, stored as hashes": [f"{PEOPLE}::test_secrets_are_random_and_stored_as_hashes_alone"],
    "sessions are new at every sign-in": [
        f"{IDENTITY}::test_a_session_is_new_at_every_sign_in_and_ends_with_signing_out"
    ],
    "sessions end when idle for 30 minutes, and after 12 hours": [
        f"{PEOPLE}::test_sessions_end_when_idle_and_in_any_case"
    ],
    "sessions can be revoked, on all workers": [
        f"{PEOPLE}::test_revoking_holds_for_all_workers_at_once",
        f"{IDENTITY}::test_sessions_can_be_ended_elsewhere",
    ],
    "__Host- cookie, HttpOnly, SameSite": [f"{IDENTITY}::test_the_cookie_is_bound_to_the_host_where_there_is_https"],
    "beyond loopback only with TLS or --behind-proxy": [f"{SERVE}::test_beyond_this_machine_only_with_tls"],
    "no other site can act: Sec-Fetch-Site, Origin, form token": [
        f"{IDENTITY}::test_other_sites_cannot_make_a_browser_ask"
    ],
    "CSP with Trusted Types, COOP, CORP, nosniff, no-referrer, no-store on every route and status": [
        f"{PROTECTION}::test_every_route_and_status_has_the_headers",
        f"{PAGE}::test_all_pages",
        f"{OWNER}::test_owners_pages",
        f"{OWNER}::test_from_an_empty_folder_to_the_first_answer_in_ten_clicks",
    ],
    "keys like <img onerror>, U+202E and =cmd() arrive as text": [
        f"{ATTACKS}::test_keys_that_are_code_arrive_as_text",
        f"{ROUTES}::test_refusals_are_pages_to_browsers_and_problems_to_programs",
    ],
    "tokens are shown once, scoped, expire, and are never in a URL": [
        f"{IDENTITY}::test_a_token_is_shown_once_and_is_for_no_more_than_its_maker",
        f"{IDENTITY}::test_a_token_in_a_url_is_not_looked_at",
        f"{IDENTITY}::test_a_token_makes_none_that_lives_longer",
        f"{PEOPLE}::test_tokens_expire_and_have_scopes",
    ],
    "equal answers and times for unknown names": [
        f"{IDENTITY}::test_unknown_names_and_wrong_passwords_read_alike",
        f"{IDENTITY}::test_guessing_is_slowed_down_for_names_that_are_there_and_not",
        f"{PEOPLE}::test_a_name_that_nobody_has_takes_the_same_work",
        f"{ROUTES}::test_others_answers_read_like_none",
    ],
    "the analyst's name comes from the session only": [f"{ATTACKS}::test_a_header_names_nobody"],
    "one table of routes and roles, deny by default": [
        f"{ROUTES}::test_every_route_of_the_application_is_in_the_table",
        f"{ROUTES}::test_nobody_gets_in_without_being_signed_in",
        f"{ROUTES}::test_a_bad_token_is_refused_everywhere_and_never_nobody",
        f"{ROUTES}::test_roles_and_scopes",
    ],
    "rate limits are exact across workers": [
        f"{TRAFFIC}::test_rates_are_exact_across_workers",
        f"{SHARED}::test_two_workers_share_people_queue_and_rates",
    ],
    "bodies of 64 KB at most, no zip bomb, no slowloris": [
        f"{PROTECTION}::test_bodies_are_small_plain_and_come_in_time",
        f"{PROTECTION}::test_a_body_that_trickles_is_refused",
        f"{PROTECTION}::test_heads_that_trickle_and_what_is_not_http",
    ],
    "connections, cursors and requests are bounded": [
        f"{PROTECTION}::test_a_body_that_nobody_reads_does_not_hold_the_connection",
        f"{PROTECTION}::test_an_address_has_so_many_connections_and_others_come",
        f"{PROTECTION}::test_who_takes_nothing_is_not_waited_for",
        f"{PROTECTION}::test_a_length_that_is_said_twice_is_refused",
        f"{DOOR}::test_silent_connections_do_not_shut_the_door",
        f"{DOOR}::test_what_cursors_and_portals_keep_is_bounded",
        "unit/ledger/test_allowances.py::test_requests_that_wait_are_bounded_in_number_and_size",
    ],
    "audit, backup and quotas": [
        f"{AUDIT}::test_everything_done_and_every_failed_sign_in_is_exported_as_lines",
        f"{AUDIT}::test_a_flood_of_failures_is_counted_in_bounded_room",
        "unit/server/test_backup.py::test_a_backup_is_one_moment_and_is_put_back_whole",
        "unit/server/test_backup.py::test_going_back_needs_the_owners_word",
        f"{QUESTIONS}::test_a_full_disk_and_a_quota_refuse_before_the_charge",
    ],
    "guesses lock nobody out, and tokens end no more than they are for": [
        f"{IDENTITY}::test_wrong_passwords_keep_nobody_out_who_signed_in_here_before",
        f"{IDENTITY}::test_a_token_ends_nothing_that_is_for_more_than_itself",
    ],
    "no uploads: data are files beside the policy": [f"{OWNING}::test_files_beside_the_policy_alone_are_read"],
    "language models do what their token may, whatever they are told": [
        f"{MCP}::test_a_model_lists_explains_asks_and_shows",
        f"{MCP}::test_an_answer_that_cannot_be_paid_for_is_refused",
        f"{MCP}::test_a_token_to_read_cannot_ask_and_none_cannot_look",
        f"{MCP}::test_forty_hostile_instructions_change_nothing",
    ],
    "one question in flight for each person": [
        f"{QUESTIONS}::test_one_question_at_a_time_for_each_person",
        f"{TRAFFIC}::test_nobody_has_two_questions_at_work",
    ],
    "a bounded queue, and a time limit": [
        f"{TRAFFIC}::test_the_queue_and_everybodys_part_of_it_are_bounded",
        f"{QUESTIONS}::test_a_full_queue_refuses_and_a_cancelled_wait_charges_nothing",
        f"{QUESTIONS}::test_a_question_past_its_limit_is_ended_charged_and_told_like_any_failure",
    ],
    "a limit of work before the charge, that can be cancelled": [
        f"{WORK}::test_a_price_that_takes_too_long_is_refused",
        f"{WORK}::test_a_price_that_doubled_with_every_part_does_not",
        f"{WORK}::test_parts_that_use_each_other_twice_do_not_double_the_work",
        f"{QUESTIONS}::test_pricing_has_a_limit_of_work",
        f"{QUESTIONS}::test_what_is_priced_can_be_cancelled",
        f"{QUESTIONS}::test_nobody_explains_more_than_two_things_at_once",
    ],
    "the audit is chained with the ledger": [
        f"{AUDIT}::test_what_is_done_over_the_network_is_told_with_who_did_it",
        f"{PEOPLE}::test_every_act_waits_for_the_ledger_and_goes_there_once",
    ],
    "state in the stores, none in workers": [
        f"{IDENTITY}::test_any_worker_goes_on_where_another_began",
        f"{SHARED}::test_two_workers_share_people_queue_and_rates",
        f"{SERVE}::test_a_killed_worker_loses_nothing_that_was_paid_for",
    ],
    "X-Forwarded only from listed addresses": [f"{SERVE}::test_forwarded_headers_are_believed_of_listed_proxies_alone"],
    "no SSRF by data paths or issuers": [
        f"{OWNING}::test_the_page_opens_no_other_place",
        f"{OIDC}::test_a_provider_that_names_other_places_is_not_asked",
        f"{OIDC}::test_redirects_of_the_provider_are_not_followed",
    ],
    "canary values of rows in no log, metric, error or export": [
        f"{ATTACKS}::test_values_of_rows_leak_nowhere",
        f"{ATTACKS}::test_exports_show_no_value_of_a_row",
        f"{SECRECY}::test_questions_without_an_answer_end_alike",
    ],
}
LOMAS = {
    "identity by a header": [f"{ATTACKS}::test_a_header_names_nobody"],
    "free questions by failing after the read": [f"{ATTACKS}::test_failing_after_the_read_is_not_free"],
    "error texts with values of rows": [f"{ATTACKS}::test_values_of_rows_leak_nowhere"],
    "a lock that a killed worker leaves": [f"{TRAFFIC}::test_a_killed_worker_leaves_no_lock"],
    "pooled users": [f"{ATTACKS}::test_pooled_analysts_cannot_overspend_the_data"],
    "an open admin page": [f"{ATTACKS}::test_there_is_no_open_admin_page"],
}
CHANNELS = {
    "progress: place in the queue, never how far a scan got": [f"{QUESTIONS}::test_others_cannot_cancel_or_see_it"],
    "cancel: ends at the slot, charged, thrown away": [
        f"{QUESTIONS}::test_cancelling_never_shows_how_far_it_got",
        f"{QUESTIONS}::test_a_cancel_shortly_before_the_slot_ends_the_question_there",
        f"{SECRECY}::test_cancelled_questions_end_alike_whether_they_were_ready_or_not",
    ],
    "time: outcomes leave at slots": [
        f"{QUESTIONS}::test_outcomes_leave_and_are_recorded_at_slots",
        f"{SECRECY}::test_with_slots_nothing_tells_neighbouring_data_apart",
        f"{RELEASES}::test_with_slots_nothing_tells_neighbouring_data_apart",
    ],
    "metrics and logs": [
        f"{ATTACKS}::test_there_is_no_open_admin_page",
        f"{PROTECTION}::test_the_log_has_routes_and_no_secrets",
    ],
}


@cache
def _tests_in(path: str) -> frozenset[str]:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(
    ("line", "tests"), [*SECURITY.items(), *LOMAS.items(), *CHANNELS.items()], ids=lambda given: str(given)[:60]
)
def test_every_line_has_its_tests(line: str, tests: list[str]) -> None:
    assert tests, line
    for name in tests:
        path, _, function = name.partition("::")
        assert function in _tests_in(path), name
