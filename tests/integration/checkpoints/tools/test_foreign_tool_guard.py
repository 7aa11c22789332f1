"""The guard logs, replays and gates calls of tools that a framework defines."""

import asyncio
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connections

from checkpoints import Checkpointer, SyncCheckpointer, ToolPolicies, ValueCodec, aguard, guard
from checkpoints.exceptions import ApprovalRequired, InvalidInput, ReviewRequired
from checkpoints.models import CallValue, ToolCall

Open = Callable[..., SyncCheckpointer]


@dataclass(frozen=True)
class Receipt:
    number: int


CODEC = ValueCodec(
    encode=lambda value: ("pickle", pickle.dumps(value)),
    decode=lambda encoded: pickle.loads(encoded[1]),  # noqa: S301 - of this test
    to_text=lambda value: f"receipt {value.number}",
)


class Mailer:
    """Tool that counts its effects."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def __call__(self, args: dict[str, Any]) -> Any:
        self.asked.append(args)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def run(self, args: dict[str, Any]) -> Any:
        return self(args)


@pytest.fixture
def started(cp: SyncCheckpointer) -> SyncCheckpointer:
    cp.start_session("s")
    return cp


def test_value_is_replayed_equal_and_the_effect_happens_once(
    started: SyncCheckpointer, open_checkpointer: Open
) -> None:
    mail = Mailer(Receipt(17))
    first = guard(started, "s", "send_mail", {"to": "alice"}, "call_1", mail, codec=CODEC)
    started.release_session("s")
    other = open_checkpointer()
    other.start_session("s")
    again = guard(other, "s", "send_mail", {"to": "alice"}, "call_2", mail, codec=CODEC)
    assert [(first.content, first.value, first.replayed), (again.content, again.value, again.replayed)] == [
        ("receipt 17", Receipt(17), False),
        ("receipt 17", Receipt(17), True),
    ]
    assert mail.asked == [{"to": "alice"}]


def test_async_tool_is_guarded(started: SyncCheckpointer) -> None:
    mail = Mailer(Receipt(17), Receipt(18))
    started.release_session("s")

    async def run() -> list[Any]:
        async with Checkpointer() as cp:
            await cp.start_session("s")
            results = [
                await aguard(cp, "s", "send_mail", {"to": "alice"}, f"call_{number}", mail.run, codec=CODEC)
                for number in (1, 2)
            ]
        return [(result.value, result.replayed) for result in results]

    assert asyncio.run(run()) == [(Receipt(17), False), (Receipt(18), False)]  # two calls of one run are two operations


def test_error_is_raised_to_the_framework_and_may_be_retried(started: SyncCheckpointer) -> None:
    mail = Mailer(ValueError("no such address"), "sent")
    with pytest.raises(ValueError, match="no such address"):
        guard(started, "s", "send_mail", {}, "call_1", mail)
    assert guard(started, "s", "send_mail", {}, "call_1", mail).attempt == 2
    assert [call.status for call in ToolCall.objects.order_by("pk")] == ["failed", "completed"]


def test_unknown_outcome_needs_a_decision(started: SyncCheckpointer) -> None:
    mail = Mailer(TimeoutError(), "sent again")
    with pytest.raises(ReviewRequired) as review:
        guard(started, "s", "send_mail", {}, "call_1", mail, codec=CODEC)
    with pytest.raises(ReviewRequired):
        guard(started, "s", "send_mail", {}, "call_2", mail, codec=CODEC)
    (call,) = review.value.calls
    started.confirm_landed(
        "s", "call_1", "It was sent.", actor="alice", reason="Seen.", revision=call["revision"], evidence=None
    )
    result = guard(started, "s", "send_mail", {}, "call_1", mail, codec=CODEC)
    assert (result.content, result.value, result.replayed) == ("It was sent.", None, True)
    assert len(mail.asked) == 1


def test_value_that_reports_a_failure_is_logged_as_failed(started: SyncCheckpointer) -> None:
    mail = Mailer("Error: busy", "sent")
    result = guard(started, "s", "send_mail", {}, "call_1", mail, failed=lambda value: value.startswith("Error"))
    assert (result.content, result.is_error, result.value) == ("Error: busy", True, "Error: busy")
    assert guard(started, "s", "send_mail", {}, "call_2", mail).content == "sent"


def test_policies_are_found_by_name(started: SyncCheckpointer) -> None:
    policies = ToolPolicies(
        {"get_*": {"side_effects": {"read"}}, "send_*": {"requires_approval": True}, "send_note": {}}
    )
    assert guard(started, "s", "get_mail", {}, "call_1", Mailer("3 mails"), policies=policies).content == "3 mails"
    assert not ToolCall.objects.exists()
    mail = Mailer("sent to bob")
    for name, call_id in (("send_mail", "call_2"), ("send_note", "call_3")):  # the first pattern that matches counts
        with pytest.raises(ApprovalRequired):
            guard(started, "s", name, {"to": "alice"}, call_id, mail, policies=policies)
    call = ToolCall.objects.get(tool="send_mail")
    started.edit_call("s", "call_2", {"to": "bob"}, actor="alice", reason="Moved.", revision=call.revision)
    call.refresh_from_db()
    started.approve_call("s", "call_2", actor="alice", reason="Read.", revision=call.revision)
    note = ToolCall.objects.get(tool="send_note")
    started.reject_call("s", "call_3", actor="alice", reason="Not needed.", message="No.", revision=note.revision)
    result = guard(started, "s", "send_mail", {"to": "alice"}, "call_2", mail, policies=policies)
    assert (result.content, mail.asked) == ("sent to bob", [{"to": "bob"}])
    guard(started, "s", "unheard_of", {}, "call_4", Mailer("done"), policies=policies)
    assert ToolCall.objects.get(tool="unheard_of").side_effects == "mutate"


def test_open_call_keeps_its_key_in_later_steps_and_forks(
    started: SyncCheckpointer, approver: SyncCheckpointer, open_checkpointer: Open
) -> None:
    policies = ToolPolicies({"send_*": {"requires_approval": True}}, idempotency="call")
    mail = Mailer("sent", "sent again")

    def send(cp: SyncCheckpointer, call_id: str = "call_1", session_id: str = "s") -> Any:
        return guard(cp, session_id, "send_mail", {"to": "alice"}, call_id, mail, policies=policies)

    def approve(call_id: str) -> None:
        call = ToolCall.objects.get(session__session_id="s", status="awaiting_approval")
        approver.approve_call("s", call_id, actor="alice", reason="Read.", revision=call.revision)

    with pytest.raises(ApprovalRequired):
        send(started)
    asked = [{"role": "assistant", "content": "It waits."}]
    started.save_checkpoint("s", asked, None, 0)  # another step begins
    approve("call_1")
    assert send(started).replayed is False
    started.release_session("s")
    started.fork_session("s", "fork")
    other = open_checkpointer()
    for session_id in ("s", "fork"):
        other.start_session(session_id)
        assert send(other, session_id=session_id).replayed is True
    assert ToolCall.objects.filter(session__session_id="s").count() == 1

    with pytest.raises(ApprovalRequired):  # another call id is another operation
        send(other, "call_2")
    approve("call_2")
    result = {"role": "tool", "tool_call_id": "call_1", "content": "sent"}
    other.save_checkpoint("s", [*asked, result], None, 0)
    assert send(other, "call_2").content == "sent again"
    with pytest.raises(ApprovalRequired):  # a later use of an answered call id is another operation, too
        send(other, "call_1")
    assert len(mail.asked) == 2


def test_policy_call_keeps_the_rejection_of_an_open_call(started: SyncCheckpointer, approver: SyncCheckpointer) -> None:
    policies = ToolPolicies({"send_*": {"requires_approval": True}}, idempotency="call")
    with pytest.raises(ApprovalRequired):
        guard(started, "s", "send_mail", {}, "call_1", Mailer(), policies=policies)
    started.save_checkpoint("s", [{"role": "assistant", "content": "It waits."}], None, 0)
    call = ToolCall.objects.get()
    approver.reject_call("s", "call_1", actor="alice", reason="Not needed.", message="No.", revision=call.revision)
    result = guard(started, "s", "send_mail", {}, "call_1", Mailer(), policies=policies)
    assert (result.content, result.is_error) == ("No.", True)


def test_value_without_an_encoding_is_stored_as_text(started: SyncCheckpointer) -> None:
    def fail(value: Any) -> Any:
        raise TypeError

    broken = ValueCodec(encode=fail, decode=fail, to_text=fail)
    result = guard(started, "s", "send_mail", {}, "call_1", Mailer("sent"), codec=broken)
    assert (result.content, result.value) == ("sent", "sent")
    assert not CallValue.objects.exists()


def test_invalid_options_are_refused_at_registration() -> None:
    with pytest.raises(InvalidInput):
        ToolPolicies({"send_*": {"side_effects": {"explode"}}})
    with pytest.raises(InvalidInput, match="'call' and the scope 'workspace'"):
        ToolPolicies({"send_*": {"scope": "workspace", "idempotency": "call"}})
    with pytest.raises(InvalidInput, match="'call' and the scope 'workspace'"):
        ToolPolicies({"send_*": {"scope": "workspace"}}, idempotency="call")


def test_a_blocking_client_leaves_no_connection_on_a_thread_of_the_loop(started: SyncCheckpointer) -> None:
    async def call() -> Any:
        await aguard(started, "s", "send_mail", {"to": "alice"}, "call_1", Mailer("sent").run)
        return await asyncio.to_thread(lambda: connections[started.store.using].connection)  # the thread is free again

    assert asyncio.run(call()) is None
