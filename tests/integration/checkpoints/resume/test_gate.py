"""The gate: a run does not continue while the outcome of a call is unknown."""

from typing import Any

import pytest

from checkpoints import SyncCheckpointer, ToolRegistry, ToolResult
from checkpoints.exceptions import (
    CheckpointCorrupted,
    IntegrityError,
    ReviewRequired,
    SchemaFromFuture,
    SessionNotFound,
    SessionQuarantined,
)
from checkpoints.models import Checkpoint, Run, Session, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import (
    call_statuses,
    conversation,
    interrupt_call,
    start_session,
    text_message,
)


def calling(*call_ids: str, **args: Any) -> dict[str, Any]:
    """Return an assistant message that calls `pay`; without `args`, the calls have the orders 1, 2, …"""
    asked = [(call_id, args or {"order": number}) for number, call_id in enumerate(call_ids, 1)]
    blocks = [{"kind": "tool_call", "id": call_id, "name": "pay", "args": each} for call_id, each in asked]
    return {"role": "assistant", "blocks": blocks}


def answering(call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "blocks": [{"kind": "tool_result", "call_id": call_id, "content": content}]}


def paying(cp: SyncCheckpointer, *, missing: int = 0) -> ToolRegistry:
    registry = ToolRegistry(checkpointer=cp, session_id="s")

    @registry.tool(idempotency="call")
    def pay(order: int) -> str:
        if order == missing:
            raise ValueError("no such order")
        return f"paid {order}"

    return registry


def test_unknown_session_cannot_be_resumed(cp: SyncCheckpointer) -> None:
    with pytest.raises(SessionNotFound):
        cp.resume("unknown")
    with pytest.raises(SessionNotFound):
        cp.preview_resume("unknown")


