"""Line of a transcript of Claude Code, parsed: its type, its message, and what a person or the program wrote."""

from __future__ import annotations

import marshal
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.formats.digests import digest_text
from checkpoints.formats.parse_message_parts import PROVIDER_CALL_BLOCKS, PROVIDER_RESULT_BLOCKS
from checkpoints.generate_and_validate_ids import MAX_LENGTH
from checkpoints.importers.claude_code import non_message_line_detection
from checkpoints.importers.imported_message_and_usage import parse_token_count_or_zero

Line = non_message_line_detection.Line

#: Types of lines with a message. No set: the type of a damaged line may be a list.
_MESSAGE_TYPES: Final = ("user", "assistant")
#: Fields of which every known kind of line has one.
MARKER_FIELDS: Final = frozenset({"sessionId", "uuid", "leafUuid", "messageId"})
KNOWN_BLOCKS: Final = frozenset(
    {
        *PROVIDER_CALL_BLOCKS,
        *PROVIDER_RESULT_BLOCKS,
        "document",
        "image",
        "redacted_thinking",
        "text",
        "thinking",
        "tool_result",
        "tool_use",
    }
)
#: Fields for the position of a line; they are stored beside the fields to show.
_ENVELOPE_FIELDS: Final = frozenset(
    {
        "agentId",
        "cwd",
        "entrypoint",
        "gitBranch",
        "isMeta",
        "isSidechain",
        "logicalParentUuid",
        "parentToolUseId",
        "parentUuid",
        "sessionId",
        "slug",
        "timestamp",
        "userType",
        "uuid",
        "version",
    }
)
USAGE_FIELDS: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
#: Elements that the program writes in place of a prompt, and around it.
_INSERTED_ELEMENTS: Final = (
    "bash-input",
    "bash-stderr",
    "bash-stdout",
    "command-args",
    "command-contents",
    "command-message",
    "command-name",
    "ide_diagnostics",
    "ide_opened_file",
    "ide_selection",
    "local-command-caveat",
    "local-command-stderr",
    "local-command-stdout",
    "new-diagnostics",
    "post-tool-use-hook",
    "session-start-hook",
    "system-reminder",
    "task-notification",
    "teammate-message",
    "tick",
    "user-memory-input",
    "user-prompt-submit-hook",
)
#: Texts that the program writes in place of a prompt.
_INSERTED_TEXT_PATTERN = re.compile(rf"\s*(<(?:{'|'.join(_INSERTED_ELEMENTS)})[\s>]|\[Request interrupted|Caveat: )")
_INSERTED_ELEMENT_PATTERN = re.compile(rf"<({'|'.join(_INSERTED_ELEMENTS)})>.*?</\1>", re.DOTALL)
_INTERRUPTION: Final = "[Request interrupted"


def get_line_uuid_if_valid_key(line: Line) -> str | None:
    """Return the uuid of a line if it can be the key of a message."""
    uuid = line.get("uuid")
    is_key = isinstance(uuid, str) and 0 < len(uuid) < MAX_LENGTH - 20 and uuid.isascii() and uuid.isprintable()
    return str(uuid) if is_key else None


def compute_fast_content_fingerprint(line: Line) -> bytes:
    """Return a short fingerprint of a line's content, to compare lines within one import."""
    content = line.get("message", {name: value for name, value in line.items() if name != "parentUuid"})
    return blake2b(marshal.dumps(content, 2), digest_size=12).digest()


def get_first_result_call_id_or_empty(line: Line) -> str:
    """Return the id of the first call whose result is on a line."""
    message = get_user_or_assistant_message_or_none(line)
    for block in convert_content_to_blocks(message.get("content")) if message is not None else ():
        if isinstance(block, dict) and block.get("type") == "tool_result":
            return get_text_or_empty(block.get("tool_use_id"))
    return ""


def get_fork_source_session_id_or_empty(line: Line) -> str:
    """Return the id of the session that a fork has copied a line from; empty for a line of its own.

    `/branch` and the SDK name it in all lines that they copy; a run that forks names it in those of the agent alone, as
    the session that made the request.
    """
    origin = line.get("forkedFrom")
    name = get_text_or_empty(origin.get("sessionId") if isinstance(origin, dict) else line.get("requestSessionId"))
    return "" if name == line.get("sessionId") else name


def get_fork_source_uuid_or_empty(line: Line) -> str:
    """Return the uuid of the line of another session from which this line was copied; empty if it names none."""
    origin = line.get("forkedFrom")
    return get_text_or_empty(origin.get("messageUuid")) if isinstance(origin, dict) else ""


@dataclass(frozen=True)
class PreservedMessages:
    """Messages that a compaction keeps, as its line names them: all, or else only the first and the last one.

    They follow the line `anchor` in the conversation from there on. What the line does not name is empty.
    """

    anchor: str
    uuids: list[str]
    first: str
    last: str


def parse_preserved_messages(line: Line) -> PreservedMessages:
    """Parse which messages a compaction keeps."""
    facts = line.get("compactMetadata")
    named = [facts.get(name) if isinstance(facts, dict) else None for name in ("preservedMessages", "preservedSegment")]
    messages, segment = (each if isinstance(each, dict) else {} for each in named)
    uuids = messages.get("uuids")
    return PreservedMessages(
        get_text_or_empty(messages.get("anchorUuid")) or get_text_or_empty(segment.get("anchorUuid")),
        [uuid for uuid in uuids if isinstance(uuid, str)] if isinstance(uuids, list) else [],
        get_text_or_empty(segment.get("headUuid")),
        get_text_or_empty(segment.get("tailUuid")),
    )


