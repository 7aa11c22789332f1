"""The preview of a resume shows what it would do, and changes nothing."""

from typing import Any

import pytest

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import ReviewRequired
from checkpoints.models import AuditEvent, Checkpoint, Decision, Run, Session, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import conversation, lose_run, start_session


def everything() -> list[Any]:
    models = (Session, Run, ToolCall, Decision, AuditEvent, Checkpoint)
    return [list(model.objects.order_by("pk").values()) for model in models]


def shape(preview: dict[str, Any]) -> dict[str, Any]:
    """Return a preview in which calls are represented by their ids."""
    return {
        key: [call["call_id"] for call in value] if isinstance(value, list) else value for key, value in preview.items()
    }


def batch(cp: SyncCheckpointer) -> ToolRegistry:
    """Create a session with one completed, one failed and one running call of a batch."""
    registry = ToolRegistry(checkpointer=start_session(cp), session_id="s")

    @registry.tool
    def pay(order: int) -> str:
        if order == 2:
            raise ValueError("declined")
        return f"paid {order}"

    cp.save_checkpoint(
        "s", conversation("ab"), None, 0, phase="post_llm", payload={"pending_llm_response": {"tool_calls": [1, 2, 3]}}
    )
    registry.dispatch("pay", {"order": 1}, "call_1")
    registry.dispatch("pay", {"order": 2}, "call_2")
    cp.record_tool_call_issued("s", "call_3", "pay", {"order": 3}, "key 3")
    cp.record_tool_call_issued("s", "call_4", "look", {}, "key 4", side_effects=("read",))
    return registry


def test_preview_equals_the_resume(open_checkpointer: Open) -> None:
    with open_checkpointer() as first:
        batch(first)
    cp = open_checkpointer()
    before = everything()
    preview = cp.preview_resume("s")

    assert shape(preview) == {
        "version": 1,
        "finished": False,
        "pending_response": True,
        "replay": ["call_1"],
        "run": ["call_2"],
        "ask": ["call_3"],
    }
    assert everything() == before
    with pytest.raises(ReviewRequired) as caught:
        cp.resume("s")
    assert [call["call_id"] for call in caught.value.calls] == ["call_3"]
    assert shape(cp.preview_resume("s")) == shape(preview)


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        ("confirm_landed", {"replay": ["call_1", "call_3"], "run": ["call_2"], "ask": []}),
        ("mark_failed", {"replay": ["call_1", "call_3"], "run": ["call_2"], "ask": []}),
        ("approve_rerun", {"replay": ["call_1"], "run": ["call_2", "call_3"], "ask": []}),
    ],
)
def test_preview_after_a_decision_equals_the_resume(
    open_checkpointer: Open, decision: str, expected: dict[str, list[str]]
) -> None:
    batch(open_checkpointer())
    taker = lose_run(open_checkpointer)
    more = {"result_text": "paid 3"} if decision == "confirm_landed" else {}
    getattr(taker, decision)("s", "call_3", actor="alice", reason="I looked.", revision=2, **more)
    taker.close()
    cp = open_checkpointer()
    preview = shape(cp.preview_resume("s"))
    point = cp.resume("s")

    assert {key: preview[key] for key in expected} == expected
    assert sorted(point.replayable) == expected["replay"]
    assert (preview["version"], preview["pending_response"]) == (point.version, point.pending_response is not None)


def test_preview_of_a_session_without_versions(cp: SyncCheckpointer) -> None:
    start_session(cp)

    assert cp.preview_resume("s") == {
        "version": None,
        "finished": False,
        "pending_response": False,
        "replay": [],
        "run": [],
        "ask": [],
    }


def test_preview_of_a_finished_session_does_nothing(cp: SyncCheckpointer) -> None:
    registry = ToolRegistry(checkpointer=start_session(cp), session_id="s")
    registry.tool(name="act")(lambda: "done")
    registry.dispatch("act", {}, "call_1")
    cp.finish_session("s", "completed")
    preview = cp.preview_resume("s")
    point = cp.resume("s")

    assert (preview["finished"], preview["replay"], preview["run"], preview["ask"]) == (True, [], [], [])
    assert (point.finished, point.replayable) == (True, {})
