"""The policy `unanswered`: a call is the same operation until a saved version has its result."""

import asyncio
import copy
import logging
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from checkpoints import Checkpointer, SyncCheckpointer, SyncWriteBehind, Tool, ToolRegistry, ToolResult
from checkpoints.calls import issue_call
from checkpoints.exceptions import ApprovalRequired, InvalidInput, ReviewRequired, StorageUnavailable
from checkpoints.models import ToolCall, Workspace
from checkpoints.runtime_state.phase_details import PostToolBatch
from tests.conftest import Open
from tests.integration.checkpoints.situations import lose_run, started
from tests.support.processes import append_line

TEST = {"command": "make test"}


class Shell:
    """One tool, and what it did. Each line has a number, so that results can be told apart."""

    def __init__(self, path: Path, policy: Any = "unanswered", **options: Any) -> None:
        self.path, self.policy, self.options = path, policy, options
        self.error: Exception | None = None
        self.lock = threading.Lock()

    def tools(self, cp: SyncCheckpointer | Checkpointer, session_id: str = "s") -> ToolRegistry:
        registry = ToolRegistry(checkpointer=cp, session_id=session_id, idempotency=self.policy)

        @registry.tool(**self.options)
        def bash(command: str) -> str:
            with self.lock:
                append_line(str(self.path), command)
                number = len(self.done())
            if self.error is not None:
                error, self.error = self.error, None
                raise error
            return f"{command} #{number}"

        return registry

    def done(self) -> list[str]:
        return self.path.read_text().splitlines()


@pytest.fixture
def shell(effects: Path) -> Shell:
    return Shell(effects)


def ask(*call_ids: str, args: dict[str, Any] = TEST, tool: str = "bash") -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"id": each, "name": tool, "args": args} for each in call_ids]}


def answer(*results: ToolResult) -> list[dict[str, Any]]:
    return [{"role": "tool", "tool_call_id": result.call_id, "content": result.content} for result in results]


def dispatch(registry: ToolRegistry, *call_ids: str, args: dict[str, Any] = TEST) -> list[ToolResult]:
    return [registry.dispatch("bash", args, call_id) for call_id in call_ids]


def save(cp: SyncCheckpointer, transcript: list[dict[str, Any]], *results: ToolResult) -> list[dict[str, Any]]:
    """Save a turn: the calls, and their results. Returns the transcript."""
    transcript = [*transcript, ask(*(result.call_id for result in results)), *answer(*results)]
    cp.save_checkpoint("s", transcript, None, 0)
    return transcript


def contents(results: list[ToolResult]) -> list[str]:
    return [result.content for result in results]


def answered(session_id: str = "s") -> list[int | None]:
    calls = ToolCall.objects.filter(session__session_id=session_id).order_by("pk")
    return list(calls.values_list("answered_version", flat=True))


# one run


def test_answered_call_runs_again(cp: SyncCheckpointer, shell: Shell) -> None:
    tools = shell.tools(started(cp))
    transcript: list[dict[str, Any]] = []
    for turn in range(3):
        (result,) = dispatch(tools, f"call_{turn}")
        assert (result.content, result.replayed) == (f"make test #{turn + 1}", False)
        transcript = save(cp, transcript, result)

    assert (len(shell.done()), answered()) == (3, [1, 2, 3])


def test_answered_call_runs_again_under_the_same_id(cp: SyncCheckpointer, shell: Shell) -> None:
    tools = shell.tools(started(cp))
    transcript: list[dict[str, Any]] = []
    for turn in range(3):
        (result,) = dispatch(tools, "call_1")
        assert result.content == f"make test #{turn + 1}"
        transcript = save(cp, transcript, result)


def test_same_id_before_the_answer_is_the_same_operation(cp: SyncCheckpointer, shell: Shell) -> None:
    first, again = dispatch(shell.tools(started(cp)), "call_1", "call_1")

    assert again == ToolResult("call_1", first.content, replayed=True)
    assert shell.done() == ["make test"]


def test_two_calls_of_one_answer_are_two_operations(cp: SyncCheckpointer, shell: Shell) -> None:
    assert contents(dispatch(shell.tools(started(cp)), "call_1", "call_2")) == ["make test #1", "make test #2"]


