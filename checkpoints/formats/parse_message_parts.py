"""Content of a stored message as parts, for all known message formats.

Known are this library's own blocks, OpenAI's chat messages and response items, Anthropic's content blocks, the
messages of Pydantic AI, and those of Bedrock's Converse API.
Anything else is returned as `OtherPart`: nothing of a message is ever dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final, TypeVar

from checkpoints.formats import (
    bedrock_converse_messages_to_blocks,
    parse_json,
    pydantic_ai_messages_to_blocks,
    to_canonical_json,
)

#: Blocks of Anthropic's for calls that the provider makes itself, and for their results.
PROVIDER_CALL_BLOCKS: Final = frozenset({"mcp_tool_use", "server_tool_use"})
PROVIDER_RESULT_BLOCKS: Final = frozenset(
    {
        "advisor_tool_result",
        "bash_code_execution_tool_result",
        "code_execution_tool_result",
        "mcp_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "web_fetch_tool_result",
        "web_search_tool_result",
    }
)
_COMPACTION_BEGINNING: Final = "Compacted"


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str
    kind: str = field(default="text", init=False)


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """What a model thought. If the message has no text of it, `encrypted` is what only the provider can read."""

    text: str
    encrypted: str = ""
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
class AudioPart:
    """Recording in a message: `url` is a `data:` URL or a remote address. It is untrusted text.

    `transcript` is what is said in it, if the message states it. `number` counts the recordings of a message from 1.
    """

    url: str
    transcript: str = ""
    number: int = 0
    kind: str = field(default="audio", init=False)


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


Part = TextPart | ReasoningPart | ImagePart | AudioPart | CallPart | ResultPart | OtherPart
_Media = TypeVar("_Media", ImagePart, AudioPart)

#: Largest number of blocks of one message, or of one result, that are parsed.
MAX_PARTS = 100
_ENVELOPE_FIELDS = frozenset(
    {"id", "role", "created_at", "content", "blocks", "tool_calls", "tool_call_id", "name", "source"}
)
_CONTENT_FIELDS: Final = frozenset({"role", "content"})
#: Fields of an entry of `tool_calls` that is no chat completion's, by the field that has its arguments.
_PLAIN_CALL_FIELDS: Final = {name: frozenset({"id", "type", "name", name}) for name in ("args", "arguments")}
#: Fields about the model that wrote a message, with their types. Pages show them beside the message, not in it.
_MODEL_FIELDS: Final = {"usage": dict, "model": str}
#: Fields of a message of the Responses API that say nothing more.
_PLAIN_MESSAGE_FIELDS: Final = (("type", "message"), ("status", "completed"))
_REASONING_FIELDS = ("reasoning_content", "reasoning")
#: Fields of a block of reasoning that only the provider can read: of OpenAI's, of Anthropic's, of one without its text.
_ENCRYPTED_REASONING_FIELDS: Final = ("encrypted_content", "data", "signature")
_MEDIA_TYPE_FIELDS: Final = ("media_type", "mimeType", "mime_type")
#: Beginnings of recordings in Base64, for formats that do not name the media type.
_AUDIO_BEGINNINGS: Final = {
    "UklGR": "audio/wav",
    "SUQz": "audio/mpeg",
    "//": "audio/mpeg",
    "T2dnU": "audio/ogg",
    "ZkxhQ": "audio/flac",
    "GkXfo": "audio/webm",
}


def parse_message_parts(body: str) -> tuple[Part, ...]:
    """Return the parts of one stored message, in order. Damaged text is returned whole, as `TextPart`."""
    try:
        message = parse_json(body)
    except ValueError:
        return (TextPart(body),)
    return list_message_parts(message) if isinstance(message, dict) else (OtherPart(message),)


def list_message_parts(message: dict[str, Any]) -> tuple[Part, ...]:
    """List the parts of one message, in order."""
    message = bedrock_converse_messages_to_blocks.convert_message_to_one_with_blocks(
        pydantic_ai_messages_to_blocks.convert_message_to_one_with_blocks(message)
    )
    # Most messages have nothing but content.
    parts = (
        _iterate_content_parts(message.get("content"))
        if message.keys() <= _CONTENT_FIELDS
        else _iterate_message_parts(message)
    )
    return _assign_media_numbers(tuple(parts), {ImagePart: count(1), AudioPart: count(1)})


def iterate_media(parts: tuple[Part, ...], kind: type[_Media]) -> Iterator[_Media]:
    """Iterate over the images or the recordings of a message in order, those inside results included."""
    for part in parts:
        if isinstance(part, kind):
            yield part
        elif isinstance(part, ResultPart):
            yield from iterate_media(part.parts, kind)


def _assign_media_numbers(parts: tuple[Part, ...], numbers: dict[type[Part], Iterator[int]]) -> tuple[Part, ...]:
    numbered: list[Part] = []
    for part in parts:
        if isinstance(part, ImagePart | AudioPart):
            part = replace(part, number=next(numbers[type(part)]))
        elif isinstance(part, ResultPart):
            part = replace(part, parts=_assign_media_numbers(part.parts, numbers))
        numbered.append(part)
    return tuple(numbered)


def find_first_user_text_or_empty(messages: Iterable[dict[str, Any]]) -> str:
    """Return the first text that a message of the user has; empty if there is none."""
    for message in messages:
        for part in list_message_parts(message) if message.get("role") == "user" else ():
            if isinstance(part, TextPart):
                return part.text
    return ""


def parts_to_text(parts: tuple[Part, ...]) -> str:
    """Convert parts to one text, for comparing and for searching."""
    return "\n\n".join(filter(None, map(_part_to_text, parts)))


def _part_to_text(part: Part) -> str:
    match part:
        case TextPart(text=text) | ReasoningPart(text=text):
            return text
        case ImagePart(url=url, alt=description) | AudioPart(url=url, transcript=description):
            return description or url
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
    if (spoken := _read_audio_beside_content(message)) is not None:
        yield spoken
    refusal = _read_refusal_block(message)
    if refusal is not None:
        yield refusal
    yield from _read_parts_and_excess_as_json(_wrap_in_list(message.get("tool_calls")), _read_call_entry)
    other_fields = {
        key: value
        for key, value in message.items()
        if key not in _ENVELOPE_FIELDS
        and not isinstance(value, _MODEL_FIELDS.get(key, ()))
        and not _is_empty_or_reasoning_field(key, value)
        and not (key == "audio" and spoken is not None)
        and not (key == "refusal" and refusal is not None)
        and (key, value) not in _PLAIN_MESSAGE_FIELDS
    }
    if other_fields:
        yield OtherPart(other_fields)


def _read_audio_beside_content(message: dict[str, Any]) -> AudioPart | None:
    """Read the recording that an OpenAI chat message has beside its content; None without its data."""
    return _read_audio_block(message["audio"]) if isinstance(message.get("audio"), dict) else None


def _is_empty_or_reasoning_field(key: str, value: Any) -> bool:
    """Return whether a field is empty, or is reasoning, which is shown as a part of its own."""
    return value in (None, "", [], {}) or (key in _REASONING_FIELDS and isinstance(value, str))


def _iterate_content_parts(content: Any) -> Iterator[Part]:
    """Iterate over the parts of content: a text, a block or a list of them; anything else is shown as it is."""
    if content is None or content == "":
        return
    if isinstance(content, str):
        yield TextPart(content)
    elif isinstance(content, list):
        yield from _read_parts_and_excess_as_json(content, _read_part)
    elif isinstance(content, dict) and ("kind" in content or "type" in content):
        yield _read_block(content)
    else:
        yield OtherPart(content)


def _read_parts_and_excess_as_json(items: list[Any], read_one: Callable[[Any], Part]) -> Iterator[Part]:
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
    inline = block.get("inlineData", block.get("inline_data"))
    if kind is None and inline is not None:
        return _read_inline_data(inline) or OtherPart(block)
    reader = _BLOCK_READERS.get(kind) if isinstance(kind, str) else None
    part = reader(block) if reader else None
    return OtherPart(block) if part is None else part


def _read_inline_data(inline: Any) -> Part | None:
    """Read an image or a recording inside a part of Gemini's, which has no type of its own."""
    readers = {"image": _read_image_block, "audio": _read_audio_block}
    read = readers.get(_get_media_type(inline).partition("/")[0])
    return read({"source": inline}) if read else None


