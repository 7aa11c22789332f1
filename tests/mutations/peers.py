"""Mutations of lines that guarantees about peers depend on."""

from __future__ import annotations

from tests.mutations.mutations import Mutation

PEERS = "tests/integration/checkpoints/peers"
ACCEPTING = "tests/integration/checkpoints/peers/test_response_acceptance.py"
DEADLINES = "tests/integration/checkpoints/peers/test_deadlines.py"
TAKING = "tests/integration/checkpoints/peers/test_resume_task.py"
TELLING = "tests/integration/checkpoints/peers/test_outbox.py"

PEER_MUTATIONS = [
    Mutation(
        "a response counts once",
        "checkpoints/peers/lock_and_answer_agent_calls.py",
        "filter(pk=call.pk, status=PeerCallStatus.WAITING)",
        "filter(pk=call.pk)",
        f"{ACCEPTING}::test_repeated_response_counts_once",
    ),
    Mutation(
        "a join is complete once",
        "checkpoints/peers/agent_call_join_counters.py",
        'open_join.filter(completed__gte=F("total"))',
        "open_join",
        f"{ACCEPTING}::test_last_response_completes_the_join",
    ),
    Mutation(
        "an early response is counted by the pause",
        "checkpoints/peers/pause_run_for_agent_calls.py",
        "return bool(count) and agent_call_join_counters.",
        "return False and agent_call_join_counters.",
        f"{ACCEPTING}::test_early_response_is_counted_by_the_pause",
    ),
    Mutation(
        "only the right token answers",
        "checkpoints/peers/accept_agent_response.py",
        'return call.token_digest != "" and not',
        "return False and not",
        f"{ACCEPTING}::test_response_of_another_peer_changes_nothing",
    ),
    Mutation(
        "an acceptance whose answer was lost is told",
        "checkpoints/peers/accept_agent_response.py",
        "from error\n    return _build_acceptance(call, call.join.completed_by == response.receipt)",
        "from error\n    return _build_acceptance(call, False)",
        f"{ACCEPTING}::test_lost_commit_answer_of_a_response_is_recovered",
    ),
    Mutation(
        "a sweep looks at the deadline again",
        "checkpoints/peers/extend_and_sweep_agent_deadlines.py",
        "peer_pause_blocking_and_closing.select_open_calls_to_agents(store, row).filter(deadline__lte=Now())",
        "peer_pause_blocking_and_closing.select_open_calls_to_agents(store, row)",
        f"{DEADLINES}::test_call_extended_during_the_sweep_does_not_expire",
    ),
    Mutation(
        "an extension never shortens",
        "checkpoints/peers/extend_and_sweep_agent_deadlines.py",
        'latest = Greatest("deadline", Value(new_deadline) if isinstance(new_deadline, datetime) else new_deadline)',
        "latest = Value(new_deadline) if isinstance(new_deadline, datetime) else new_deadline",
        f"{DEADLINES}::test_extend_deadline",
    ),
    Mutation(
        "a task is there until the run that took it has saved something",
        "checkpoints/sessions/peer_pause_blocking_and_closing.py",
        "Q(taken_version=None) | Q(taken_version__gte=row.latest_version)",
        "Q(taken_version=None)",
        f"{TAKING}::test_task_of_a_lost_run_is_taken_by_another",
    ),
    Mutation(
        "a task is over when the run that took it has saved something",
        "checkpoints/sessions/peer_pause_blocking_and_closing.py",
        "Q(taken_version=None) | Q(taken_version__gte=row.latest_version)",
        "Q(pk__gt=0)",
        f"{TAKING}::test_task_ends_with_the_next_version",
    ),
    Mutation(
        "a paused session is not resumed without its answers",
        "checkpoints/sessions/take_and_release_ownership.py",
        "            peer_pause_blocking_and_closing.require_session_not_paused(store, row)\n",
        "            pass\n",
        "tests/integration/checkpoints/peers/test_pauses.py::test_paused_session_cannot_be_resumed",
    ),
    Mutation(
        "one join leaves the others alone",
        "checkpoints/sessions/peer_pause_blocking_and_closing.py",
        "joins = Join.objects.using(store.using).filter(condition, session=row, status=JoinStatus.COMPLETE)",
        "joins = Join.objects.using(store.using).filter(session=row)",
        "tests/integration/checkpoints/peers/test_pauses.py::test_second_join_of_the_same_pause_survives_the_first",
    ),
    Mutation(
        "a notice is crossed out only when it was told",
        "checkpoints/peers/agent_notice_outbox.py",
        "tell_attempts=call.tell_attempts, tell_after=clock.build_database_time_after(CLAIM_DURATION)",
        'notice="", tell_after=None',
        f"{TELLING}::test_notice_claimed_by_a_dead_sender_is_sent_after_its_lease",
    ),
    Mutation(
        "a claimed notice is left to who claimed it",
        "checkpoints/peers/agent_notice_outbox.py",
        "tell_attempts=call.tell_attempts, tell_after=clock.build_database_time_after(CLAIM_DURATION)",
        "tell_attempts=call.tell_attempts",
        f"{TELLING}::test_two_senders_do_not_send_the_same_notice",
    ),
    Mutation(
        "tokens are not stored in clear",
        "checkpoints/peers/nested_secret_encryption.py",
        "return to_canonical_json(_encrypt_nested_secrets(value, what, _encrypt_secret), what)",
        "return to_canonical_json(value, what)",
        "tests/integration/checkpoints/peers/test_secret_encryption.py::test_tokens_are_stored_encrypted_and_restored",
    ),
]
