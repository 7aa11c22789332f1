"""The lines that carry the promise, each with a way to break it and the test that has to notice."""

from __future__ import annotations

from dataclasses import dataclass

RESUMING = "tests/integration/checkpoints/resuming"
SAVING = "tests/integration/checkpoints/saving"
TOOLS = "tests/integration/checkpoints/tools"
FENCES = f"{SAVING}/test_fences.py"


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
        f"{TOOLS}/test_dispatch.py::test_same_call_is_replayed_unaltered",
    ),
    Mutation(
        "what the transcript answers is history",
        "checkpoints/saving/statements.py",
        "SET {_c('answered_version')} = {version}{source} ",
        "SET {_c('answered_version')} = NULL{source} ",
        f"{TOOLS}/test_unanswered.py::test_result_of_a_call_before_the_crash_may_come_from_elsewhere",
    ),
    Mutation(
        "what is not answered is not done twice",
        "checkpoints/saving/open_operations.py",
        "self._next(kind, call_id) or self._new",
        "self._new",
        f"{TOOLS}/test_unanswered.py::test_ran_twice_crashed_twice",
    ),
    Mutation(
        "what nobody has decided is not answered",
        "checkpoints/saving/open_operations.py",
        "if operation.rows & self._unsettled:",
        "if False:",
        f"{TOOLS}/test_unanswered.py::test_message_to_the_model_is_no_answer_to_a_call_that_waits",
    ),
    Mutation(
        "a save names the fence",
        "checkpoints/saving/statements.py",
        '        "fence": base.fence,\n',
        "",
        f"{FENCES}::test_save_under_a_fence_that_has_grown_is_refused",
    ),
    Mutation(
        "an intent names the fence",
        "checkpoints/saving/statements.py",
        "{_s('fence')} = %s AND {_s('status')} IN",
        "{_s('fence')} >= %s AND {_s('status')} IN",
        f"{FENCES}::test_intent_under_a_fence_that_has_grown_is_refused",
    ),
    Mutation(
        "an outcome names the fence",
        "checkpoints/saving/statements.py",
        "{_s('fence')} = %s \"\n        f\"RETURNING {_s('id')} AS session_pk\"",
        "{_s('fence')} >= %s \"\n        f\"RETURNING {_s('id')} AS session_pk\"",
        f"{FENCES}::test_outcome_under_a_fence_that_has_grown_is_refused",
    ),
    Mutation(
        "a settled call is not settled again",
        "checkpoints/saving/statements.py",
        "AND {_c('status')} = %s AND",
        "AND {_c('status')} || 'x' <> %s AND",
        f"{SAVING}/test_call_log.py::test_second_result_changes_nothing",
    ),
    Mutation(
        "the intent is durable before the effect",
        "checkpoints/tools/dispatch.py",
        "        issued: Issued | ToolCall = yield from issue(store, held, wanted, waiting)\n",
        "        early = yield Invoke(asked.tool.run, bound, asked.tool.timeout)\n"
        "        asked = replace(asked, tool=replace(asked.tool, run=lambda **_: early))\n"
        "        issued: Issued | ToolCall = yield from issue(store, held, wanted, waiting)\n",
        "tests/concurrency/test_killed.py::test_inside_the_call_nobody_knows",
    ),
    Mutation(
        "what a lost run had issued is unknown",
        "checkpoints/resuming/ownership.py",
        '        _interrupt_orphans(store, row, run, f"run {run.number}")\n',
        "",
        "tests/concurrency/test_killed.py::test_inside_the_call_nobody_knows",
    ),
    Mutation(
        "an error that leaves it open is not a failure",
        "checkpoints/tools/dispatch.py",
        "if not tool.logged or not tool.leaves_unknown(error):",
        "if True:",
        f"{TOOLS}/test_outcomes.py::test_ambiguous_error_needs_review_and_never_runs_again",
    ),
    Mutation(
        "an unknown outcome blocks the resume",
        "checkpoints/resuming/gate.py",
        "        if not undecided:\n            yield Transact(lambda: _open(store, held))",
        "        if True:\n            yield Transact(lambda: _open(store, held))",
        f"{RESUMING}/test_gate.py::test_undecided_call_holds_the_run_and_releases_the_session",
    ),
    Mutation(
        "a run that stands at the gate writes nothing",
        "checkpoints/saving/lookup.py",
        "    if held.at_gate:\n",
        "    if False:\n",
        f"{RESUMING}/test_opening_sessions.py::test_run_that_waits_at_the_gate_writes_nothing",
    ),
    Mutation(
        "an effect that nobody logs does not happen",
        "checkpoints/tools/dispatch.py",
        "    if registry.unlogged and not tool.requires_approval:",
        "    if not tool.requires_approval:",
        f"{TOOLS}/test_dispatch.py::test_registry_without_a_session_runs_nothing_that_has_side_effects",
    ),
    Mutation(
        "a call is decided about only when its run is gone",
        "checkpoints/resuming/ownership.py",
        "    if call.status != transitions.LOSE.before or liveness.is_alive(call.run):\n",
        "    if call.status != transitions.LOSE.before:\n",
        f"{RESUMING}/test_dead_runs.py::test_call_of_a_live_run_is_not_decided",
    ),
    Mutation(
        "an unknown outcome blocks other effects",
        "checkpoints/saving/issuing.py",
        "if unknown and wanted.mutates:",
        "if False:",
        f"{TOOLS}/test_dispatch.py::test_mutating_call_waits_for_the_review_of_another",
    ),
    Mutation(
        "a decision is about the revision that was seen",
        "checkpoints/resuming/decisions.py",
        "if call.revision != revision:",
        "if False:",
        f"{RESUMING}/test_refused_decisions.py::test_stale_revision_names_both",
    ),
    Mutation(
        "an approval is about the arguments that were seen",
        "checkpoints/saving/issuing.py",
        "    return call.args_digest == wanted.args_digest or wanted",
        "    return True or wanted",
        f"{RESUMING}/test_decisions.py::test_approved_rerun_is_not_for_other_arguments",
    ),
    Mutation(
        "an approval of a re-run is used up",
        "checkpoints/saving/issuing.py",
        "status=transitions.RERUN.after, revision",
        "status=transitions.RERUN.before, revision",
        f"{SAVING}/test_late_results.py::test_result_of_a_lost_run_does_not_settle_the_attempt_of_the_next",
    ),
    Mutation(
        "an approval is used up",
        "checkpoints/saving/issuing.py",
        "status=transitions.BEGIN.after, run",
        "status=transitions.BEGIN.before, run",
        f"{RESUMING}/test_approvals.py::test_approved_call_runs_once",
    ),
    Mutation(
        "four eyes are those of two people",
        "checkpoints/resuming/decisions.py",
        "    if person in people:",
        "    if False:",
        f"{RESUMING}/test_approvals.py::test_two_people_have_to_approve",
    ),
    Mutation(
        "a voice counts while its person may decide",
        "checkpoints/resuming/decisions.py",
        " if voices[made.pk].counts}",
        "}",
        f"{RESUMING}/test_approvals.py::test_a_voice_counts_while_its_person_may_decide",
    ),
    Mutation(
        "a token has the voice of its owner",
        "checkpoints/resuming/actors.py",
        "return self.owner or self.name",
        "return self.name",
        f"{RESUMING}/test_approvals.py::test_the_token_of_somebody_who_has_decided_is_no_second_person",
    ),
    Mutation(
        "who changed the arguments does not approve them",
        "checkpoints/resuming/decisions.py",
        "person in _editors(decisions, voices):",
        "False:",
        f"{RESUMING}/test_approvals.py::test_who_changed_the_arguments_is_not_one_of_those_who_approve_them",
    ),
    Mutation(
        "an agent does not decide about itself",
        "checkpoints/resuming/actors.py",
        "if self.kind in {ActorKind.PERSON, ActorKind.TOKEN} and self.role not in _MAY_DECIDE:",
        "if self.kind == ActorKind.PERSON and self.role not in _MAY_DECIDE:",
        f"{RESUMING}/test_refused_decisions.py::test_unfitting_decision_is_refused[token without a role-approve_rerun]",
    ),
    Mutation(
        "a deadline never approves",
        "checkpoints/resuming/decisions.py",
        "if database_now(store.using) > call.deadline:",
        "if False:",
        f"{RESUMING}/test_approvals.py::test_deadline_never_approves",
    ),
    Mutation(
        "a lease ends by the clock of the database",
        "checkpoints/saving/liveness.py",
        'return run.lease_expires_at > database_now(run._state.db or "default")',
        'return run.lease_expires_at > __import__("checkpoints.clock").clock.now()',
        f"{RESUMING}/test_clock.py",
    ),
    Mutation(
        "a live owner keeps its session",
        "checkpoints/resuming/ownership.py",
        "    if alive and not takeover:\n",
        "    if False:\n",
        f"{RESUMING}/test_ownership.py::test_session_of_a_live_run_is_busy",
    ),
    Mutation(
        "a finished session gives its result",
        "checkpoints/resuming/gate.py",
        "        if not session.finished:\n            return None\n",
        "        if True:\n            return None\n",
        f"{RESUMING}/test_finishing.py::test_finished_session_returns_its_result",
    ),
    Mutation(
        "an append without a run leaves a living run alone",
        "checkpoints/resuming/appending.py",
        "        if liveness.is_alive(owner) and not",
        "        if False and not",
        f"{SAVING}/test_append_without_a_run.py::test_living_run",
    ),
    Mutation(
        "an append without a run ends the fence of a run that is gone",
        "checkpoints/resuming/appending.py",
        "        ownership.declare_lost(store, row, owner)\n",
        "        pass\n",
        f"{SAVING}/test_append_without_a_run.py::test_lost_owner_is_declared_lost_and_stays_refused",
    ),
    Mutation(
        "two requests of one process do not share a run",
        "checkpoints/saving/store.py",
        "            return self._handles.setdefault(session_id, handle) is handle\n",
        "            return True\n",
        f"{RESUMING}/test_session_handle.py::test_one_handle_at_a_time_is_open_on_a_session",
    ),
]
