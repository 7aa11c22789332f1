"""Messages of Pydantic AI are parsed into parts and calls without loss."""

from typing import Any

from checkpoints.formats.parse_message_parts import (
    CallPart,
    ImagePart,
    OtherPart,
    ReasoningPart,
    ResultPart,
    TextPart,
    list_message_parts,
)
from checkpoints.formats.pydantic_ai_messages_to_blocks import find_message_role
from checkpoints.formats.tool_calls_in_messages import (
    RequestedCall,
    list_call_ids_of_results,
    list_requested_calls,
)

TIME = "2026-11-23T12:00:00Z"


def _request(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"kind": "request", "parts": list(parts), "run_id": "r", "timestamp": TIME, "state": "complete", **fields}


def _response(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"kind": "response", "parts": list(parts), "run_id": "r", "timestamp": TIME, "state": "complete", **fields}


def test_prompts_have_texts_and_files() -> None:
    image = {"kind": "binary", "data": "__77", "media_type": "image/png"}
    link = {"kind": "image-url", "url": "https://example.com/cat.png"}
    prompt = {"part_kind": "user-prompt", "content": ["See:", image, link], "timestamp": TIME}
    system = {"part_kind": "system-prompt", "content": "Be kind.", "timestamp": TIME}
    assert list_message_parts(_request(system, prompt, instructions=None)) == (
        OtherPart({"system_prompt": "Be kind."}),
        TextPart("See:"),
        ImagePart("data:image/png;base64,//77", number=1),
        ImagePart("https://example.com/cat.png", number=2),
    )
    assert list_message_parts(_request(system)) == (TextPart("Be kind."),)
    assert [find_message_role(_request(*parts)) for parts in ((system, prompt), (system,), ())] == [
        "user",
        "system",
        "user",
    ]


def test_answers_have_thoughts_calls_and_usage() -> None:
    message = _response(
        {"part_kind": "thinking", "content": "Hm."},
        {"part_kind": "text", "content": "I look it up."},
        {"part_kind": "tool-call", "tool_name": "look_up", "args": '{"order": 17}', "tool_call_id": "a"},
        {"part_kind": "tool-call", "tool_name": "now", "args": None, "tool_call_id": "b"},
        {"part_kind": "builtin-tool-call", "tool_name": "search", "args": {"q": "x"}, "tool_call_id": "c"},
        usage={"input_tokens": 5, "output_tokens": 0, "details": {}},
        finish_reason="tool_call",
    )
    assert list_message_parts(message) == (
        ReasoningPart("Hm."),
        TextPart("I look it up."),
        CallPart("a", "look_up", {"order": 17}),
        CallPart("b", "now", {}),
        CallPart("c", "search", {"q": "x"}),
    )
    # what the provider ran itself is no call that waits for an answer
    assert list_requested_calls(message) == [
        RequestedCall("a", "look_up", {"order": 17}),
        RequestedCall("b", "now", {}),
    ]
    assert find_message_role(message) == "assistant"


def test_results_and_retries_answer_calls() -> None:
    message = _request(
        {"part_kind": "tool-return", "tool_call_id": "a", "content": {"paid": True}, "outcome": "success"},
        {"part_kind": "tool-return", "tool_call_id": "b", "content": "no", "outcome": "denied"},
        {"part_kind": "tool-return", "tool_call_id": "c", "content": [1, 2], "outcome": "success"},
        {"part_kind": "retry-prompt", "tool_name": "x", "tool_call_id": "d", "content": [{"msg": "missing"}]},
    )
    assert list_message_parts(message) == (
        ResultPart("a", (OtherPart({"value": {"paid": True}}),)),
        ResultPart("b", (TextPart("no"),), is_error=True),
        ResultPart("c", (OtherPart({"value": [1, 2]}),)),
        ResultPart("d", (OtherPart({"value": [{"msg": "missing"}]}),), is_error=True),
    )
    assert list_call_ids_of_results(message) == ["a", "b", "c", "d"]
    assert find_message_role(message) == "tool"
    assert find_message_role(_request(*message["parts"], {"part_kind": "user-prompt", "content": "And?"})) == "user"


def test_unknown_parts_are_shown_unchanged() -> None:
    part = {"part_kind": "hologram", "content": {"x": 1}}
    message = {"kind": "seance", "parts": [part], "medium": "Ada"}
    assert list_message_parts(message) == (OtherPart(part), OtherPart({"medium": "Ada"}))
    assert list_requested_calls(message) == []
    other = {"role": "user", "kind": "note", "parts": "of something else"}
    assert list_message_parts(other) == (OtherPart({"kind": "note", "parts": "of something else"}),)