def is_interruption_notice(content: Any) -> bool:
    """Return whether a message only says that the person interrupted the agent."""
    texts = [block.get("text") for block in convert_content_to_blocks(content) if isinstance(block, dict)]
    return len(texts) == 1 and get_text_or_empty(texts[0]).lstrip().startswith(_INTERRUPTION)


def compute_stable_content_digest(line: Line) -> str:
    """Digest the content of a line; its position (its parent, its time) does not count."""
    content = line.get("message", {name: value for name, value in line.items() if name != "parentUuid"})
    return digest_text(to_canonical_json(content, "line"))


def get_type_or_empty(line: Line) -> str:
    """Return the type of a line or block; empty if it has none."""
    kind = line.get("type")
    return kind if isinstance(kind, str) else ""


def get_text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def get_user_or_assistant_message_or_none(line: Line) -> dict[str, Any] | None:
    """Return the message on a line of a person or the agent."""
    message = line.get("message")
    return message if isinstance(message, dict) and line.get("type") in _MESSAGE_TYPES else None


def is_compaction(line: Line) -> bool:
    return line.get("type") == "system" and line.get("subtype") == "compact_boundary"


def has_only_tool_results(content: Any) -> bool:
    """Return whether a message holds only results of tools."""
    return (
        isinstance(content, list)
        and bool(content)
        and all(isinstance(block, dict) and block.get("type") == "tool_result" for block in content)
    )


def determine_message_role(line: Line, message: dict[str, Any]) -> str:
    """Return the role of a message: the program writes messages in the user's name too."""
    if has_only_tool_results(message.get("content")):
        return "tool"
    if line.get("isMeta") or line.get("isCompactSummary"):
        return "system"
    return get_text_or_empty(message.get("role")) or get_type_or_empty(line)


def convert_content_to_blocks(content: Any) -> list[Any]:
    """Convert content to a list of blocks."""
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if isinstance(content, str) else [content]


def extract_typed_prompt_or_empty(content: Any) -> str:
    """Return the text that a person wrote; empty if the program replaced it."""
    texts = (
        block.get("text")
        for block in convert_content_to_blocks(content)
        if isinstance(block, dict) and block.get("type") == "text"
    )
    return "\n\n".join(
        text for text in texts if isinstance(text, str) and not _INSERTED_TEXT_PATTERN.match(text)
    ).strip()


def remove_elements_inserted_by_program(text: str) -> str:
    """Remove what the program wrote around a short text of a person."""
    return _INSERTED_ELEMENT_PATTERN.sub("", text).strip()


def _extract_element_text_or_none(text: str, name: str) -> str | None:
    """Return the text inside the first element `name`; None if there is none that is closed."""
    _, start_tag, remainder = text.partition(f"<{name}>")
    content, end_tag, _ = remainder.partition(f"</{name}>")
    return content.strip() if start_tag and end_tag else None


def extract_slash_command_or_empty(content: Any) -> str:
    """Return the slash command that a person gave."""
    for block in convert_content_to_blocks(content):
        text = block.get("text") if isinstance(block, dict) else None
        if isinstance(text, str) and (command := _extract_element_text_or_none(text, "command-name")) is not None:
            return f"{command} {_extract_element_text_or_none(text, 'command-args') or ''}".strip()
    return ""


def copy_line_without_message_content(line: Line) -> Line:
    """Return the fields of a line beside its message, to be stored with it."""
    envelope = {name: value for name, value in line.items() if name != "message"}
    if (message := get_user_or_assistant_message_or_none(line)) is not None:
        envelope["message"] = {name: value for name, value in message.items() if name != "content"}
    return envelope


def split_shown_and_position_fields(line: Line) -> tuple[Line, Line]:
    """Split any other line into the fields to show and the fields of its position."""
    fields = {name: value for name, value in line.items() if name not in _ENVELOPE_FIELDS}
    return fields, {name: value for name, value in line.items() if name in _ENVELOPE_FIELDS}


def read_stated_token_counts(message: dict[str, Any]) -> Counter[str]:
    """Count the tokens that a message of the agent used."""
    usage = message.get("usage")
    counts = (
        {name: parse_token_count_or_zero(usage.get(name)) for name in USAGE_FIELDS} if isinstance(usage, dict) else {}
    )
    return Counter({name: count for name, count in counts.items() if count})


def iterate_descriptions_of_unknown_types(line: Line) -> Iterator[str]:
    """Iterate over the types on a line that this library does not know."""
    if not non_message_line_detection.is_known_line_type(get_type_or_empty(line)):
        yield f"line {get_type_or_empty(line) or 'without a type'}"
    message = get_user_or_assistant_message_or_none(line)
    for block in convert_content_to_blocks(message.get("content")) if message is not None else ():
        type_name = get_type_or_empty(block) if isinstance(block, dict) else type(block).__name__
        if type_name not in KNOWN_BLOCKS:
            yield f"block {type_name or 'without a type'}"
