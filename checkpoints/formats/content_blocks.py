"""Content of a stored message as parts, for all known message formats.

Known are this library's own blocks, OpenAI's chat messages and response items, and Anthropic's content blocks.
Anything else is returned as `OtherPart`: nothing of a message is ever dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from checkpoints.formats import parse_json, to_canonical_json


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str
    kind: str = field(default="text", init=False)


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    text: str
    kind: str = field(default="reasoning", init=False)


@dataclass(frozen=True, slots=True)
class ImagePart:
    """Image of a message: `url` is a `data:` URL or a remote address. It is untrusted text.

    `number` counts the images of a message from 1.
    """

    url: str
    alt: str = ""
    number: int = 0
    kind: str = field(default="image", init=False)


@dataclass(frozen=True, slots=True)
class CallPart:
    """Tool call of a message. `args` is any JSON value: usually an object, the raw text if a model wrote something
    else."""

    call_id: str
    name: str
    args: Any
    kind: str = field(default="call", init=False)


@dataclass(frozen=True, slots=True)
class ResultPart:
    call_id: str
    parts: tuple[Part, ...]
    is_error: bool = False
    kind: str = field(default="result", init=False)


@dataclass(frozen=True, slots=True)
class OtherPart:
    """JSON value that is shown as it is."""

    value: Any
    kind: str = field(default="other", init=False)


Part = TextPart | ReasoningPart | ImagePart | CallPart | ResultPart | OtherPart

#: Largest number of blocks of one message, or of one result, that are parsed.
MAX_PARTS = 100
_ENVELOPE_FIELDS = frozenset(
    {"id", "role", "created_at", "content", "blocks", "tool_calls", "tool_call_id", "name", "source"}
)
_REASONING_FIELDS = ("reasoning_content", "reasoning")


def read_message_parts(body: str) -> tuple[Part, ...]:
    """Return the parts of one stored message, in order. Damaged text is returned whole, as `TextPart`."""
    try:
        message = parse_json(body)
    except ValueError:
        return (TextPart(body),)
    if not isinstance(message, dict):
        return (OtherPart(message),)
    return _number_images(tuple(_iterate_message_parts(message)), count(1))


def iterate_images(parts: tuple[Part, ...]) -> Iterator[ImagePart]:
    """Iterate over the images of a message in order, those inside results included."""
    for part in parts:
        if isinstance(part, ImagePart):
            yield part
        elif isinstance(part, ResultPart):
            yield from iterate_images(part.parts)


def _number_images(parts: tuple[Part, ...], numbers: Iterator[int]) -> tuple[Part, ...]:
    numbered: list[Part] = []
    for part in parts:
        if isinstance(part, ImagePart):
            part = replace(part, number=next(numbers))
        elif isinstance(part, ResultPart):
            part = replace(part, parts=_number_images(part.parts, numbers))
        numbered.append(part)
    return tuple(numbered)


def parts_to_text(parts: tuple[Part, ...]) -> str:
    """Convert parts to one text, for comparing and for searching."""
    return "\n\n".join(filter(None, map(_part_to_text, parts)))


def _part_to_text(part: Part) -> str:
    match part:
        case TextPart(text=text) | ReasoningPart(text=text):
            return text
        case ImagePart(url=url, alt=alt):
            return alt or url
        case CallPart(name=name, args=args):
            return f"{name} {to_canonical_json(args)}"
        case ResultPart(parts=inner):
            return parts_to_text(inner)
        case OtherPart(value=value):
            return to_canonical_json(value)


def _iterate_message_parts(message: dict[str, Any]) -> Iterator[Part]:
    kind = message.get("type", message.get("kind"))
    if kind and not {"content", "blocks", "tool_calls"} & message.keys():
        yield _read_block({key: value for key, value in message.items() if key not in {"role", "created_at"}})
        return
    for key in _REASONING_FIELDS:
        if isinstance(message.get(key), str) and message[key]:
            yield ReasoningPart(message[key])
    content_parts = tuple(_iterate_content_parts(message["blocks"] if "blocks" in message else message.get("content")))
    if isinstance(message.get("tool_call_id"), str):
        yield ResultPart(message["tool_call_id"], content_parts)
    else:
        yield from content_parts
    yield from _limit_parts(_to_list(message.get("tool_calls")), _read_openai_call)
    other_fields = {
        key: value
        for key, value in message.items()
        if key not in _ENVELOPE_FIELDS and not _is_worth_showing(key, value)
    }
    if other_fields:
        yield OtherPart(other_fields)


def _is_worth_showing(key: str, value: Any) -> bool:
    """Return whether a field has content that is not shown elsewhere: empty fields and reasoning are skipped."""
    return value in (None, "", [], {}) or (key in _REASONING_FIELDS and isinstance(value, str))


def _iterate_content_parts(content: Any) -> Iterator[Part]:
    """Iterate over the parts of content: a text, a block or a list of them; anything else is shown as it is."""
    if content is None or content == "":
        return
    if isinstance(content, str):
        yield TextPart(content)
    elif isinstance(content, list):
        yield from _limit_parts(content, _read_part)
    elif isinstance(content, dict) and ("kind" in content or "type" in content):
        yield _read_block(content)
    else:
        yield OtherPart(content)


def _limit_parts(items: list[Any], read_one: Callable[[Any], Part]) -> Iterator[Part]:
    """Convert the first `MAX_PARTS` of a list to parts, and all that follow to one JSON value."""
    yield from map(read_one, items[:MAX_PARTS])
    if len(items) > MAX_PARTS:
        yield OtherPart(items[MAX_PARTS:])


def _read_part(block: Any) -> Part:
    return (
        _read_block(block)
        if isinstance(block, dict)
        else TextPart(block)
        if isinstance(block, str)
        else OtherPart(block)
    )


def _read_block(block: dict[str, Any]) -> Part:
    kind = block.get("kind", block.get("type"))
    reader = _BLOCK_READERS.get(kind) if isinstance(kind, str) else None
    part = reader(block) if reader else None
    return OtherPart(block) if part is None else part


def _read_text_block(block: dict[str, Any]) -> Part | None:
    text = block.get("text")
    return TextPart(text) if isinstance(text, str) else None


def _read_reasoning_block(block: dict[str, Any]) -> Part | None:
    text = block.get("text", block.get("thinking"))
    if text is None and isinstance(block.get("summary"), list):
        pieces = [item.get("text") for item in block["summary"] if isinstance(item, dict)]
        text = "\n\n".join(piece for piece in pieces if isinstance(piece, str))
    return ReasoningPart(text) if isinstance(text, str) and text else None


def _read_call_block(block: dict[str, Any]) -> Part | None:
    call_id = block.get("call_id", block.get("id"))
    args = block.get("args", block.get("input", block.get("arguments")))
    if not isinstance(call_id, str) or not isinstance(block.get("name"), str):
        return None
    return CallPart(call_id, block["name"], parse_arguments(args))


def _read_openai_call(entry: Any) -> Part:
    function = entry.get("function") if isinstance(entry, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return OtherPart(entry)
    call_id = entry.get("id")
    return CallPart(
        call_id if isinstance(call_id, str) else "", function["name"], parse_arguments(function.get("arguments"))
    )


def parse_arguments(args: Any) -> Any:
    """Parse arguments that some formats carry as JSON text.

    Text that is no JSON, or has no canonical form, is returned as it is, because arguments are compared as
    canonical text.
    """
    if not isinstance(args, str):
        return args
    try:
        value = parse_json(args)
        to_canonical_json(value)
    except ValueError:
        return args
    return value


def _read_result_block(block: dict[str, Any]) -> Part | None:
    call_id = block.get("call_id", block.get("tool_use_id"))
    if not isinstance(call_id, str):
        return None
    content = block.get("content", block.get("output"))
    parts = (
        _limit_parts(content, _read_result_content) if isinstance(content, list) else _iterate_content_parts(content)
    )
    return ResultPart(call_id, tuple(parts), bool(block.get("is_error")))


def _read_result_content(block: Any) -> Part:
    """Read a part of a result. Results inside results are not read: they are shown as JSON, however deep."""
    kind = block.get("kind", block.get("type")) if isinstance(block, dict) else None
    return (
        OtherPart(block)
        if isinstance(kind, str) and _BLOCK_READERS.get(kind) is _read_result_block
        else _read_part(block)
    )


def _read_image_block(block: dict[str, Any]) -> Part | None:
    source = block.get("image_url", block.get("source", block.get("url")))
    url = source.get("url") if isinstance(source, dict) else source
    if url is None and isinstance(source, dict) and isinstance(source.get("data"), str):
        url = f"data:{source.get('media_type', '')};base64,{source['data']}"
    alt = block.get("alt")
    return ImagePart(url, alt if isinstance(alt, str) else "") if isinstance(url, str) else None


def _to_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


_BLOCK_READERS: dict[str, Callable[[dict[str, Any]], Part | None]] = {
    **dict.fromkeys(("text", "input_text", "output_text"), _read_text_block),
    **dict.fromkeys(("reasoning", "thinking"), _read_reasoning_block),
    **dict.fromkeys(("tool_call", "tool_use", "function_call"), _read_call_block),
    **dict.fromkeys(("tool_result", "function_call_output"), _read_result_block),
    **dict.fromkeys(("image", "image_url", "input_image"), _read_image_block),
}
