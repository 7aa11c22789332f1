"""Chats of Gemini CLI: one JSON object with all messages, or one line for each."""

from __future__ import annotations

from typing import Any, Final

from checkpoints.importers.imported_message import parse_time, parse_token_count
from checkpoints.importers.imported_session_builder import (
    Body,
    ImportContext,
    TranscriptBuilder,
    TranscriptFormat,
    get_text_field,
)

_ROLES: Final = {"user": "user", "gemini": "assistant", "info": "system", "error": "system", "warning": "system"}
_SHOWN_FIELDS: Final = frozenset({"id", "type", "content", "timestamp", "thoughts", "toolCalls", "tokens", "model"})
_FAILED: Final = frozenset({"error", "failed"})
_CANCELLED: Final = frozenset({"cancelled", "canceled"})


class GeminiReader:
    """Reader of one chat."""

    def __init__(self, context: ImportContext) -> None:
        self._context = context
        self._builder: TranscriptBuilder | None = None

    def add_value(self, number: int, value: Any) -> None:
        """Read the whole chat, or the next line of one."""
        if not isinstance(value, dict):
            return
        messages = value.get("messages")
        header = value if isinstance(messages, list) or "sessionId" in value else {}
        if self._builder is None:
            self._builder = self._context.open_builder(self._context.make_session_id(header.get("sessionId")))
            self._builder.facts["project_hash"] = header.get("projectHash", "")
        self._builder.set_title(value.get("summary"), given=True)
        if get_text_field(value, "type") in _ROLES:
            self._add_message(self._builder, value)
        elif isinstance(messages, list):
            for message in messages:
                if isinstance(message, dict):
                    self._add_message(self._builder, message)
                else:
                    self._builder.report.unknown["entry without a type"] += 1
                    self._builder.add_note(message)
        else:
            self._builder.add_note(value)

    def _add_message(self, builder: TranscriptBuilder, message: Body) -> None:
        kind = str(message.get("type"))
        if kind not in _ROLES:
            builder.report.unknown[f"message {kind}"] += 1
        builder.set_context(model=message.get("model"))
        calls = [call for call in _get_list_or_empty(message.get("toolCalls")) if isinstance(call, dict)]
        source = {name: field for name, field in message.items() if name not in _SHOWN_FIELDS}
        if calls:
            source["tool_calls"] = [
                {name: call[name] for name in call if name not in {"args", "result"}} for call in calls
            ]
        body = {
            "id": message.get("id", ""),
            "role": _ROLES.get(kind, "system"),
            "blocks": [
                *map(_read_thought, _get_list_or_empty(message.get("thoughts"))),
                *_read_content(message.get("content")),
            ],
            **({"source": source} if source else {}),
        }
        body["blocks"] += [block for call in calls if (block := _read_call(call)) is not None]
        tokens = message.get("tokens")
        usage = (
            builder.add_usage(message.get("model"), _convert_token_counts(tokens)) if isinstance(tokens, dict) else None
        )
        builder.add_message(body, at=parse_time(message.get("timestamp")), usage=usage)
        for call in calls:
            self._add_result(builder, call, message.get("timestamp"))

    def _add_result(self, builder: TranscriptBuilder, call: Body, timestamp: object) -> None:
        status = get_text_field(call, "status")
        if not isinstance(call.get("id"), str) or ("result" not in call and status not in _FAILED | _CANCELLED):
            return
        block = {"kind": "tool_result", "call_id": call["id"], "content": _read_result(call)}
        if status in _FAILED | _CANCELLED:
            block["is_error"] = True
        at = parse_time(call.get("timestamp")) or parse_time(timestamp)
        builder.add_message({"role": "tool", "blocks": [block]}, at=at)

    def finish(self) -> None:
        """Write everything read so far."""
        if self._builder is not None:
            self._builder.finish()


def _get_list_or_empty(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _read_thought(thought: Any) -> Body:
    if not isinstance(thought, dict):
        return {"kind": "reasoning", "text": str(thought)}
    texts = [thought.get(name) for name in ("subject", "description")]
    return {"kind": "reasoning", "text": "\n\n".join(text for text in texts if isinstance(text, str) and text)}


def _read_content(content: Any) -> list[Any]:
    """Read the content: a text, or parts of which those of text have nothing but it."""
    if isinstance(content, str):
        return [{"kind": "text", "text": content}] if content else []
    parts = content if isinstance(content, list) else [content] if content is not None else []
    return [
        {"kind": "text", "text": part["text"]} if isinstance(part, dict) and set(part) == {"text"} else part
        for part in parts
    ]


def _read_call(call: Body) -> Body | None:
    if not isinstance(call.get("id"), str) or not isinstance(call.get("name"), str):
        return None
    return {"kind": "tool_call", "id": call["id"], "name": call["name"], "args": call.get("args")}


def _read_result(call: Body) -> Any:
    """Read the output of a call from the answer that the model got; anything else is kept as it is."""
    responses = _get_list_or_empty(call.get("result"))
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
    return call.get("result")


def _convert_token_counts(tokens: Body) -> dict[str, int]:
    """Convert counts in which the input includes what came from the cache, and thoughts are apart from the output."""
    counts = {name: parse_token_count(tokens.get(name)) for name in ("input", "output", "cached", "thoughts", "tool")}
    return {
        "input_tokens": max(counts["input"] - counts["cached"], 0) + counts["tool"],
        "cache_read_input_tokens": min(counts["cached"], counts["input"]),
        "output_tokens": counts["output"] + counts["thoughts"],
        "reasoning_output_tokens": counts["thoughts"],
    }


def _score_format_match(value: Any) -> int:
    if not isinstance(value, dict):
        return 0
    if isinstance(value.get("messages"), list) and "sessionId" in value and {"projectHash", "startTime"} & value.keys():
        return 3
    if "sessionId" in value and "projectHash" in value:
        return 3
    is_message = (
        get_text_field(value, "type") in _ROLES
        and "timestamp" in value
        and "content" in value
        and "message" not in value
    )
    return 2 * is_message


GEMINI_CLI: Final = TranscriptFormat("gemini-cli", "gemini-cli", _score_format_match, GeminiReader)