def test_read_of_a_journaled_answer_in_between_answers_nothing(cp: SyncCheckpointer, shell: Shell) -> None:
    tools = shell.tools(started(cp))
    (first,) = dispatch(tools, "call_1")
    cp.save_checkpoint("s", [ask("call_1", "call_2")], None, 0)
    second = dispatch(tools, "call_1", "call_2")

    assert [result.replayed for result in second] == [True, False]
    assert (second[0].content, answered()) == (first.content, [None, None])


def test_calls_at_the_same_time_are_operations_of_their_own(workspace: Workspace, shell: Shell) -> None:
    async def run() -> list[ToolResult]:
        async with Checkpointer() as checkpointer:
            await checkpointer.start_session("s")
            tools = shell.tools(checkpointer)
            return list(await asyncio.gather(*(tools.adispatch("bash", TEST, f"call_{number}") for number in range(8))))

    assert sorted(contents(asyncio.run(run()))) == sorted(f"make test #{number}" for number in range(1, 9))


# asked again after a crash


@pytest.mark.parametrize("call_ids", [("call_1", "call_2"), ("new_1", "new_2")], ids=["same ids", "new ids"])
def test_what_ran_is_replayed_and_what_did_not_runs(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell, call_ids: tuple[str, str]
) -> None:
    (first,) = dispatch(shell.tools(started(cp)), "call_1")
    taker = open_checkpointer()
    taker.resume("s", takeover=True)
    results = dispatch(shell.tools(taker), *call_ids)

    assert [(result.content, result.replayed) for result in results] == [(first.content, True), ("make test #2", False)]
    save(taker, [], *results)
    assert answered() == [1, 1]


def test_results_by_call_id_are_taken(cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell) -> None:
    (first,) = dispatch(shell.tools(started(cp)), "call_1")
    taker = open_checkpointer()
    point = taker.resume("s", takeover=True)
    tools = shell.tools(taker)
    results = [
        point.replayable.get(call_id) or tools.dispatch("bash", TEST, call_id) for call_id in ("call_1", "call_2")
    ]

    assert contents(results) == [first.content, "make test #2"]


def test_results_read_at_once_are_not_taken(cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell) -> None:
    dispatch(shell.tools(started(cp)), "call_1")
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
def test_results_that_are_listed_are_not_taken(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell, look: Callable[[Any], list[ToolResult]]
) -> None:
    """A program that logs what it has found, and asks the model once more, makes the call once."""
    (first,) = dispatch(shell.tools(started(cp)), "call_1")
    taker = open_checkpointer()
    known = look(taker.resume("s", takeover=True).replayable)
    results = dispatch(shell.tools(taker), "new_1", "new_2")

    assert contents(known) == [first.content]
    assert [(result.content, result.replayed) for result in results] == [(first.content, True), ("make test #2", False)]


def test_calls_of_a_journaled_answer_keep_their_own(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell
) -> None:
    """The result of the first is in the resume point, copied; the second has not run."""
    cp.start_session("s")
    cp.save_checkpoint("s", [ask("call_1", "call_2")], None, 0)
    (first,) = dispatch(shell.tools(cp), "call_1")
    taker = open_checkpointer()
    known = dict(taker.resume("s", takeover=True).replayable)

    assert (known["call_1"].content, dispatch(shell.tools(taker), "call_2")[0].replayed) == (first.content, False)


def test_order_decides_between_new_ids(cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell) -> None:
    first = dispatch(shell.tools(started(cp)), *(f"call_{number}" for number in range(4)))
    taker = lose_run(open_checkpointer)

    async def again() -> list[ToolResult]:
        async with Checkpointer() as other:
            await other.resume("s", takeover=True)
            tools = shell.tools(other)
            return list(await asyncio.gather(*(tools.adispatch("bash", TEST, f"new_{number}") for number in range(5))))

    taker.close()
    results = asyncio.run(again())
    assert contents(results) == [*contents(first), "make test #5"]


