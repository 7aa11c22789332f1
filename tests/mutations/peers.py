"""The lines that carry the promise about other agents."""

from __future__ import annotations

from tests.mutations.mutations import Mutation

PEERS = "tests/integration/checkpoints/peers"
ACCEPTING = f"{PEERS}/test_accepting.py"
DEADLINES = f"{PEERS}/test_deadlines.py"
TAKING = f"{PEERS}/test_taking.py"
TELLING = f"{PEERS}/test_telling.py"

PEER_MUTATIONS = [
    Mutation(
        "a response counts once",
        "checkpoints/peers/pausing.py",
        "filter(pk=call.pk, status=PeerCallStatus.WAITING)",
        "filter(pk=call.pk)",
        f"{ACCEPTING}::test_the_same_response_three_times_counts_once",
    ),
    Mutation(
        "a join is complete once",
        "checkpoints/peers/counting.py",
        'waiting.filter(completed__gte=F("total"))',
        "waiting",
        f"{ACCEPTING}::test_the_last_response_of_a_join_completes_it",
    ),
    Mutation(
        "an early response is counted by the pause",
        "checkpoints/peers/pausing.py",
        "    return bool(adopted) and counting.count(store, join, adopted, receipt)\n",
        "    return False\n",
        f"{ACCEPTING}::test_early_response_is_counted_by_the_pause",
    ),
    Mutation(
        "only the right token answers",
        "checkpoints/peers/accepting.py",
        'return call.token_digest != "" and not',
        "return False and not",
        f"{ACCEPTING}::test_foreign_responses_change_nothing_and_the_right_one_still_counts",
    ),
    Mutation(
        "an acceptance whose answer was lost is told",
        "checkpoints/peers/accepting.py",
        "return _accepted(call, call.join.completed_by == response.receipt)",
        "return _accepted(call, False)",
        f"{ACCEPTING}::test_acceptance_whose_answer_was_lost_is_found_again",
    ),
    Mutation(
        "a sweep looks at the deadline again",
        "checkpoints/peers/deadlines.py",
        "pauses.open_calls(store, row).filter(deadline__lte=Now())",
        "pauses.open_calls(store, row)",
        f"{DEADLINES}::test_call_that_was_just_extended_does_not_expire",
    ),
    Mutation(
        "an extension never shortens",
        "checkpoints/peers/deadlines.py",
        'latest = Greatest("deadline", Value(wanted) if isinstance(wanted, datetime) else wanted)',
        "latest = Value(wanted) if isinstance(wanted, datetime) else wanted",
        f"{DEADLINES}::test_extending",
    ),
    Mutation(
        "a task is there until the run that took it has saved something",
        "checkpoints/saving/pauses.py",
        "Q(taken_version=None) | Q(taken_version__gte=row.latest_version)",
        "Q(taken_version=None)",
        f"{TAKING}::test_task_that_is_taken_and_lost_is_taken_by_another",
    ),
    Mutation(
        "a task is over when the run that took it has saved something",
        "checkpoints/saving/pauses.py",
        "Q(taken_version=None) | Q(taken_version__gte=row.latest_version)",
        "Q(pk__gt=0)",
        f"{TAKING}::test_after_the_next_version_the_task_is_over",
    ),
    Mutation(
        "a paused session is not resumed without its answers",
        "checkpoints/resuming/ownership.py",
        "            pauses.require_free(store, row)\n",
        "            pass\n",
        f"{PEERS}/test_pausing.py::test_paused_session_is_not_resumed_as_if_nobody_were_asked",
    ),
    Mutation(
        "one join leaves the others alone",
        "checkpoints/saving/pauses.py",
        "joins = Join.objects.using(store.using).filter(taken, session=row, status=JoinStatus.COMPLETE)",
        "joins = Join.objects.using(store.using).filter(session=row)",
        f"{PEERS}/test_pausing.py::test_second_join_of_the_same_pause_survives_the_first",
    ),
    Mutation(
        "a notice is crossed out only when it was told",
        "checkpoints/peers/telling.py",
        "tell_attempts=call.tell_attempts, tell_after=clock.from_now(CLAIM)",
        'notice="", tell_after=None',
        f"{TELLING}::test_notice_of_one_who_died_is_left_to_it_for_a_while",
    ),
    Mutation(
        "a claimed notice is left to who claimed it",
        "checkpoints/peers/telling.py",
        "tell_attempts=call.tell_attempts, tell_after=clock.from_now(CLAIM)",
        "tell_attempts=call.tell_attempts",
        f"{TELLING}::test_two_tellers_do_not_tell_the_same_at_once",
    ),
    Mutation(
        "tokens are not stored in clear",
        "checkpoints/peers/sealing.py",
        "return canonical(_walked(value, what, _seal), what)",
        "return canonical(value, what)",
        f"{PEERS}/test_sealing.py::test_tokens_are_never_stored_in_clear_and_come_back",
    ),
]