def test_resume_continues_after_the_last_version(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        start_session(first).save_checkpoint(
            "s", conversation("ab"), {"goal": {"n": 1}}, 0.75, usage={"total_tokens": 3}
        )
    point = open_checkpointer().resume("s")

    assert (point.transcript, point.plan, point.budget_spent_usd, point.usage, point.version) == (
        conversation("ab"),
        {"goal": {"n": 1}},
        0.75,
        {"total_tokens": 3},
        1,
    )
    assert (point.finished, point.result, point.pending_response, point.replayable) == (False, None, None, {})
    assert point.run is not None
    assert (point.run.number, point.run.resumed_from_id) == (2, Run.objects.get(number=1).pk)


def test_resume_of_a_session_without_versions_starts_empty(open_checkpointer: Open) -> None:
    start_session(open_checkpointer()).close()
    point = open_checkpointer().resume("s")

    assert (point.transcript, point.plan, point.version, point.finished) == ([], None, 0, False)


def test_resume_by_the_owner_keeps_the_run(cp: SyncCheckpointer) -> None:
    run = cp.start_session("s")
    point = cp.resume("s")

    assert point.run is not None
    assert (point.run.pk, Run.objects.count()) == (run.pk, 1)


def test_undecided_call_refuses_the_run_and_releases_the_session(open_checkpointer: Open) -> None:
    taker, call = interrupt_call(start_session(open_checkpointer()), open_checkpointer)
    taker.close()
    rival = open_checkpointer()

    for _ in range(2):
        with pytest.raises(ReviewRequired) as caught:
            rival.resume("s")
        assert caught.value.calls == [call]
    assert (Session.objects.get().status, call_statuses()) == ("needs_review", [("call_1", 1, "interrupted")])
    assert Run.objects.filter(status="running").count() == 0


def test_reading_call_that_was_interrupted_is_discarded(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        start_session(first).record_tool_call_issued("s", "call_1", "look", {}, "key", side_effects=("read",))
    second = open_checkpointer()
    point = second.resume("s")

    assert (call_statuses(), point.replayable) == ([("call_1", 1, "discarded")], {})
    second.record_tool_call_issued("s", "call_1", "look", {}, "key", side_effects=("read",))
    assert call_statuses() == [("call_1", 1, "discarded"), ("call_1", 2, "issued")]


@pytest.mark.parametrize("effect", ["write", "mutate"])
def test_interrupted_mutating_call_needs_a_decision(open_checkpointer: Open, effect: str) -> None:
    with open_checkpointer() as first:
        start_session(first).record_tool_call_issued("s", "call_1", "put", {}, "key", side_effects=(effect,))

    with pytest.raises(ReviewRequired):
        open_checkpointer().resume("s")
    assert call_statuses() == [("call_1", 1, "interrupted")]


def test_open_call_of_the_same_run_needs_a_decision(cp: SyncCheckpointer) -> None:
    start_session(cp).record_tool_call_issued("s", "call_1", "pay", {}, "key")

    with pytest.raises(ReviewRequired):
        cp.resume("s")
    assert call_statuses() == [("call_1", 1, "interrupted")]


# what is replayed


def test_finished_calls_of_a_batch_are_replayed(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        start_session(first).save_checkpoint("s", [calling("call_1", "call_2", "call_3")], None, 0)
        registry = paying(first, missing=2)
        for number in (1, 2, 3):
            registry.dispatch("pay", {"order": number}, f"call_{number}")

    assert open_checkpointer().resume("s").replayable == {
        "call_1": ToolResult("call_1", "paid 1", replayed=True),
        "call_3": ToolResult("call_3", "paid 3", replayed=True),
    }


def test_calls_answered_in_the_transcript_are_not_replayed(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        start_session(first)
        result = paying(first).dispatch("pay", {"order": 1}, "call_1")
        first.save_checkpoint("s", [calling("call_1", order=1), answering("call_1", result.content)], None, 0)

    assert open_checkpointer().resume("s").replayable == {}


def test_calls_of_a_partly_saved_batch_are_replayed(open_checkpointer: Open) -> None:
    asked = calling("call_1", "call_2")
    with open_checkpointer() as first:
        start_session(first).save_checkpoint("s", [asked], None, 0)
        registry = paying(first)
        for number in (1, 2):
            registry.dispatch("pay", {"order": number}, f"call_{number}")
        first.save_checkpoint("s", [asked, answering("call_1", "paid 1")], None, 0)

    assert open_checkpointer().resume("s").replayable == {"call_2": ToolResult("call_2", "paid 2", replayed=True)}


@pytest.mark.parametrize("order", [1, 2])
def test_reused_id_is_not_answered_by_the_earlier_call(open_checkpointer: Open, order: int) -> None:
    with open_checkpointer() as first:
        start_session(first)
        first.save_checkpoint("s", [calling("call_1", order=1)], None, 0)
        paying(first).dispatch("pay", {"order": 1}, "call_1")
        answered = [calling("call_1", order=1), answering("call_1", "paid 1")]
        first.save_checkpoint("s", [*answered, calling("call_1", order=order)], None, 0)
    second = open_checkpointer()
    point = second.resume("s")

    assert point.replayable == {}
    assert paying(second).dispatch("pay", {"order": order}, "call_1") == ToolResult("call_1", f"paid {order}")


@pytest.mark.parametrize("whole", [True, False], ids=["saved", "appended"])
def test_id_answered_since_the_resume_is_another_call(open_checkpointer: Open, whole: bool) -> None:
    asked = calling("call_1", order=1)
    with open_checkpointer() as first:
        start_session(first).save_checkpoint("s", [asked], None, 0)
        paying(first).dispatch("pay", {"order": 1}, "call_1")
    second = open_checkpointer()
    version = second.resume("s").version
    registry = paying(second)
    assert registry.dispatch("pay", {"order": 1}, "call_1").replayed is True

    new = [answering("call_1", "paid 1"), asked]
    if whole:
        second.save_checkpoint("s", [asked, *new], None, 0)
    else:
        second.append_checkpoint("s", new, expected_version=version)
    assert registry.dispatch("pay", {"order": 1}, "call_1") == ToolResult("call_1", "paid 1")


def test_call_is_found_by_its_id_after_an_intermediate_save(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        start_session(first).save_checkpoint("s", [calling("call_1", order=1)], None, 0)
        paying(first).dispatch("pay", {"order": 1}, "call_1")
        first.save_checkpoint("s", [calling("call_1", order=1)], None, 0.5, phase="pre_tool_batch")
    second = open_checkpointer()
    point = second.resume("s")

    assert point.replayable == {"call_1": ToolResult("call_1", "paid 1", replayed=True)}
    assert paying(second).dispatch("pay", {"order": 1}, "call_1").replayed is True


# the model's answer


def test_pending_model_answer_is_returned(open_checkpointer: Open) -> None:
    answer = {"content": [], "tool_calls": [{"id": "call_1"}]}
    with open_checkpointer() as first:
        start_session(first).save_checkpoint(
            "s", conversation("a"), None, 0, phase="post_llm", payload={"pending_llm_response": answer}
        )

    assert open_checkpointer().resume("s").pending_response == answer


@pytest.mark.parametrize("payload", [None, {}, {"pending_llm_response": None}, {"other": 1}], ids=repr)
def test_missing_pending_answer_is_none(open_checkpointer: Open, payload: dict[str, Any] | None) -> None:
    with open_checkpointer() as first:
        start_session(first).save_checkpoint("s", [], None, 0, payload=payload)

    assert open_checkpointer().resume("s").pending_response is None


@pytest.mark.parametrize("damaged", ["text", 5, [], {}, False], ids=repr)
def test_damaged_pending_answer_raises_an_error(open_checkpointer: Open, damaged: object) -> None:
    with open_checkpointer() as first:
        start_session(first).save_checkpoint("s", [], None, 0, payload={"pending_llm_response": damaged})
    second = open_checkpointer()

    with pytest.raises(CheckpointCorrupted):
        second.resume("s")
    with pytest.raises(CheckpointCorrupted):
        second.preview_resume("s")
    with pytest.raises(CheckpointCorrupted):
        open_checkpointer().start_session("s")


def test_damaged_version_is_not_resumed(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        start_session(first).save_checkpoint("s", [text_message("a")], {"goal": 1}, 0)
    Checkpoint.objects.update(plan="{")

    with pytest.raises(CheckpointCorrupted):
        open_checkpointer().resume("s")


def test_version_of_a_newer_schema_is_not_changed(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        start_session(first).save_checkpoint("s", [], None, 0)
        first.record_tool_call_issued("s", "call_1", "pay", {}, "key")
    Checkpoint.objects.update(schema_version=99)
    before = (Session.objects.values().get(), call_statuses())

    for attempt in (open_checkpointer().resume, open_checkpointer().start_session):
        with pytest.raises(SchemaFromFuture):
            attempt("s")
    assert (Session.objects.values().get(), call_statuses()) == before


def test_run_at_the_gate_does_not_wait_for_a_decision_about_an_altered_call(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        start_session(first).record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    ToolCall.objects.update(args='{"order":18}')
    with pytest.raises(IntegrityError, match="its arguments do not match their digest"):
        open_checkpointer().resume("s", wait=True)
    assert Session.objects.get().quarantined_at is not None
    with pytest.raises(SessionQuarantined):
        open_checkpointer().resume("s", wait=True)