def test_other_arguments_do_not_pair(cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell) -> None:
    dispatch(shell.tools(started(cp)), "call_1")
    tools = shell.tools(lose_run(open_checkpointer))

    assert dispatch(tools, "new_1", args={"command": "ls"})[0].content == "ls #2"
    assert dispatch(tools, "new_2")[0].replayed is True


def test_ran_twice_crashed_twice(cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell) -> None:
    """An operation that was replayed under a new id, and lost its answer again, is still one operation."""
    dispatch(shell.tools(started(cp)), "call_1")
    dispatch(shell.tools(lose_run(open_checkpointer)), "new_1")
    taker = lose_run(open_checkpointer)
    (result,) = dispatch(shell.tools(taker), "newer_1")
    save(taker, [], result)

    assert (result.replayed, shell.done(), answered()) == (True, ["make test"], [1])
    assert dispatch(shell.tools(lose_run(open_checkpointer)), "call_1")[0].replayed is False


def test_resume_of_a_session_that_is_held_begins_anew(cp: SyncCheckpointer, shell: Shell) -> None:
    tools = shell.tools(started(cp))
    first = dispatch(tools, "call_1")
    for begin in (cp.resume, cp.start_session):
        begin("s")
        assert contents(dispatch(tools, f"new for {begin.__name__}")) == contents(first)


def test_result_of_a_call_before_the_crash_may_come_from_elsewhere(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell
) -> None:
    """A framework that keeps results itself answers without a dispatch in the new run."""
    (result,) = dispatch(shell.tools(started(cp)), "call_1")
    taker = lose_run(open_checkpointer)
    save(taker, [], result)

    assert dispatch(shell.tools(taker), "call_2")[0].replayed is False


def test_id_that_means_something_else_now_answers_only_that(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell
) -> None:
    """Models that count the calls of an answer use ids again."""
    dispatch(shell.tools(started(cp)), "call_1", args={"command": "deploy"})
    taker = lose_run(open_checkpointer)
    save(taker, [], *dispatch(shell.tools(taker), "call_1"))

    assert answered() == [None, 1]
    assert dispatch(shell.tools(lose_run(open_checkpointer)), "new_1", args={"command": "deploy"})[0].replayed is True


# how a call ended


def test_failed_call_is_tried_again_until_it_is_answered(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell
) -> None:
    shell.error = ValueError("no")
    dispatch(shell.tools(started(cp)), "call_1")
    shell.error = ValueError("no")
    taker = lose_run(open_checkpointer)
    (failed,) = dispatch(shell.tools(taker), "new_1")
    save(taker, [], failed)

    keys = ToolCall.objects.values_list("idempotency_key", flat=True)
    assert (failed.is_error, failed.replayed, len(set(keys)), answered()) == (True, False, 1, [1, 1])
    assert dispatch(shell.tools(taker), "call_3")[0].content == "make test #3"
    assert ToolCall.objects.values("idempotency_key").distinct().count() == 2


def test_retry_in_the_same_run_is_the_next_attempt(cp: SyncCheckpointer, shell: Shell) -> None:
    tools = shell.tools(started(cp))
    shell.error = ValueError("no")
    results = dispatch(tools, "call_1", "call_1")

    assert [(result.is_error, result.attempt) for result in results] == [(True, 1), (False, 2)]
    assert ToolCall.objects.values("idempotency_key").distinct().count() == 1


def interrupted(cp: SyncCheckpointer, shell: Shell) -> None:
    shell.error = TimeoutError("no answer")
    with pytest.raises(ReviewRequired):
        dispatch(shell.tools(started(cp)), "call_1")


def decide(cp: SyncCheckpointer, decision: str, *words: Any) -> None:
    """Decide about the one call that waits."""
    (call,) = cp.pending_tool_calls("s")
    act: Callable[..., None] = getattr(cp, decision)
    act("s", call["call_id"], *words, actor="ann", reason="seen", revision=call["revision"])


def test_confirmed_call_is_replayed_under_a_new_id(cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell) -> None:
    interrupted(cp, shell)
    with pytest.raises(ReviewRequired):
        open_checkpointer().resume("s", takeover=True)
    decide(cp, "confirm_landed", "it passed")
    taker = open_checkpointer()
    taker.resume("s")
    (result,) = dispatch(shell.tools(taker), "new_1")

    assert (result, shell.done()) == (ToolResult("new_1", "it passed", replayed=True), ["make test"])


