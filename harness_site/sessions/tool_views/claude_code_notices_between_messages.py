"""Records of Claude Code between messages: hooks, reminders, changed files and errors as chips, not as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

#: Style and word of the chip of a record whose type begins so; the first one that fits counts.
_CHIPS: Final[tuple[tuple[str, tuple[str, Promise]], ...]] = (
    ("hook_blocking_error", ("bad", _("Hook"))),
    ("hook_cancelled", ("bad", _("Hook"))),
    ("hook_error", ("bad", _("Hook"))),
    ("hook_non_blocking_error", ("bad", _("Hook"))),
    ("hook_stopped", ("bad", _("Hook"))),
    ("hook_", ("wait", _("Hook"))),
    ("async_hook", ("wait", _("Hook"))),
    ("queued_command", ("run", _("Message while the agent worked"))),
    ("edited_text_file", ("off", _("File that changed meanwhile"))),
    ("edited_image_file", ("off", _("File that changed meanwhile"))),
    ("diagnostics", ("off", _("Diagnostics of the editor"))),
    ("opened_file_in_ide", ("off", _("File open in the editor"))),
    ("selected_lines_in_ide", ("off", _("Selection in the editor"))),
    ("file", ("off", _("Attached file"))),
    ("compact_file_reference", ("off", _("Attached file"))),
    ("directory", ("off", _("Attached file"))),
    ("pdf_reference", ("off", _("Attached file"))),
    ("instructions", ("off", _("Memory"))),
    ("nested_memory", ("off", _("Memory"))),
    ("relevant_memories", ("off", _("Memory"))),
    ("api_error", ("bad", _("Error of the model's provider"))),
)
_REMINDER: Final = ("off", _("Reminder of the program"))
_NOTE: Final = ("off", _("Note of the program"))
_ERROR: Final = ("bad", _("Error"))
#: Fields that name what a record is about, and those with its text; the first that is short enough is the title.
_TITLE_FIELDS: Final = ("hookName", "displayPath", "filename", "path", "command")
_TEXT_FIELDS: Final = (
    "content",
    "prompt",
    "snippet",
    "blockingError",
    "stdout",
    "stderr",
    "addedBlocks",
    "files",
    "memories",
)
_MAX_TITLE_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class ProgramRecord:
    """Record of a program, not masked: the style and the word of its chip, a title, a text, and its other fields."""

    style: str
    word: Promise
    title: str
    text: str
    fields: dict[str, Any]


def parse_claude_code_record_or_none(value: object) -> ProgramRecord | None:
    """Describe a record between the messages.

    Args:
        value: A part of a message that is neither text nor a call.

    Returns:
        How it is shown; None if it is no such record.
    """
    if not isinstance(value, dict):
        return None
    attachment, kind = value.get("attachment"), value.get("subtype")
    if value.get("type") == "attachment" and isinstance(attachment, dict) and isinstance(attachment.get("type"), str):
        return _build_program_record(attachment, attachment["type"], _REMINDER, {"type"})
    if value.get("type") == "system" and isinstance(kind, str):
        is_error = value.get("level") == "error"
        return _build_program_record(value, kind, _ERROR if is_error else _NOTE, {"type", "subtype", "level"})
    return None


def _build_program_record(
    record: dict[str, Any], kind: str, otherwise: tuple[str, Promise], names: set[str]
) -> ProgramRecord:
    style, word = next((chip for beginning, chip in _CHIPS if kind.startswith(beginning)), otherwise)
    title_field = next((name for name in _TITLE_FIELDS if _is_short_text(record.get(name))), "")
    texts = dict(_iterate_text_fields(record))
    shown = {*names, *texts, title_field}
    fields = {name: field for name, field in record.items() if name not in shown and field not in (None, "", [], {})}
    title = record[title_field] if title_field else kind.replace("_", " ")
    return ProgramRecord(style, word, title, "\n\n".join(dict.fromkeys(texts.values())), fields)


def _is_short_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_TITLE_CHARS


def _iterate_text_fields(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Iterate over the texts of a record by the name of their field."""
    for name in _TEXT_FIELDS:
        value = record.get(name)
        texts = [_get_text_or_file_content_or_empty(item) for item in (value if isinstance(value, list) else [value])]
        if texts and all(texts):
            yield name, "\n\n".join(texts)


def _get_text_or_file_content_or_empty(value: object) -> str:
    """Return a text, or that of a file: its content, or that of the file in it. Empty if there is none."""
    for name in ("file", "content"):
        if isinstance(value, dict) and name in value:
            value = value[name]
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) and value.strip() else ""