def _read_text_block(block: dict[str, Any]) -> Part | None:
    text = block.get("text")
    return TextPart(text) if isinstance(text, str) else None


def _read_refusal_block(block: dict[str, Any]) -> TextPart | None:
    """Read what a model says instead of an answer: a block of a message, or a field of a chat message."""
    text = block.get("refusal")
    return TextPart(text) if isinstance(text, str) and text else None


def _read_reasoning_block(block: dict[str, Any]) -> Part | None:
    text = block.get("text", block.get("thinking"))
    if text is None and isinstance(block.get("summary"), list):
        pieces = [item.get("text") for item in block["summary"] if isinstance(item, dict)]
        text = "\n\n".join(piece for piece in pieces if isinstance(piece, str))
    if isinstance(text, str) and text:
        return ReasoningPart(text)
    encrypted = next((block[name] for name in _ENCRYPTED_REASONING_FIELDS if name in block), None)
    return ReasoningPart("", encrypted) if isinstance(encrypted, str) and encrypted else None


def _read_call_block(block: dict[str, Any]) -> Part | None:
    call_id = block.get("call_id", block.get("id"))
    args = block.get("args", block.get("input", block.get("arguments")))
    if not isinstance(block.get("name"), str):
        return None
    return CallPart(call_id if isinstance(call_id, str) else "", block["name"], parse_arguments(args))