def test_failed_by_a_person_runs_under_a_new_id(cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell) -> None:
    interrupted(cp, shell)
    decide(
        cp,
        "mark_failed",
    )
    taker = open_checkpointer()
    taker.resume("s", takeover=True)

    assert dispatch(shell.tools(taker), "new_1")[0].content == "make test #2"
    assert ToolCall.objects.values("idempotency_key").distinct().count() == 1


def test_approved_rerun_runs_once_under_a_new_id(cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell) -> None:
    interrupted(cp, shell)
    decide(cp, "approve_rerun")
    taker = open_checkpointer()
    taker.resume("s", takeover=True)
    results = dispatch(shell.tools(taker), "new_1", "new_2")
    save(taker, [], *results)

    assert contents(results) == ["make test #2", "make test #3"]
    assert dispatch(shell.tools(lose_run(open_checkpointer)), "newer")[0].content == "make test #4"


def test_interrupted_call_holds_the_second_of_its_kind(cp: SyncCheckpointer, shell: Shell) -> None:
    interrupted(cp, shell)

    with pytest.raises(ReviewRequired):
        dispatch(shell.tools(cp), "call_2")
    assert shell.done() == ["make test"]


def test_message_to_the_model_is_no_answer_to_an_undecided_call(cp: SyncCheckpointer, shell: Shell) -> None:
    """The loop tells the model about the review and goes on after the decision, in the same run."""
    interrupted(cp, shell)
    save(cp, [], ToolResult("call_1", "a person looks at it", is_error=True))
    decide(cp, "confirm_landed", "it passed")

    assert dispatch(shell.tools(cp), "call_2") == [ToolResult("call_2", "it passed", replayed=True)]
    assert (shell.done(), answered()) == (["make test"], [None])


@pytest.fixture
def held_shell(effects: Path) -> Shell:
    return Shell(effects, requires_approval=True)


def test_each_call_of_an_answer_asks_for_its_own_approval(cp: SyncCheckpointer, held_shell: Shell) -> None:
    tools = held_shell.tools(started(cp))
    for call_id in ("call_1", "call_2", "call_1"):
        with pytest.raises(ApprovalRequired):
            dispatch(tools, call_id)
    for call in cp.pending_tool_calls("s"):
        cp.approve_call("s", call["call_id"], actor="ann", reason="fine", revision=call["revision"])

    assert contents(dispatch(tools, "call_1", "call_2", "call_1")) == ["make test #1", "make test #2", "make test #1"]


def test_message_to_the_model_is_no_answer_to_a_call_that_waits(cp: SyncCheckpointer, held_shell: Shell) -> None:
    """The loop tells the model that an approval is needed; the model asks again, and the approval is for that call."""
    tools = held_shell.tools(started(cp))
    with pytest.raises(ApprovalRequired):
        dispatch(tools, "call_1")
    save(cp, [], ToolResult("call_1", "a person has to approve this", is_error=True))
    decide(cp, "approve_call")

    assert contents(dispatch(tools, "call_2")) == ["make test #1"]
    assert (ToolCall.objects.count(), answered()) == (1, [None])


@pytest.mark.parametrize("decision", ["approve_call", "reject_call", "respond_call"])
def test_decision_about_an_approval_holds_for_a_new_id(
    cp: SyncCheckpointer, open_checkpointer: Open, held_shell: Shell, decision: str
) -> None:
    with pytest.raises(ApprovalRequired):
        dispatch(held_shell.tools(started(cp)), "call_1")
    decide(cp, decision, *([] if decision == "approve_call" else ["not now"]))
    taker = open_checkpointer()
    taker.resume("s", takeover=True)
    tools = held_shell.tools(taker)
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


