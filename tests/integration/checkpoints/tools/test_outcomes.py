"""Outcomes of calls: the stored status is always true."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import connection

from checkpoints import Landed, NotLanded, SyncCheckpointer, ToolRegistry, ToolResult, Unknown, tool
from checkpoints.enums import AuditKind
from checkpoints.exceptions import LateResultRefused, ResultNotRecorded, ReviewRequired
from checkpoints.formats import digests
from checkpoints.models import AuditEvent, LateResult, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import call_statuses, lose_run, start_session

#: Columns of a call that say how it ended.
_EVIDENCE = ("status", "reason", "result", "result_digest", "error_type", "error_message", "settled_at")


class Unsayable(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no words")

    __str__ = __repr__


def raises(error: BaseException) -> Callable[[], Any]:
    def run() -> None:
        raise error

    return run


def only(cp: SyncCheckpointer, run: Callable[..., Any], **options: Any) -> ToolRegistry:
    """A registry with one tool, `act`, in a started session."""
    return ToolRegistry([tool(name="act", **options)(run)], start_session(cp), "s")


def act(registry: ToolRegistry, call_id: str = "call_1") -> ToolResult:
    return registry.dispatch("act", {}, call_id, in_progress="raise")


def test_plain_error_is_a_failure_and_may_be_retried(cp: SyncCheckpointer) -> None:
    registry = only(cp, raises(ValueError("declined")))

    assert act(registry) == ToolResult("call_1", "act raised ValueError: declined", is_error=True)
    assert act(registry) == ToolResult("call_1", "act raised ValueError: declined", is_error=True, attempt=2)
    assert call_statuses() == [("call_1", 1, "failed"), ("call_1", 2, "failed")]
    assert ToolCall.objects.values_list("error_type", "error_message")[0] == ("ValueError", "declined")


@pytest.mark.parametrize(
    "error",
    [TimeoutError("no answer"), ConnectionResetError(), ExceptionGroup("tasks", [TimeoutError()])],
    ids=repr,
)
def test_ambiguous_error_needs_review_and_never_runs_again(cp: SyncCheckpointer, error: Exception) -> None:
    registry = only(cp, raises(error))

    for call_id in ("call_1", "call_2"):
        with pytest.raises(ReviewRequired):
            act(registry, call_id)
    call = ToolCall.objects.get()
    assert (call.status, call.reason, call.error_type) == ("interrupted", "ambiguous_error", type(error).__name__)
    assert (call.error_message, call.result) == (str(error), None)
    event = AuditEvent.objects.get(kind=AuditKind.CALL_INTERRUPTED)
    place = {"call_id": "call_1", "step": 0, "attempt": 1, "tool": "act"}
    assert event.actor == "run 1"
    assert json.loads(event.details) == {**place, "reason": "ambiguous_error", "error_type": call.error_type}


def test_decisions_and_withdrawals_leave_the_error_as_it_is(cp: SyncCheckpointer) -> None:
    with pytest.raises(ReviewRequired):
        act(only(cp, raises(ConnectionResetError("reset\0 by \ud800 peer"))))
    interrupted = ToolCall.objects.values(*_EVIDENCE).get()
    assert interrupted == {
        **dict.fromkeys(_EVIDENCE),
        "status": "interrupted",
        "reason": "ambiguous_error",
        "result_digest": digests.digest_outcome(None, "reset by \\ud800 peer"),
        "error_type": "ConnectionResetError",
        "error_message": "reset by \\ud800 peer",
    }
    for decide in (
        partial(cp.confirm_landed, "s", "call_1", "paid"),
        partial(cp.mark_failed, "s", "call_1"),
        partial(cp.approve_rerun, "s", "call_1"),
    ):
        decide(revision=ToolCall.objects.get().revision, actor="ann", reason="seen")
        assert ToolCall.objects.get().error_message == interrupted["error_message"]
        revision = ToolCall.objects.get().revision
        cp.withdraw_decision("s", "call_1", revision=revision, actor="ann", reason="a mistake")
        assert ToolCall.objects.values(*_EVIDENCE).get() == interrupted


def test_error_of_a_replaced_run_is_late(open_checkpointer: Open) -> None:
    def pay() -> None:
        lose_run(open_checkpointer)
        raise TimeoutError("no answer")

    with pytest.raises(LateResultRefused):
        act(only(open_checkpointer(), pay))
    assert LateResult.objects.values_list("success", "result").get() == (False, '"TimeoutError: no answer"')


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_interrupt_of_the_process_leaves_the_outcome_unknown(cp: SyncCheckpointer, error: BaseException) -> None:
    registry = only(cp, raises(error))

    with pytest.raises(type(error)):
        act(registry)
    assert ToolCall.objects.values_list("status", "reason").get() == ("interrupted", "cancelled")


def test_tool_may_declare_ambiguous_errors(cp: SyncCheckpointer) -> None:
    registry = only(cp, raises(TimeoutError()), ambiguous_errors=())
    assert act(registry).is_error is True

    other = ToolRegistry([tool(name="act", ambiguous_errors=(KeyError,))(raises(KeyError()))], cp, "s")
    with pytest.raises(ReviewRequired):
        act(other)


def test_failing_error_classification_leaves_the_outcome_unknown(cp: SyncCheckpointer) -> None:
    def judge(error: BaseException) -> bool:
        raise RuntimeError("cannot judge")

    with pytest.raises(ReviewRequired):
        act(only(cp, raises(ValueError()), ambiguous_errors=judge))
    assert call_statuses() == [("call_1", 1, "interrupted")]


@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "async"])
def test_timed_out_tool_needs_review(cp: SyncCheckpointer, is_async: bool) -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    def long() -> None:
        asyncio.run(asyncio.wait_for(forever(), 5))

    with pytest.raises(ReviewRequired):
        act(only(cp, forever if is_async else long, timeout=0.05))
    assert ToolCall.objects.values_list("status", "reason").get() == ("interrupted", "ambiguous_error")


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", "text"),
        ("", ""),
        (None, "null"),
        ({"b": 1, "a": [True]}, '{"a":[true],"b":1}'),
        ("\0 and \ud800", "\0 and \ud800"),
        ({1, 2}, "(not JSON) {1, 2}"),
        (float("nan"), "(not JSON) nan"),
        ({1: "one"}, "(not JSON) {1: 'one'}"),
        (b"bytes", "(not JSON) b'bytes'"),
    ],
    ids=ascii,
)
def test_value_of_every_kind_becomes_a_result(cp: SyncCheckpointer, value: object, content: str) -> None:
    registry = only(cp, lambda: value)

    assert act(registry) == ToolResult("call_1", content)
    assert act(registry, "call_2") == ToolResult("call_2", content, replayed=True)


@pytest.mark.parametrize(
    "value", [Unsayable(), 10**5000, "\ud83d\ude00", "x" * (65 * 2**20)], ids=["unsayable", "huge int", "pair", "large"]
)
def test_unserializable_result_completes_the_call(cp: SyncCheckpointer, value: object) -> None:
    registry = only(cp, lambda: value)
    first = act(registry)

    assert (first.is_error, call_statuses()) == (False, [("call_1", 1, "completed")])
    assert act(registry, "call_2") == ToolResult("call_2", first.content, replayed=True)


def test_error_without_a_printable_message_is_a_failure(cp: SyncCheckpointer) -> None:
    assert act(only(cp, raises(Unsayable()))).is_error is True
    assert call_statuses() == [("call_1", 1, "failed")]


def test_result_of_a_replaced_run_is_late(open_checkpointer: Open) -> None:
    def pay() -> str:
        lose_run(open_checkpointer)
        return "paid"

    registry = only(open_checkpointer(), pay)

    with pytest.raises(LateResultRefused):
        act(registry)
    late = LateResult.objects.get()
    assert (late.success, late.result_text, call_statuses()) == (True, "paid", [("call_1", 1, "interrupted")])


def test_result_after_close_is_late(open_checkpointer: Open) -> None:
    cp = open_checkpointer()

    def pay() -> str:
        cp.close()
        return "paid"

    with pytest.raises(LateResultRefused):
        act(only(cp, pay))
    assert LateResult.objects.get().result_text == "paid"
    with pytest.raises(ReviewRequired):
        open_checkpointer().resume("s")
    assert call_statuses() == [("call_1", 1, "interrupted")]


def break_log() -> str:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE checkpoints_toolcall RENAME TO away")
    return "paid"


def mend_log() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE away RENAME TO checkpoints_toolcall")


def test_unrecorded_result_is_returned_and_needs_a_decision(cp: SyncCheckpointer) -> None:
    registry = only(cp, break_log)
    try:
        with pytest.raises(ResultNotRecorded) as caught:
            act(registry)
    finally:
        mend_log()

    assert (caught.value.call_id, caught.value.result) == ("call_1", "paid")
    for call_id in ("call_1", "call_2"):
        with pytest.raises(ReviewRequired):
            act(registry, call_id)
    with pytest.raises(ReviewRequired):
        cp.resume("s", registry)
    assert call_statuses() == [("call_1", 1, "interrupted")]


# the tool's own hook settles an ambiguous error at once


@pytest.mark.parametrize(
    ("answer", "result", "status"),
    [
        (Landed("found it"), ToolResult("call_1", "found it"), "completed"),
        (NotLanded(), ToolResult("call_1", "The effect was not found.", is_error=True), "failed"),
    ],
    ids=["landed", "not landed"],
)
def test_hook_settles_an_ambiguous_error(
    cp: SyncCheckpointer, answer: Landed | NotLanded, result: ToolResult, status: str
) -> None:
    registry = only(cp, raises(TimeoutError()), verify=lambda args: answer)

    assert act(registry) == result
    assert call_statuses() == [("call_1", 1, status)]


def test_unknown_answer_of_a_hook_leaves_the_decision_to_a_person(cp: SyncCheckpointer) -> None:
    with pytest.raises(ReviewRequired):
        act(only(cp, raises(TimeoutError()), verify=lambda args: Unknown("the bank is closed")))
    assert call_statuses() == [("call_1", 1, "interrupted")]


def test_exit_code_of_a_shell_command_is_stored_with_its_result(cp: SyncCheckpointer) -> None:
    start_session(cp)
    registry = ToolRegistry(
        [
            tool(name="shell")(lambda: {"output": "fatal", "metadata": {"exit_code": 128}}),
            tool(name="act")(lambda: "Exit code 2"),
        ],
        cp,
        "s",
    )
    for number, name in enumerate(("shell", "act")):
        registry.dispatch(name, {}, f"call_{number}")
    cp.record_tool_call_issued("s", "call_4", "exec", {}, "key")
    cp.record_tool_call_result("s", "call_4", "Exit code: 0\nOutput:\na", True)
    cp.record_tool_call_issued("s", "call_5", "exec", {}, "other")
    cp.record_tool_call_result("s", "call_5", "Exit code: 5", True, step=0)
    assert list(ToolCall.objects.order_by("pk").values_list("tool", "status", "exit_code")) == [
        ("shell", "completed", 128),
        ("act", "completed", None),
        ("exec", "completed", 0),
        ("exec", "completed", 5),
    ]