def _read_call_entry(entry: Any) -> Part:
    """Read an entry of `tool_calls`: of a chat completion, or a plain one with `id`, `name` and `args`."""
    if not isinstance(entry, dict):
        return OtherPart(entry)
    plain = [name for name, fields in _PLAIN_CALL_FIELDS.items() if name in entry and entry.keys() <= fields]
    custom = entry.get("custom")
    fields, args_field = (
        (entry, plain[0]) if plain else (custom, "input") if custom else (entry.get("function"), "arguments")
    )
    if not isinstance(fields, dict) or not isinstance(fields.get("name"), str):
        return OtherPart(entry)
    call_id = entry.get("id")
    return CallPart(
        call_id if isinstance(call_id, str) else "", fields["name"], parse_arguments(fields.get(args_field))
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
        _read_parts_and_excess_as_json(content, _read_part_in_result)
        if isinstance(content, list)
        else _iterate_content_parts(content)
    )
    is_error = bool(block.get("is_error")) or (isinstance(content, dict) and _is_error_of_provider_tool(content))
    return ResultPart(call_id, tuple(parts), is_error)


def _is_error_of_provider_tool(content: dict[str, Any]) -> bool:
    """Return whether the content of a result says that a tool of the provider has failed."""
    kind = content.get("type")
    return isinstance(kind, str) and kind.endswith("_tool_result_error")


def _read_part_in_result(block: Any) -> Part:
    """Read a part of a result. Results inside results are not read: they are shown as JSON, however deep."""
    kind = block.get("kind", block.get("type")) if isinstance(block, dict) else None
    return (
        OtherPart(block)
        if isinstance(kind, str) and _BLOCK_READERS.get(kind) is _read_result_block
        else _read_part(block)
    )