def test_edited_call_matches_what_it_was_asked_with(
    cp: SyncCheckpointer, open_checkpointer: Open, held_shell: Shell
) -> None:
    started(cp).save_checkpoint("s", [], None, 0)
    with pytest.raises(ApprovalRequired):
        dispatch(held_shell.tools(cp), "call_1")
    decide(cp, "edit_call", {"command": "make lint"})
    decide(cp, "approve_call")
    taker = open_checkpointer()
    taker.resume("s", takeover=True)
    assert contents(dispatch(held_shell.tools(taker), "new_1")) == ["make lint #1"]

    again = open_checkpointer()
    again.resume("s", takeover=True)
    assert dispatch(held_shell.tools(again), "newer_1") == [ToolResult("newer_1", "make lint #1", replayed=True)]
    again.fork_session("s", "fork")
    forker = open_checkpointer()
    forker.start_session("fork")
    assert contents(dispatch(held_shell.tools(forker, "fork"), "fork_1")) == ["make lint #1"]


# versions that come and go


@pytest.mark.parametrize(("version", "runs"), [(1, False), (2, True)])
def test_fork_has_answered_what_its_version_has(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell, version: int, runs: bool
) -> None:
    tools = shell.tools(started(cp))
    transcript = save(cp, [], *dispatch(tools, "call_0", args={"command": "ls"}))
    save(cp, transcript, *dispatch(tools, "call_1"))
    cp.fork_session("s", "fork", version=version)
    forker = open_checkpointer()
    forker.start_session("fork")
    (result,) = dispatch(shell.tools(forker, "fork"), "fork_1")

    assert (result.replayed, answered("fork")[:2]) == (not runs, [1, 1] if runs else [1, None])
    assert dispatch(shell.tools(forker, "fork"), "fork_2", args={"command": "ls"})[0].replayed is False


def test_new_operations_of_a_fork_are_not_those_it_inherits(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell
) -> None:
    """Version 1 of the fork is version 1 of its origin, and both count their operations from there."""
    tools = shell.tools(started(cp))
    save(cp, [], *dispatch(tools, "call_0"))
    dispatch(tools, "call_1")
    cp.fork_session("s", "fork", version=1)
    forker = open_checkpointer()
    forker.start_session("fork")

    results = dispatch(shell.tools(forker, "fork"), "fork_1", "fork_2")
    assert [(result.content, result.replayed) for result in results] == [
        ("make test #2", True),
        ("make test #3", False),
    ]


def test_deleted_version_has_answered_nothing(cp: SyncCheckpointer, shell: Shell) -> None:
    tools = shell.tools(started(cp))
    transcript = save(cp, [], *dispatch(tools, "call_1"))
    save(cp, transcript, *dispatch(tools, "call_2"))
    cp.delete_checkpoint("s", 2)

    assert answered() == [1, None]
    assert [result.replayed for result in dispatch(tools, "new_1", "new_2")] == [True, False]


def test_compacted_answer_stays_an_answer(cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell) -> None:
    tools = shell.tools(started(cp))
    save(cp, [], *dispatch(tools, "call_1"))
    cp.save_checkpoint("s", [{"role": "user", "content": "what was said, in short"}], None, 0)

    assert dispatch(shell.tools(lose_run(open_checkpointer)), "call_2")[0].replayed is False


def test_edited_transcript_answers_no_call_of_a_later_turn(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell
) -> None:
    """The id is used again, and the old result of that id is still in the transcript when it is cut and saved."""
    tools = shell.tools(started(cp))
    transcript = save(cp, [{"role": "user", "content": "test"}], *dispatch(tools, "call_1"))
    dispatch(tools, "call_1")
    cp.save_checkpoint("s", transcript[1:], None, 0)

    assert answered() == [1, None]
    assert dispatch(shell.tools(lose_run(open_checkpointer)), "new_1")[0].replayed is True


def test_edited_transcript_with_a_new_result_answers(cp: SyncCheckpointer, shell: Shell) -> None:
    tools = shell.tools(started(cp))
    transcript = save(cp, [{"role": "user", "content": "test"}], *dispatch(tools, "call_1"))
    (result,) = dispatch(tools, "call_2")
    save(cp, transcript[1:], result)

    assert answered() == [1, 2]


def test_compaction_may_drop_a_result_of_an_id_and_bring_a_new_one(cp: SyncCheckpointer, shell: Shell) -> None:
    tools = shell.tools(started(cp))
    save(cp, [], *dispatch(tools, "call_1"))
    (result,) = dispatch(tools, "call_1")
    save(cp, [{"role": "user", "content": "what was said, in short"}], result)

    assert (answered(), dispatch(tools, "call_1")[0].replayed) == ([1, 2], False)


