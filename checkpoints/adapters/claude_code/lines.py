"""What a line of a transcript is: a message, a note of the program to itself, or something else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from checkpoints.ids import MAX_LENGTH
from checkpoints.serde.canonical import canonical
from checkpoints.serde.digests import text_digest

Line = dict[str, Any]

#: Notes of the program to itself: kept with the message they stand before, and not part of the conversation.
NOTES: Final = frozenset(
    {
        "agent-color",
        "agent-name",
        "agent-setting",
        "ai-title",
        "custom-title",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "permission-mode",
        "progress",
        "queue-operation",
        "summary",
        "tag",
    }
)
_NOTES_OF_SYSTEM: Final = frozenset({"turn_duration", "stop_hook_summary"})
#: Types that are shown as they are, without being unknown.
SHOWN: Final = frozenset({"attachment", "system", "user", "assistant"})
BLOCKS: Final = frozenset(
    {"text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "document", "server_tool_use"}
)
#: Fields in which a line says where it belongs; they are kept beside what is shown.
_ENVELOPE: Final = frozenset(
    {
        "agentId",
        "cwd",
        "entrypoint",
        "gitBranch",
        "isMeta",
        "isSidechain",
        "logicalParentUuid",
        "parentUuid",
        "sessionId",
        "slug",
        "timestamp",
        "userType",
        "uuid",
        "version",
    }
)
USAGE: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
#: Texts in the place of a prompt that the program put there.
_INSERTED = re.compile(r"\s*(<[a-z][a-z_-]*>|\[Request interrupted|Caveat: )")


def key(line: Line) -> str:
    """What names a line within its conversation: its uuid, or a digest of what it says."""
    uuid = line.get("uuid")
    if isinstance(uuid, str) and 0 < len(uuid) < MAX_LENGTH - 20 and uuid.isascii() and uuid.isprintable():
        return uuid
    return f"line:{fingerprint(line)[:32]}"


def fingerprint(line: Line) -> str:
    """Digest of what a line says; where it stands (its parent, its time) does not count."""
    said = line.get("message", {name: value for name, value in line.items() if name != "parentUuid"})
    return text_digest(canonical(said, "line"))


def kind(line: Line) -> str:
    """The type of a line or block; empty where it has none."""
    return text(line.get("type"))


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def message(line: Line) -> dict[str, Any] | None:
    """The message on a line of a person or the agent."""
    said = line.get("message")
    return said if kind(line) in {"user", "assistant"} and isinstance(said, dict) else None


def is_note(line: Line) -> bool:
    return kind(line) in NOTES or (kind(line) == "system" and text(line.get("subtype")) in _NOTES_OF_SYSTEM)


def is_compaction(line: Line) -> bool:
    return line.get("type") == "system" and line.get("subtype") == "compact_boundary"


def answers_only(content: Any) -> bool:
    """Whether a message holds nothing but results of tools."""
    return (
        isinstance(content, list)
        and bool(content)
        and all(isinstance(block, dict) and block.get("type") == "tool_result" for block in content)
    )


def role(line: Line, said: dict[str, Any]) -> str:
    """Who speaks: the program speaks in the user's name too."""
    if answers_only(said.get("content")):
        return "tool"
    if line.get("isMeta") or line.get("isCompactSummary"):
        return "system"
    return text(said.get("role")) or kind(line)


def blocks(content: Any) -> list[Any]:
    """Content as a list of blocks."""
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if isinstance(content, str) else [content]


def prompt(content: Any) -> str:
    """What a person wrote, as text; empty where the program put something in its place."""
    texts = (block.get("text") for block in blocks(content) if isinstance(block, dict) and block.get("type") == "text")
    return "\n\n".join(text for text in texts if isinstance(text, str) and not _INSERTED.match(text)).strip()


def _element(text: str, name: str) -> str | None:
    """The text inside the first element `name`; None where there is none that is closed."""
    _, opened, rest = text.partition(f"<{name}>")
    inner, closed, _ = rest.partition(f"</{name}>")
    return inner.strip() if opened and closed else None


def command(content: Any) -> str:
    """The slash command that a person gave."""
    for block in blocks(content):
        text = block.get("text") if isinstance(block, dict) else None
        if isinstance(text, str) and (named := _element(text, "command-name")) is not None:
            return f"{named} {_element(text, 'command-args') or ''}".strip()
    return ""


def envelope(line: Line) -> Line:
    """What is kept beside the content of a message: everything else of its line."""
    rest = {name: value for name, value in line.items() if name != "message"}
    if (said := message(line)) is not None:
        rest["message"] = {name: value for name, value in said.items() if name != "content"}
    return rest


def divided(line: Line) -> tuple[Line, Line]:
    """Any other line: what is shown of it, and where it belongs."""
    shown = {name: value for name, value in line.items() if name not in _ENVELOPE}
    return shown, {name: value for name, value in line.items() if name in _ENVELOPE}


def tokens(said: dict[str, Any]) -> Counter[str]:
    """What a message of the agent used."""
    usage = said.get("usage")
    counts = {name: usage.get(name) for name in USAGE} if isinstance(usage, dict) else {}
    return Counter({name: count for name, count in counts.items() if _is_count(count)})


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53


def unknown(line: Line) -> Iterator[str]:
    """The types on a line that this library does not know."""
    if not is_note(line) and kind(line) not in SHOWN:
        yield f"line {kind(line) or 'without a type'}"
    said = message(line)
    for block in blocks(said.get("content")) if said is not None else ():
        named = kind(block) if isinstance(block, dict) else type(block).__name__
        if named not in BLOCKS:
            yield f"block {named or 'without a type'}"