def _read_compaction_block(block: dict[str, Any]) -> Part | None:
    """Read the facts of a compaction, which imports store, as a sentence; of Anthropic's, read the summary."""
    tokens, messages = block.get("tokens_before"), block.get("messages_before")
    if not isinstance(messages, int):
        return TextPart(block["content"]) if isinstance(block.get("content"), str) else None
    at = f" at {tokens:,} tokens" if isinstance(tokens, int) else ""
    earlier = "1 earlier message is" if messages == 1 else f"{messages:,} earlier messages are"
    return TextPart(f"{_COMPACTION_BEGINNING}{at}: {earlier} in the version before this one.")


def ends_with_compaction_sentence(parts: Sequence[Part]) -> bool:
    """Return whether the last part of a message is the sentence about a compaction."""
    last = parts[-1] if parts else None
    return isinstance(last, TextPart) and last.text.startswith(_COMPACTION_BEGINNING)


def _read_image_block(block: dict[str, Any]) -> Part | None:
    source = block.get("image_url", block.get("source", block.get("url", block)))
    url = _get_or_build_media_url(source, _get_media_type(source))
    alt = block.get("alt")
    return None if url is None else ImagePart(url, alt if isinstance(alt, str) else "")


def _read_generated_image(block: dict[str, Any]) -> ImagePart | None:
    """Read the image that a call of the Responses API has made; None without its data."""
    data, image_format, prompt = (block.get(name) for name in ("result", "output_format", "revised_prompt"))
    if not isinstance(data, str) or not data:
        return None
    media_type = f"image/{image_format if isinstance(image_format, str) else 'png'}"
    return ImagePart(f"data:{media_type};base64,{data}", prompt if isinstance(prompt, str) else "")


def _read_audio_block(block: dict[str, Any]) -> AudioPart | None:
    names = ("input_audio", "audio_url", "audio", "source", "url")
    source = next((block[name] for name in names if name in block), block)
    url = _get_or_build_media_url(source, _get_media_type(source) or _find_audio_media_type_or_empty(source))
    transcript = block.get("transcript")
    return None if url is None else AudioPart(url, transcript if isinstance(transcript, str) else "")


def _get_or_build_media_url(source: Any, media_type: str) -> str | None:
    """Return the address of an image or a recording: the one that a message states, or one with its data."""
    if not isinstance(source, dict):
        return source if isinstance(source, str) else None
    if isinstance(source.get("url"), str):
        return str(source["url"])
    return f"data:{media_type};base64,{source['data']}" if isinstance(source.get("data"), str) else None


def _get_media_type(source: Any) -> str:
    values = [source.get(name) for name in _MEDIA_TYPE_FIELDS] if isinstance(source, dict) else []
    return next((value for value in values if isinstance(value, str)), "")


def _find_audio_media_type_or_empty(source: Any) -> str:
    """Return the media type of a recording whose block names only a format, or nothing; empty if it is unknown."""
    if not isinstance(source, dict):
        return ""
    if isinstance(source.get("format"), str):
        return f"audio/{source['format']}"
    data = source.get("data")
    if not isinstance(data, str):
        return ""
    return next((kind for beginning, kind in _AUDIO_BEGINNINGS.items() if data.startswith(beginning)), "")


def _wrap_in_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


_BLOCK_READERS: dict[str, Callable[[dict[str, Any]], Part | None]] = {
    **dict.fromkeys(("text", "input_text", "output_text"), _read_text_block),
    **dict.fromkeys(("reasoning", "thinking", "redacted_thinking"), _read_reasoning_block),
    **dict.fromkeys(("tool_call", "tool_use", "function_call", *PROVIDER_CALL_BLOCKS), _read_call_block),
    **dict.fromkeys(
        ("tool_result", "function_call_output", "server_tool_result", *PROVIDER_RESULT_BLOCKS), _read_result_block
    ),
    "refusal": _read_refusal_block,
    **dict.fromkeys(("image", "image_url", "input_image", "computer_screenshot"), _read_image_block),
    "image_generation_call": _read_generated_image,
    **dict.fromkeys(("audio", "audio_url", "input_audio", "output_audio"), _read_audio_block),
    "compaction": _read_compaction_block,
}