def test_exported_session_knows_its_answers(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell, tmp_path: Path
) -> None:
    tools = shell.tools(started(cp))
    save(cp, [], *dispatch(tools, "call_1"))
    dispatch(tools, "call_2")
    cp.close()
    with open_checkpointer() as other:
        other.export_session("s", tmp_path / "s.jsonl")
        other.delete_session("s")
        other.import_session(tmp_path / "s.jsonl")
        other.resume("s")
        results = dispatch(shell.tools(other), "new_1", "new_2")

    assert [(result.content, result.replayed) for result in results] == [
        ("make test #2", True),
        ("make test #3", False),
    ]


def test_appended_results_are_answers(cp: SyncCheckpointer, shell: Shell) -> None:
    tools = shell.tools(started(cp))
    for version in range(3):
        (result,) = dispatch(tools, "call_1")
        assert result.replayed is False
        cp.append_checkpoint("s", [ask("call_1"), *answer(result)], expected_version=version)

    assert answered() == [1, 2, 3]


def test_result_that_is_appended_without_a_run_is_an_answer(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell
) -> None:
    (result,) = dispatch(shell.tools(started(cp)), "call_1")
    cp.close()
    other = open_checkpointer()
    other.append_checkpoint("s", [ask("call_1"), *answer(result)], expected_version=0)
    other.start_session("s")

    assert (answered(), dispatch(shell.tools(other), "call_2")[0].replayed) == ([1], False)


def test_handles_of_a_session_one_after_the_other(cp: SyncCheckpointer, shell: Shell) -> None:
    """A web application: each request takes the session and releases it."""
    tools = shell.tools(cp)
    for turn in range(3):
        with cp.session("s", registry=tools) as session:
            results = [session.dispatch("bash", TEST, call_id) for call_id in ("call_1", "call_2")]
            session.append([ask("call_1", "call_2"), *answer(*results)])
        assert contents(results) == [f"make test #{2 * turn + 1}", f"make test #{2 * turn + 2}"]


def test_many_messages_at_once_are_answers(cp: SyncCheckpointer, shell: Shell) -> None:
    """More than one statement takes, on every database."""
    (result,) = dispatch(shell.tools(started(cp)), "call_1")
    save(cp, [{"role": "user", "content": str(number)} for number in range(100)], result)

    assert answered() == [1]


def test_snapshots_written_behind_are_answers(cp: SyncCheckpointer, shell: Shell) -> None:
    tools = shell.tools(started(cp))
    with SyncWriteBehind(cp) as behind:
        transcript: list[dict[str, Any]] = []
        for turn in range(3):
            (result,) = dispatch(tools, "call_1")
            assert result.content == f"make test #{turn + 1}"
            for part in ([ask("call_1")], answer(result)):
                transcript = [*transcript, *part]
                behind.save_checkpoint("s", transcript, None, 0, step=turn)

    assert None not in answered()


def test_phases_answer_with_the_transcript_they_bring(cp: SyncCheckpointer, shell: Shell) -> None:
    tools = shell.tools(started(cp))
    (result,) = dispatch(tools, "call_1")
    cp.save_phase("s", PostToolBatch(), transcript=[ask("call_1"), *answer(result)])

    assert (answered(), dispatch(tools, "call_1")[0].replayed) == ([1], False)


