"""Sessions whose model wrote arguments that have no JSON form can be resumed."""

import gc
import json
from collections.abc import Iterator
from typing import Any

import pytest

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import ApprovalRequired, CheckpointCorrupted, NotRepresentable
from checkpoints.formats import digests
from checkpoints.models import Session, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import lose_run, start_session, text_message
from tests.support import redos_texts

pytestmark = pytest.mark.django_db(transaction=True)

DEEP = '{"order":' * 990 + "17" + "}" * 990


@pytest.fixture(autouse=True)
def _no_garbage_collection_in_recursions() -> Iterator[None]:
    """A finalizer that a collection runs near the recursion limit raises, whatever it does."""
    gc.disable()
    yield
    gc.enable()


def asking(args: str) -> list[dict[str, Any]]:
    """Return an assistant message with a call in each of the common shapes."""
    function = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": args}}
    return [
        text_message("ask", "assistant", blocks=[{"kind": "tool_call", "id": "c1", "name": "pay", "args": args}]),
        {"role": "assistant", "content": "", "tool_calls": [function]},
    ]


@pytest.mark.parametrize("name", redos_texts.UNREPRESENTABLE)
@pytest.mark.parametrize("shape", [0, 1])
def test_session_with_unrepresentable_arguments_is_resumed(name: str, shape: int, open_checkpointer: Open) -> None:
    message = asking(redos_texts.UNREPRESENTABLE[name])[shape]
    start_session(open_checkpointer()).save_checkpoint("s", [text_message("pay"), message], None, 0)
    taker = open_checkpointer()
    assert taker.preview_resume("s")["version"] == 1
    point = taker.resume("s", takeover=True)
    assert point.transcript[1] == message
    taker.save_checkpoint("s", [*point.transcript, text_message("on")], None, 0)


def paying(cp: SyncCheckpointer, **options: Any) -> ToolRegistry:
    registry = ToolRegistry(checkpointer=cp, session_id="s")

    @registry.tool(**options)
    def pay(order: Any) -> str:
        return f"paid {order}"

    return registry


def test_arguments_too_deep_to_store_are_refused_before_anything_is_written(cp: SyncCheckpointer) -> None:
    registry = paying(start_session(cp))
    deep = {"order": json.loads("[" * 300 + "]" * 300)}
    answer = registry.dispatch("pay", deep, "c1")
    assert answer.is_error
    assert "nested more than 200 levels deep" in str(answer.content)
    with pytest.raises(NotRepresentable, match="200 levels"):
        cp.record_tool_call_issued("s", "c1", "pay", deep, "key")
    assert ToolCall.objects.count() == 0


def test_unreadable_stored_result_is_named(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    cp.finish_session("s", "completed", "done")
    Session.objects.update(result=DEEP)
    with pytest.raises(CheckpointCorrupted, match="the result of the session"):
        open_checkpointer().resume("s")


def test_unreadable_stored_arguments_are_named_and_not_dispatched(open_checkpointer: Open, settings: Any) -> None:
    settings.HARNESS_DECISION_SIGNING_KEY = ""  # else the approval does not match them, which is found first
    cp = start_session(open_checkpointer())
    with pytest.raises(ApprovalRequired):
        paying(cp, requires_approval=True).dispatch("pay", {"order": 17}, "c1")
    cp.edit_call("s", "c1", {"order": 18}, actor="alice", reason="Other order.", revision=1)
    cp.approve_call("s", "c1", actor="bob", reason="I looked.", revision=2)
    ToolCall.objects.update(args=DEEP, args_digest=digests.digest_text(DEEP))
    taker = lose_run(open_checkpointer)
    with pytest.raises(CheckpointCorrupted, match="the arguments of call 'c1'"):
        paying(taker, requires_approval=True).dispatch("pay", {"order": 17}, "c1")
