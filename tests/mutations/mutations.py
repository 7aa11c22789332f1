"""Mutations of lines that guarantees depend on, each with the test that must fail."""

from __future__ import annotations

from dataclasses import dataclass

TESTS = "tests/integration/checkpoints"
FENCES = f"{TESTS}/versions/test_fences.py"


@dataclass(frozen=True)
class Mutation:
    """`old` stands in `file` exactly once; with `new` in its place `promise` is broken, and `test` fails."""

    promise: str
    file: str
    old: str
    new: str
    test: str

    def __str__(self) -> str:
        return self.promise


MUTATIONS = [
    Mutation(
        "one live call for each key",
        "checkpoints/migrations/0001_initial.py",
        'fields=("session", "idempotency_key"),',
        'fields=("session", "idempotency_key", "call_id"),',
        f"{TESTS}/tools/test_dispatch.py::test_same_call_is_replayed_unchanged",
    ),
    Mutation(
        "a used decision stays",
        "checkpoints/decisions/decision_withdrawal.py",
        "bool(given_at_gate or call.replay_count",
        "bool(call.replay_count",
        f"{TESTS}/decisions/test_withdraw.py::test_decision_is_used_by_a_run_that_passed_the_gate",
    ),
    Mutation(
        "what the transcript answers is history",
        "checkpoints/db/hot_statements.py",
        "SET {_quote_call_column('answered_version')} = {version}, ",
        "SET {_quote_call_column('answered_version')} = NULL, ",
        f"{TESTS}/tools/test_unanswered.py::test_result_of_an_earlier_call_may_be_saved_without_a_dispatch",
    ),
    Mutation(
        "what is not answered is not done twice",
        "checkpoints/store/replayed_call_matching.py",
        "self._find_next_unpaired(kind, call_id)\n                or self._create_operation_with_next_free_key",
        "self._create_operation_with_next_free_key",
        f"{TESTS}/tools/test_unanswered.py::test_operation_survives_two_crashes_with_new_ids",
    ),
    Mutation(
        "what nobody has decided is not answered",
        "checkpoints/store/replayed_call_matching.py",
        "if operation.rows & self._unsettled:",
        "if False:",
        f"{TESTS}/tools/test_unanswered.py::test_message_about_the_approval_does_not_answer_the_call",
    ),
    Mutation(
        "a save names the fence",
        "checkpoints/db/hot_statements.py",
        '        "fence": base.fence,\n',
        "",
        f"{FENCES}::test_save_under_a_fence_that_has_grown_is_refused",
    ),
    Mutation(
        "an intent names the fence",
        "checkpoints/db/hot_statements.py",
        "{_quote_session_column('fence')} = %s \"\n        f\"AND {_quote_session_column('status')} IN",
        "{_quote_session_column('fence')} >= %s \"\n        f\"AND {_quote_session_column('status')} IN",
        f"{FENCES}::test_intent_under_a_fence_that_has_grown_is_refused",
    ),
    Mutation(
        "an outcome names the fence",
        "checkpoints/db/hot_statements.py",
        '{_quote_session_column(\'fence\')} = %s "\n        f"{_build_head_seal_condition_sql(is_sealed)}"\n',
        '{_quote_session_column(\'fence\')} >= %s "\n        f"{_build_head_seal_condition_sql(is_sealed)}"\n',
        f"{FENCES}::test_outcome_under_a_fence_that_has_grown_is_refused",
    ),
    Mutation(
        "a settled call is not settled again",
        "checkpoints/db/hot_statements.py",
        "AND {_quote_call_column('status')} = %s AND",
        "AND {_quote_call_column('status')} || 'x' <> %s AND",
        f"{TESTS}/calls/test_call_log.py::test_second_result_changes_nothing",
    ),
    Mutation(
        "the intent is durable before the effect",
        "checkpoints/tools/run_call_and_record_outcome.py",
        "    execution: Execution | ToolResult = yield from log.issue_or_answer_call_flow(request, wait_options)\n",
        "    early = yield Invoke(request.tool.run, bound_args, request.tool.timeout)\n"
        "    request = replace(request, tool=replace(request.tool, run=lambda **_: early))\n"
        "    execution: Execution | ToolResult = yield from log.issue_or_answer_call_flow(request, wait_options)\n",
        "tests/concurrency/test_killed_calls.py::test_killed_inside_the_call_leaves_the_outcome_unknown",
    ),
    Mutation(
        "a check that finds no effect proves nothing while the tool runs",
        "checkpoints/decisions/ask_verify_hooks.py",
        "    if was_running and isinstance(answer, NotLanded):\n",
        "    if False:\n",
        f"{TESTS}/tools/test_tools_that_outlive_their_dispatch.py"
        "::test_hook_that_finds_nothing_does_not_settle_a_timed_out_call_that_still_runs",
    ),
    Mutation(
        "what a lost run had issued is unknown",
        "checkpoints/sessions/take_and_release_ownership.py",
        '        _interrupt_or_discard_orphaned_calls(store, row, run, f"run {run.number}")\n',
        "",
        "tests/concurrency/test_killed_calls.py::test_killed_inside_the_call_leaves_the_outcome_unknown",
    ),
    Mutation(
        "an error that leaves it open is not a failure",
        "checkpoints/tools/run_call_and_record_outcome.py",
        "if not tool.logged or not tool.leaves_outcome_unknown(error):",
        "if True:",
        f"{TESTS}/tools/test_outcomes.py::test_ambiguous_error_needs_review_and_never_runs_again",
    ),
    Mutation(
        "an unknown outcome blocks the resume",
        "checkpoints/resume/resume_gate.py",
        "        if not undecided_calls:\n"
        "            if (yield Transact(lambda: try_activate_session_after_decisions(store, owned_session))):",
        "        if True:\n            if True:",
        f"{TESTS}/resume/test_gate.py::test_undecided_call_refuses_the_run_and_releases_the_session",
    ),
    Mutation(
        "a run that stands at the gate writes nothing",
        "checkpoints/store/look_up_and_lock_rows.py",
        "    if owned_session.at_gate:\n",
        "    if False:\n",
        f"{TESTS}/sessions/test_open_session.py::test_run_at_the_gate_cannot_write",
    ),
    Mutation(
        "an effect that nobody logs does not happen",
        "checkpoints/tools/dispatch_registered_call.py",
        "    if registry.unlogged and not tool.requires_approval:",
        "    if not tool.requires_approval:",
        f"{TESTS}/tools/test_dispatch.py::test_registry_without_a_session_runs_nothing_that_has_side_effects",
    ),
    Mutation(
        "a call is decided about only when its run is gone",
        "checkpoints/sessions/take_and_release_ownership.py",
        " or run_liveness_check.is_run_alive(call.run):\n        return call\n",
        ":\n        return call\n",
        f"{TESTS}/decisions/test_calls_of_dead_runs.py::test_call_of_a_live_run_is_not_decided",
    ),
    Mutation(
        "an unknown outcome blocks other effects",
        "checkpoints/calls/intent_log.py",
        "if unknown and intent.has_side_effects:",
        "if False:",
        f"{TESTS}/tools/test_dispatch.py::test_mutating_call_is_blocked_by_the_review_of_another",
    ),
    Mutation(
        "a decision is about the revision that was seen",
        "checkpoints/decisions/decide.py",
        "if call.revision != revision:",
        "if False:",
        f"{TESTS}/decisions/test_refused_decisions.py::test_stale_revision_error_names_both_revisions",
    ),
    Mutation(
        "an approval is about the arguments that were seen",
        "checkpoints/calls/intent_log.py",
        "        call.args_digest == intent.args_digest\n",
        "        True\n",
        f"{TESTS}/decisions/test_decide.py::test_approved_rerun_does_not_apply_to_other_arguments",
    ),
    Mutation(
        "an approval of a re-run is used up",
        "checkpoints/calls/intent_log.py",
        "status=call_transitions_by_agent_or_system.RERUN.after, settled_at",
        "status=call_transitions_by_agent_or_system.RERUN.before, settled_at",
        f"{TESTS}/calls/test_late_results.py::test_result_of_a_lost_run_does_not_settle_the_attempt_of_the_next",
    ),
    Mutation(
        "a used approval that a lookup finds unused is refused",
        "checkpoints/calls/intent_log.py",
        "**changes) != 1:",
        "**changes) > 1:",
        f"{TESTS}/calls/test_used_approvals.py::test_used_approval_that_a_lookup_finds_unused_runs_nothing",
    ),
    Mutation(
        "an approval is used up",
        "checkpoints/calls/intent_log.py",
        "status=call_transitions_by_agent_or_system.BEGIN.after,\n",
        "status=call_transitions_by_agent_or_system.BEGIN.before,\n",
        f"{TESTS}/decisions/test_approvals.py::test_approved_call_runs_once",
    ),
    Mutation(
        "four eyes are those of two people",
        "checkpoints/decisions/decide.py",
        "    if person in people:",
        "    if False:",
        f"{TESTS}/decisions/test_approvals.py::test_two_approvals_are_required",
    ),
    Mutation(
        "a voice counts while its person may decide",
        "checkpoints/decisions/decide.py",
        " if voters[decision.pk].counts\n",
        "\n",
        f"{TESTS}/decisions/test_approvals.py::test_vote_counts_while_its_voter_may_decide",
    ),
    Mutation(
        "a token has the voice of its owner",
        "checkpoints/decisions/actors.py",
        "return self.owner or self.name",
        "return self.name",
        f"{TESTS}/decisions/test_approvals.py::test_token_of_a_voter_cannot_vote_again",
    ),
    Mutation(
        "who changed the arguments does not approve them",
        "checkpoints/decisions/decide.py",
        "person in _find_people_who_edited(decisions, voters):",
        "False:",
        f"{TESTS}/decisions/test_approvals.py::test_editor_of_the_arguments_cannot_approve_them",
    ),
    Mutation(
        "an agent does not decide about itself",
        "checkpoints/decisions/actors.py",
        "if self.kind in {ActorKind.PERSON, ActorKind.TOKEN} and self.role not in _DECIDING_ROLES:",
        "if self.kind == ActorKind.PERSON and self.role not in _DECIDING_ROLES:",
        f"{TESTS}/decisions/test_refused_decisions.py"
        "::test_invalid_decision_of_each_kind_is_refused[token without a role]",
    ),
    Mutation(
        "a deadline never approves",
        "checkpoints/decisions/decide.py",
        "if read_database_time(store.using) > call.deadline:",
        "if False:",
        f"{TESTS}/decisions/test_approvals.py::test_passed_deadline_does_not_approve",
    ),
    Mutation(
        "a lease ends by the clock of the database",
        "checkpoints/store/run_liveness_check.py",
        'return run.lease_expires_at > (now or read_database_time(run._state.db or "default"))',
        'return run.lease_expires_at > __import__("checkpoints.db.clock").clock.now()',
        f"{TESTS}/sessions/test_database_clock.py",
    ),
    Mutation(
        "a live owner keeps its session",
        "checkpoints/sessions/take_and_release_ownership.py",
        "    if alive and not takeover:\n",
        "    if False:\n",
        f"{TESTS}/sessions/test_take_and_release_ownership.py::test_session_of_a_live_run_is_busy",
    ),
    Mutation(
        "a finished session gives its result",
        "checkpoints/resume/resume_point_of_finished_session.py",
        "        if not session.finished:\n            return None\n",
        "        if True:\n            return None\n",
        f"{TESTS}/sessions/test_finish_session.py::test_finished_session_returns_its_result",
    ),
    Mutation(
        "an append without a run leaves a living run alone",
        "checkpoints/sessions/append_without_lease.py",
        "    if run_liveness_check.is_run_alive(owner) and not",
        "    if False and not",
        f"{TESTS}/sessions/test_append_without_lease.py::test_append_during_a_live_run_is_refused",
    ),
    Mutation(
        "an append without a run ends the fence of a run that is gone",
        "checkpoints/sessions/append_without_lease.py",
        "    take_and_release_ownership.end_lost_owner_run_and_interrupt_calls(store, row, owner)\n",
        "    pass\n",
        f"{TESTS}/sessions/test_append_without_lease.py::test_append_declares_a_lost_owner_lost",
    ),
    Mutation(
        "two requests of one process do not share a run",
        "checkpoints/store/checkpointer_state.py",
        "            return self._handles.setdefault(session_id, handle) is handle\n",
        "            return True\n",
        f"{TESTS}/sessions/test_session_handle.py::test_session_has_one_open_handle_at_a_time",
    ),
]
