"""The policy `unanswered`: a call is the same operation until a saved version contains its result."""

import asyncio
import copy
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from checkpoints import Checkpointer, SyncCheckpointer, ToolResult
from checkpoints.exceptions import ApprovalRequired, ReviewRequired
from checkpoints.models import ToolCall, Workspace
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import lose_run, start_session
from tests.integration.checkpoints.tools.shell_agent import TEST, ShellAgent, answered, ask, contents, dispatch, save

# one run


def test_answered_call_runs_again(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    tools = shell.tools(start_session(cp))
    transcript: list[dict[str, Any]] = []
    for turn in range(3):
        (result,) = dispatch(tools, f"call_{turn}")
        assert (result.content, result.replayed) == (f"make test #{turn + 1}", False)
        transcript = save(cp, transcript, result)

    assert (len(shell.done()), answered()) == (3, [1, 2, 3])


def test_answered_call_runs_again_under_the_same_id(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    tools = shell.tools(start_session(cp))
    transcript: list[dict[str, Any]] = []
    for turn in range(3):
        (result,) = dispatch(tools, "call_1")
        assert result.content == f"make test #{turn + 1}"
        transcript = save(cp, transcript, result)


def test_same_id_before_the_answer_is_the_same_operation(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    first, again = dispatch(shell.tools(start_session(cp)), "call_1", "call_1")

    assert again == ToolResult("call_1", first.content, replayed=True)
    assert shell.done() == ["make test"]


def test_two_calls_of_one_answer_are_two_operations(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    assert contents(dispatch(shell.tools(start_session(cp)), "call_1", "call_2")) == ["make test #1", "make test #2"]


def test_reading_a_pending_answer_answers_no_call(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    tools = shell.tools(start_session(cp))
    (first,) = dispatch(tools, "call_1")
    cp.save_checkpoint("s", [ask("call_1", "call_2")], None, 0)
    second = dispatch(tools, "call_1", "call_2")

    assert [result.replayed for result in second] == [True, False]
    assert (second[0].content, answered()) == (first.content, [None, None])


def test_concurrent_calls_are_separate_operations(workspace: Workspace, shell: ShellAgent) -> None:
    async def run() -> list[ToolResult]:
        async with Checkpointer() as checkpointer:
            await checkpointer.start_session("s")
            tools = shell.tools(checkpointer)
            return list(await asyncio.gather(*(tools.adispatch("bash", TEST, f"call_{number}") for number in range(8))))

    assert sorted(contents(asyncio.run(run()))) == sorted(f"make test #{number}" for number in range(1, 9))


# asked again after a crash


@pytest.mark.parametrize("call_ids", [("call_1", "call_2"), ("new_1", "new_2")], ids=["same ids", "new ids"])
def test_completed_calls_are_replayed_and_others_run(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent, call_ids: tuple[str, str]
) -> None:
    (first,) = dispatch(shell.tools(start_session(cp)), "call_1")
    taker = open_checkpointer()
    taker.resume("s", takeover=True)
    results = dispatch(shell.tools(taker), *call_ids)

    assert [(result.content, result.replayed) for result in results] == [(first.content, True), ("make test #2", False)]
    save(taker, [], *results)
    assert answered() == [1, 1]


def test_results_looked_up_by_call_id_count_as_used(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent
) -> None:
    (first,) = dispatch(shell.tools(start_session(cp)), "call_1")
    taker = open_checkpointer()
    point = taker.resume("s", takeover=True)
    tools = shell.tools(taker)
    results = [
        point.replayable.get(call_id) or tools.dispatch("bash", TEST, call_id) for call_id in ("call_1", "call_2")
    ]

    assert contents(results) == [first.content, "make test #2"]


def test_results_read_together_do_not_count_as_used(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent
) -> None:
    dispatch(shell.tools(start_session(cp)), "call_1")
    taker = open_checkpointer()
    point = taker.resume("s", takeover=True)
    known = [dict(point.replayable), copy.deepcopy(point.replayable), asdict(point)["replayable"]]

    assert [list(each) for each in known] == [["call_1"]] * 3
    assert dispatch(shell.tools(taker), "new_1")[0].replayed is True


@pytest.mark.parametrize(
    "look",
    [
        lambda known: [known[call_id] for call_id in known],
        lambda known: [known[call_id] for call_id in sorted(known)],
        lambda known: [known.get(call_id) for call_id in known.keys()],  # noqa: SIM118 - what a program may do
        lambda known: [known[call_id] for call_id, _ in known.items()],
    ],
    ids=["iteration", "sorted", "keys", "items"],
)
def test_listed_results_do_not_count_as_used(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent, look: Callable[[Any], list[ToolResult]]
) -> None:
    """A program that logs the replayable results and asks the model again makes the call once."""
    (first,) = dispatch(shell.tools(start_session(cp)), "call_1")
    taker = open_checkpointer()
    known = look(taker.resume("s", takeover=True).replayable)
    results = dispatch(shell.tools(taker), "new_1", "new_2")

    assert contents(known) == [first.content]
    assert [(result.content, result.replayed) for result in results] == [(first.content, True), ("make test #2", False)]


def test_calls_of_a_pending_answer_keep_their_results(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent
) -> None:
    """The resume point contains a copy of the first result; the second call has not run."""
    cp.start_session("s")
    cp.save_checkpoint("s", [ask("call_1", "call_2")], None, 0)
    (first,) = dispatch(shell.tools(cp), "call_1")
    taker = open_checkpointer()
    known = dict(taker.resume("s", takeover=True).replayable)

    assert (known["call_1"].content, dispatch(shell.tools(taker), "call_2")[0].replayed) == (first.content, False)


def test_calls_with_new_ids_are_matched_in_order(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent
) -> None:
    first = dispatch(shell.tools(start_session(cp)), *(f"call_{number}" for number in range(4)))
    taker = lose_run(open_checkpointer)

    async def again() -> list[ToolResult]:
        async with Checkpointer() as other:
            await other.resume("s", takeover=True)
            tools = shell.tools(other)
            return list(await asyncio.gather(*(tools.adispatch("bash", TEST, f"new_{number}") for number in range(5))))

    taker.close()
    results = asyncio.run(again())
    assert contents(results) == [*contents(first), "make test #5"]


def test_calls_with_other_arguments_are_not_matched(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent
) -> None:
    dispatch(shell.tools(start_session(cp)), "call_1")
    tools = shell.tools(lose_run(open_checkpointer))

    assert dispatch(tools, "new_1", args={"command": "ls"})[0].content == "ls #2"
    assert dispatch(tools, "new_2")[0].replayed is True


def test_operation_survives_two_crashes_with_new_ids(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent
) -> None:
    """An operation that was replayed under a new id, and whose answer was lost again, is still one operation."""
    dispatch(shell.tools(start_session(cp)), "call_1")
    dispatch(shell.tools(lose_run(open_checkpointer)), "new_1")
    taker = lose_run(open_checkpointer)
    (result,) = dispatch(shell.tools(taker), "newer_1")
    save(taker, [], result)

    assert (result.replayed, shell.done(), answered()) == (True, ["make test"], [1])
    assert dispatch(shell.tools(lose_run(open_checkpointer)), "call_1")[0].replayed is False


def test_resume_of_an_owned_session_resets_the_matching(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    tools = shell.tools(start_session(cp))
    first = dispatch(tools, "call_1")
    for begin in (cp.resume, cp.start_session):
        begin("s")
        assert contents(dispatch(tools, f"new for {begin.__name__}")) == contents(first)


def test_result_of_an_earlier_call_may_be_saved_without_a_dispatch(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent
) -> None:
    """A framework that stores results itself saves them without a dispatch in the new run."""
    (result,) = dispatch(shell.tools(start_session(cp)), "call_1")
    taker = lose_run(open_checkpointer)
    save(taker, [], result)

    assert dispatch(shell.tools(taker), "call_2")[0].replayed is False


def test_reused_id_answers_only_its_new_call(cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent) -> None:
    """Models that number the calls of each answer reuse ids."""
    dispatch(shell.tools(start_session(cp)), "call_1", args={"command": "deploy"})
    taker = lose_run(open_checkpointer)
    save(taker, [], *dispatch(shell.tools(taker), "call_1"))

    assert answered() == [None, 1]
    assert dispatch(shell.tools(lose_run(open_checkpointer)), "new_1", args={"command": "deploy"})[0].replayed is True


# how a call ended


def test_failed_call_is_retried_until_it_is_answered(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent
) -> None:
    shell.error = ValueError("no")
    dispatch(shell.tools(start_session(cp)), "call_1")
    shell.error = ValueError("no")
    taker = lose_run(open_checkpointer)
    (failed,) = dispatch(shell.tools(taker), "new_1")
    save(taker, [], failed)

    keys = ToolCall.objects.values_list("idempotency_key", flat=True)
    assert (failed.is_error, failed.replayed, len(set(keys)), answered()) == (True, False, 1, [1, 1])
    assert dispatch(shell.tools(taker), "call_3")[0].content == "make test #3"
    assert ToolCall.objects.values("idempotency_key").distinct().count() == 2


def test_retry_in_the_same_run_is_the_next_attempt(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    tools = shell.tools(start_session(cp))
    shell.error = ValueError("no")
    results = dispatch(tools, "call_1", "call_1")

    assert [(result.is_error, result.attempt) for result in results] == [(True, 1), (False, 2)]
    assert ToolCall.objects.values("idempotency_key").distinct().count() == 1


def interrupted(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    shell.error = TimeoutError("no answer")
    with pytest.raises(ReviewRequired):
        dispatch(shell.tools(start_session(cp)), "call_1")


def decide(cp: SyncCheckpointer, decision: str, *words: Any) -> None:
    """Decide about the only pending call."""
    (call,) = cp.pending_tool_calls("s")
    act: Callable[..., None] = getattr(cp, decision)
    act("s", call["call_id"], *words, actor="ann", reason="seen", revision=call["revision"])


def test_confirmed_call_is_replayed_under_a_new_id(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent
) -> None:
    interrupted(cp, shell)
    with pytest.raises(ReviewRequired):
        open_checkpointer().resume("s", takeover=True)
    decide(cp, "confirm_landed", "it passed")
    taker = open_checkpointer()
    taker.resume("s")
    (result,) = dispatch(shell.tools(taker), "new_1")

    assert (result, shell.done()) == (ToolResult("new_1", "it passed", replayed=True), ["make test"])


def test_call_marked_failed_runs_under_a_new_id(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent
) -> None:
    interrupted(cp, shell)
    decide(
        cp,
        "mark_failed",
    )
    taker = open_checkpointer()
    taker.resume("s", takeover=True)

    assert dispatch(shell.tools(taker), "new_1")[0].content == "make test #2"
    assert ToolCall.objects.values("idempotency_key").distinct().count() == 1


def test_approved_rerun_runs_once_under_a_new_id(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent
) -> None:
    interrupted(cp, shell)
    decide(cp, "approve_rerun")
    taker = open_checkpointer()
    taker.resume("s", takeover=True)
    results = dispatch(shell.tools(taker), "new_1", "new_2")
    save(taker, [], *results)

    assert contents(results) == ["make test #2", "make test #3"]
    assert dispatch(shell.tools(lose_run(open_checkpointer)), "newer")[0].content == "make test #4"


def test_interrupted_call_blocks_an_equal_call(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    interrupted(cp, shell)

    with pytest.raises(ReviewRequired):
        dispatch(shell.tools(cp), "call_2")
    assert shell.done() == ["make test"]


def test_message_about_the_review_does_not_answer_the_call(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    """The loop tells the model about the review and continues after the decision, in the same run."""
    interrupted(cp, shell)
    save(cp, [], ToolResult("call_1", "a person looks at it", is_error=True))
    decide(cp, "confirm_landed", "it passed")

    assert dispatch(shell.tools(cp), "call_2") == [ToolResult("call_2", "it passed", replayed=True)]
    assert (shell.done(), answered()) == (["make test"], [None])


@pytest.fixture
def approval_shell(effects: Path) -> ShellAgent:
    return ShellAgent(effects, requires_approval=True)


def test_each_call_of_an_answer_requires_its_own_approval(cp: SyncCheckpointer, approval_shell: ShellAgent) -> None:
    tools = approval_shell.tools(start_session(cp))
    for call_id in ("call_1", "call_2", "call_1"):
        with pytest.raises(ApprovalRequired):
            dispatch(tools, call_id)
    for call in cp.pending_tool_calls("s"):
        cp.approve_call("s", call["call_id"], actor="ann", reason="fine", revision=call["revision"])

    assert contents(dispatch(tools, "call_1", "call_2", "call_1")) == ["make test #1", "make test #2", "make test #1"]


def test_message_about_the_approval_does_not_answer_the_call(cp: SyncCheckpointer, approval_shell: ShellAgent) -> None:
    """The model calls the tool again after a message about the approval; the approval applies to that call."""
    tools = approval_shell.tools(start_session(cp))
    with pytest.raises(ApprovalRequired):
        dispatch(tools, "call_1")
    save(cp, [], ToolResult("call_1", "a person has to approve this", is_error=True))
    decide(cp, "approve_call")

    assert contents(dispatch(tools, "call_2")) == ["make test #1"]
    assert (ToolCall.objects.count(), answered()) == (1, [None])


@pytest.mark.parametrize("decision", ["approve_call", "reject_call", "respond_call"])
def test_approval_applies_to_a_new_id(
    cp: SyncCheckpointer, open_checkpointer: Open, approval_shell: ShellAgent, decision: str
) -> None:
    with pytest.raises(ApprovalRequired):
        dispatch(approval_shell.tools(start_session(cp)), "call_1")
    decide(cp, decision, *([] if decision == "approve_call" else ["not now"]))
    taker = open_checkpointer()
    taker.resume("s", takeover=True)
    tools = approval_shell.tools(taker)
    (result,) = dispatch(tools, "new_1")

    expected = {
        "approve_call": ToolResult("new_1", "make test #1"),
        "reject_call": ToolResult("new_1", "not now", is_error=True, replayed=True),
        "respond_call": ToolResult("new_1", "not now", replayed=True),
    }
    assert result == expected[decision]
    save(taker, [], result)
    with pytest.raises(ApprovalRequired):
        dispatch(tools, "new_2")


def test_edited_call_matches_its_original_arguments(
    cp: SyncCheckpointer, open_checkpointer: Open, approval_shell: ShellAgent
) -> None:
    start_session(cp).save_checkpoint("s", [], None, 0)
    with pytest.raises(ApprovalRequired):
        dispatch(approval_shell.tools(cp), "call_1")
    decide(cp, "edit_call", {"command": "make lint"})
    decide(cp, "approve_call")
    taker = open_checkpointer()
    taker.resume("s", takeover=True)
    assert contents(dispatch(approval_shell.tools(taker), "new_1")) == ["make lint #1"]

    again = open_checkpointer()
    again.resume("s", takeover=True)
    assert dispatch(approval_shell.tools(again), "newer_1") == [ToolResult("newer_1", "make lint #1", replayed=True)]
    again.fork_session("s", "fork")
    forker = open_checkpointer()
    forker.start_session("fork")
    assert contents(dispatch(approval_shell.tools(forker, "fork"), "fork_1")) == ["make lint #1"]
