"""Messages of Gemini CLI as this library stores them: their blocks, their calls and the results, their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from checkpoints.exceptions import InvalidIdentifier
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.formats.digests import digest_text
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.importers.imported_message_and_usage import parse_token_count_or_zero
from checkpoints.importers.transcript_reader_interface_and_builder import Body, get_text_field_or_empty

ROLES: Final = {"user": "user", "gemini": "assistant", "info": "system", "error": "system", "warning": "system"}
_SHOWN_FIELDS: Final = frozenset({"id", "type", "content", "timestamp", "thoughts", "toolCalls", "tokens", "model"})
_FAILED: Final = frozenset({"error", "failed", "cancelled", "canceled"})


def get_valid_message_id_or_empty(message: Body) -> str:
    """Return the id of a message; empty if it has none that can be a key."""
    try:
        return validate_id("message id", get_text_field_or_empty(message, "id"))
    except InvalidIdentifier:
        return ""


def make_message_key(*parts: object) -> str:
    """Make a key of a message from whatever names it permanently."""
    return f"m:{digest_text(to_canonical_json(list(parts)))[:40]}"


def get_list_or_empty(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def build_message_body(message: Body, calls: Sequence[Body]) -> Body:
    """Build the message of a record with these of its calls."""
    source = {name: field for name, field in message.items() if name not in _SHOWN_FIELDS}
    if calls:
        source["tool_calls"] = [omit_args_and_result_of_call(call) for call in calls]
    role = ROLES.get(get_text_field_or_empty(message, "type"), "system")
    if role == "user" and _is_session_context(message.get("content")):
        role = "system"
    thoughts = map(_build_reasoning_block, get_list_or_empty(message.get("thoughts")))
    blocks = [*thoughts, *_convert_content_to_blocks(message.get("content"))]
    blocks += [block for call in calls if (block := build_call_block_or_none(call)) is not None]
    body = {"id": message.get("id", ""), "role": role, "blocks": blocks}
    return {**body, "source": source} if source else body


def has_only_call_results(message: Body) -> bool:
    """Return whether a message only has results of calls, which the messages with the calls have too."""
    content = message.get("content")
    return (
        isinstance(content, list)
        and bool(content)
        and all(isinstance(part, dict) and isinstance(part.get("functionResponse"), dict) for part in content)
    )


def _is_session_context(content: Any) -> bool:
    """Return whether the program wrote a message in the user's name: folder, day and system at the start of a chat."""
    text = content[0].get("text") if isinstance(content, list) and content and isinstance(content[0], dict) else content
    return isinstance(text, str) and text.lstrip().startswith("<session_context>")


def omit_args_and_result_of_call(call: Body) -> Body:
    return {name: call[name] for name in call if name not in {"args", "result"}}


def build_result_message_or_none(call: Body) -> Body | None:
    """Build the message with the result of a call; None if it has none yet."""
    status = get_text_field_or_empty(call, "status")
    has_failed = status in _FAILED
    has_ended = has_failed or status == "success" or call.get("result") is not None
    if not isinstance(call.get("id"), str) or not has_ended:
        return None
    block = {"kind": "tool_result", "call_id": call["id"], "content": _read_call_output(call)}
    return {"role": "tool", "blocks": [{**block, "is_error": True} if has_failed else block]}


def _build_reasoning_block(thought: Any) -> Body:
    if not isinstance(thought, dict):
        return {"kind": "reasoning", "text": str(thought)}
    texts = [thought.get(name) for name in ("subject", "description")]
    return {"kind": "reasoning", "text": "\n\n".join(text for text in texts if isinstance(text, str) and text)}


def _convert_content_to_blocks(content: Any) -> list[Any]:
    """Read the content: a text, or parts of which those of text have nothing but it."""
    if isinstance(content, str):
        return [{"kind": "text", "text": content}] if content else []
    parts = content if isinstance(content, list) else [content] if content is not None else []
    return [
        {"kind": "text", "text": part["text"]} if isinstance(part, dict) and set(part) == {"text"} else part
        for part in parts
    ]


def build_call_block_or_none(call: Body) -> Body | None:
    if not isinstance(call.get("id"), str) or not isinstance(call.get("name"), str):
        return None
    return {"kind": "tool_call", "id": call["id"], "name": call["name"], "args": call.get("args")}


def _read_call_output(call: Body) -> Any:
    """Read the output of a call from the answer that the model got; anything else is kept as it is."""
    responses = get_list_or_empty(call.get("result"))
    outputs = [
        response["functionResponse"].get("response")
        for response in responses
        if isinstance(response, dict) and isinstance(response.get("functionResponse"), dict)
    ]
    texts = [
        next((output[name] for name in ("output", "error") if isinstance(output.get(name), str)), None)
        for output in outputs
        if isinstance(output, dict)
    ]
    if texts and len(texts) == len(responses) and all(isinstance(text, str) for text in texts):
        return "\n\n".join(str(text) for text in texts)
    return call.get("resultDisplay") if call.get("result") is None else call["result"]


def convert_token_counts(tokens: Body) -> dict[str, int]:
    """Convert counts in which the input includes what came from the cache, and thoughts are apart from the output."""
    counts = {
        name: parse_token_count_or_zero(tokens.get(name)) for name in ("input", "output", "cached", "thoughts", "tool")
    }
    return {
        "input_tokens": max(counts["input"] - counts["cached"], 0) + counts["tool"],
        "cache_read_input_tokens": min(counts["cached"], counts["input"]),
        "output_tokens": counts["output"] + counts["thoughts"],
        "reasoning_output_tokens": counts["thoughts"],
    }


def score_as_gemini_chat_or_record(value: Any) -> int:
    """Return how surely a value is a chat, or a record of one."""
    if not isinstance(value, dict):
        return 0
    if isinstance(value.get("$set"), dict) or isinstance(value.get("$rewindTo"), str):
        return 3
    if isinstance(value.get("messages"), list) and "sessionId" in value and {"projectHash", "startTime"} & value.keys():
        return 3
    if "sessionId" in value and "projectHash" in value:
        return 3
    is_message = (
        get_text_field_or_empty(value, "type") in ROLES
        and "timestamp" in value
        and "content" in value
        and "message" not in value
    )
    return 2 * is_message