def test_error_of_a_dispatch_gives_its_operation_back(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is asked again within the run, after an error that said nothing about the call."""
    dispatch(shell.tools(started(cp)), "call_1")
    taker = lose_run(open_checkpointer)
    tools = shell.tools(taker)
    with monkeypatch.context() as patch:
        patch.setattr(issue_call, "issue_call", unavailable)
        with pytest.raises(StorageUnavailable):
            dispatch(tools, "new_1")

    assert [result.replayed for result in dispatch(tools, "new_2", "new_1")] == [True, False]


def unavailable(*_: object, **__: object) -> None:
    raise StorageUnavailable("The database is away.", may_have_happened=False)


# the other policies


def test_once_says_that_it_was_answered_before(
    cp: SyncCheckpointer, effects: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tools = Shell(effects, "once").tools(started(cp))
    first, again = dispatch(tools, "call_1", "call_2")
    assert (again.replayed, again.answered_before, caplog.messages) == (True, False, [])

    save(cp, [], first)
    late = dispatch(tools, "call_3", "call_4")
    assert late == [ToolResult(result.call_id, first.content, replayed=True, answered_before=True) for result in late]
    (record,) = [record for record in caplog.records if record.name.startswith("checkpoints")]
    assert (record.levelno, "'unanswered'" in record.message, "'call'" in record.message) == (
        logging.WARNING,
        True,
        True,
    )


def test_policy_that_was_chosen_is_reported_quietly(
    cp: SyncCheckpointer, effects: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "checkpoints.tools")
    tools = Shell(effects, idempotency="once").tools(started(cp))
    save(cp, [], *dispatch(tools, "call_1"))
    dispatch(tools, "call_2")

    assert [record.levelno for record in caplog.records if "call_2" in record.message] == [logging.INFO]


def test_change_of_the_policy_keeps_what_is_open(cp: SyncCheckpointer, open_checkpointer: Open, effects: Path) -> None:
    dispatch(Shell(effects, "once").tools(started(cp)), "call_1")

    assert dispatch(Shell(effects).tools(lose_run(open_checkpointer)), "new_1")[0].replayed is True


def test_tool_has_the_policy_of_its_registry_unless_it_has_its_own(cp: SyncCheckpointer, effects: Path) -> None:
    tools = ToolRegistry(checkpointer=started(cp), session_id="s", idempotency="call")
    tools.tool(name="default")(lambda: "")
    tools.tool(name="own", idempotency="once")(lambda: "")
    for tool in ("default", "own"):
        tools.dispatch(tool, {}, f"{tool}_1")

    assert dict(ToolCall.objects.values_list("tool", "key_policy")) == {"default": "call", "own": "once"}


def test_key_given_by_a_program_has_no_policy_and_never_matches(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: Shell
) -> None:
    started(cp).record_tool_call_issued("s", "call_1", "bash", TEST, "its own key")
    cp.record_tool_call_result("s", "call_1", "logged", True)

    assert ToolCall.objects.get().key_policy == ""
    assert dispatch(shell.tools(lose_run(open_checkpointer)), "new_1")[0].replayed is False


def test_result_of_a_program_s_own_call_is_an_answer(cp: SyncCheckpointer) -> None:
    started(cp).record_tool_call_issued("s", "call_1", "bash", TEST, "its own key")
    cp.record_tool_call_result("s", "call_1", "logged", True)
    save(cp, [], ToolResult("call_1", "logged"))

    assert answered() == [1]


def test_steps_of_workflows_are_no_answers_and_never_match(cp: SyncCheckpointer, shell: Shell) -> None:
    tools = shell.tools(started(cp))
    cp.workflow("s", "w").step("test", tools.tools["bash"], "make test")
    save(cp, [], ToolResult("w/test", "a message that names it"))

    assert (answered(), ToolCall.objects.get().key_policy) == ([None], "step")
    assert dispatch(tools, "call_1")[0].content == "make test #2"


@pytest.mark.parametrize("policy", ["args", "arguments", None, 3, ["once"]], ids=repr)
def test_unknown_policy_is_refused_at_registration(policy: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        ToolRegistry(idempotency=policy)
    assert "'once'" in refused.value.detail
    if policy is not None:
        with pytest.raises(InvalidInput):
            ToolRegistry().tool(idempotency=policy)(lambda: "")
        with pytest.raises(InvalidInput):
            ToolRegistry([Tool("bash", lambda: "", idempotency=policy)])


def test_unanswered_needs_a_session() -> None:
    with pytest.raises(InvalidInput):
        ToolRegistry().tool(idempotency="unanswered", scope="workspace")(lambda: "")
    with pytest.raises(InvalidInput):
        ToolRegistry(idempotency="unanswered").tool(scope="workspace")(lambda: "")
    ToolRegistry(idempotency="unanswered").tool(scope="workspace", idempotency="once")(lambda: "")
