"""What a stored message says, whichever convention its writer follows.

Understood are this library's own blocks, OpenAI's chat messages and response items, and Anthropic's content blocks.
Whatever is not understood is handed on as `Other`: nothing of a message is ever dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from checkpoints.serde import canonical, parse


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    kind: str = field(default="text", init=False)


@dataclass(frozen=True, slots=True)
class Reasoning:
    text: str
    kind: str = field(default="reasoning", init=False)


@dataclass(frozen=True, slots=True)
class Image:
    """`url` is what the message holds: a `data:` URL or a remote address. It is hostile text.

    `number` counts the images of a message from 1.
    """

    url: str
    alt: str = ""
    number: int = 0
    kind: str = field(default="image", init=False)


@dataclass(frozen=True, slots=True)
class Call:
    """`args` is any JSON value: an object as a rule, the raw text where a model wrote something else."""

    call_id: str
    name: str
    args: Any
    kind: str = field(default="call", init=False)


@dataclass(frozen=True, slots=True)
class Result:
    call_id: str
    parts: tuple[Part, ...]
    is_error: bool = False
    kind: str = field(default="result", init=False)


@dataclass(frozen=True, slots=True)
class Other:
    """A JSON value that is shown as it is."""

    value: Any
    kind: str = field(default="other", init=False)


Part = Text | Reasoning | Image | Call | Result | Other

#: Blocks of one message, or of one result, that are read one by one.
MAX_PARTS = 100
_ENVELOPE = frozenset({"id", "role", "created_at", "content", "blocks", "tool_calls", "tool_call_id", "name", "source"})
_REASONING_FIELDS = ("reasoning_content", "reasoning")


def read(body: str) -> tuple[Part, ...]:
    """The parts of one stored message, in order. Damaged text comes back whole, as `Text`."""
    try:
        message = parse(body)
    except ValueError:
        return (Text(body),)
    if not isinstance(message, dict):
        return (Other(message),)
    return _numbered(tuple(_message(message)), count(1))


def images(parts: tuple[Part, ...]) -> Iterator[Image]:
    """The images of a message in order, those inside results included."""
    for part in parts:
        if isinstance(part, Image):
            yield part
        elif isinstance(part, Result):
            yield from images(part.parts)


def _numbered(parts: tuple[Part, ...], numbers: Iterator[int]) -> tuple[Part, ...]:
    numbered: list[Part] = []
    for part in parts:
        if isinstance(part, Image):
            part = replace(part, number=next(numbers))
        elif isinstance(part, Result):
            part = replace(part, parts=_numbered(part.parts, numbers))
        numbered.append(part)
    return tuple(numbered)


def plain(parts: tuple[Part, ...]) -> str:
    """What the parts say as one text, for comparing and for finding."""
    return "\n\n".join(filter(None, map(_plain, parts)))


def _plain(part: Part) -> str:
    match part:
        case Text(text=text) | Reasoning(text=text):
            return text
        case Image(url=url, alt=alt):
            return alt or url
        case Call(name=name, args=args):
            return f"{name} {canonical(args)}"
        case Result(parts=inner):
            return plain(inner)
        case Other(value=value):
            return canonical(value)


def _message(message: dict[str, Any]) -> Iterator[Part]:
    kind = message.get("type", message.get("kind"))
    if kind and not {"content", "blocks", "tool_calls"} & message.keys():
        yield _block({key: value for key, value in message.items() if key not in {"role", "created_at"}})
        return
    for key in _REASONING_FIELDS:
        if isinstance(message.get(key), str) and message[key]:
            yield Reasoning(message[key])
    said = tuple(_content(message["blocks"] if "blocks" in message else message.get("content")))
    if isinstance(message.get("tool_call_id"), str):
        yield Result(message["tool_call_id"], said)
    else:
        yield from said
    yield from _bounded(_listed(message.get("tool_calls")), _openai_call)
    rest = {key: value for key, value in message.items() if key not in _ENVELOPE and not _told(key, value)}
    if rest:
        yield Other(rest)


def _told(key: str, value: Any) -> bool:
    """Empty fields say nothing; reasoning has been told as such."""
    return value in (None, "", [], {}) or (key in _REASONING_FIELDS and isinstance(value, str))


def _content(content: Any) -> Iterator[Part]:
    """Content is a text, a block or a list of them; anything else is shown as it is."""
    if content is None or content == "":
        return
    if isinstance(content, str):
        yield Text(content)
    elif isinstance(content, list):
        yield from _bounded(content, _part)
    elif isinstance(content, dict) and ("kind" in content or "type" in content):
        yield _block(content)
    else:
        yield Other(content)


def _bounded(listed: list[Any], read_one: Callable[[Any], Part]) -> Iterator[Part]:
    """The first `MAX_PARTS` of a list as parts, and all that follow as one JSON value."""
    yield from map(read_one, listed[:MAX_PARTS])
    if len(listed) > MAX_PARTS:
        yield Other(listed[MAX_PARTS:])


def _part(block: Any) -> Part:
    return _block(block) if isinstance(block, dict) else Text(block) if isinstance(block, str) else Other(block)


def _block(block: dict[str, Any]) -> Part:
    kind = block.get("kind", block.get("type"))
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    found = reader(block) if reader else None
    return Other(block) if found is None else found


def _text(block: dict[str, Any]) -> Part | None:
    text = block.get("text")
    return Text(text) if isinstance(text, str) else None


def _reasoning(block: dict[str, Any]) -> Part | None:
    text = block.get("text", block.get("thinking"))
    if text is None and isinstance(block.get("summary"), list):
        pieces = [item.get("text") for item in block["summary"] if isinstance(item, dict)]
        text = "\n\n".join(piece for piece in pieces if isinstance(piece, str))
    return Reasoning(text) if isinstance(text, str) and text else None


def _call(block: dict[str, Any]) -> Part | None:
    call_id = block.get("call_id", block.get("id"))
    args = block.get("args", block.get("input", block.get("arguments")))
    if not isinstance(call_id, str) or not isinstance(block.get("name"), str):
        return None
    return Call(call_id, block["name"], arguments(args))


def _openai_call(entry: Any) -> Part:
    function = entry.get("function") if isinstance(entry, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return Other(entry)
    call_id = entry.get("id")
    return Call(call_id if isinstance(call_id, str) else "", function["name"], arguments(function.get("arguments")))


def arguments(args: Any) -> Any:
    """Some conventions carry arguments as JSON text; text that is no JSON, or has no canonical form, stays what it is:
    whoever compares arguments compares canonical text."""
    if not isinstance(args, str):
        return args
    try:
        value = parse(args)
        canonical(value)
    except ValueError:
        return args
    return value


def _result(block: dict[str, Any]) -> Part | None:
    call_id = block.get("call_id", block.get("tool_use_id"))
    if not isinstance(call_id, str):
        return None
    content = block.get("content", block.get("output"))
    parts = _bounded(content, _returned) if isinstance(content, list) else _content(content)
    return Result(call_id, tuple(parts), bool(block.get("is_error")))


def _returned(block: Any) -> Part:
    """A part of a result. No tool returns the results of others: they are shown as the JSON they are, however deep."""
    kind = block.get("kind", block.get("type")) if isinstance(block, dict) else None
    return Other(block) if isinstance(kind, str) and _READERS.get(kind) is _result else _part(block)


def _image(block: dict[str, Any]) -> Part | None:
    source = block.get("image_url", block.get("source", block.get("url")))
    url = source.get("url") if isinstance(source, dict) else source
    if url is None and isinstance(source, dict) and isinstance(source.get("data"), str):
        url = f"data:{source.get('media_type', '')};base64,{source['data']}"
    alt = block.get("alt")
    return Image(url, alt if isinstance(alt, str) else "") if isinstance(url, str) else None


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


_READERS: dict[str, Callable[[dict[str, Any]], Part | None]] = {
    **dict.fromkeys(("text", "input_text", "output_text"), _text),
    **dict.fromkeys(("reasoning", "thinking"), _reasoning),
    **dict.fromkeys(("tool_call", "tool_use", "function_call"), _call),
    **dict.fromkeys(("tool_result", "function_call_output"), _result),
    **dict.fromkeys(("image", "image_url", "input_image"), _image),
}
