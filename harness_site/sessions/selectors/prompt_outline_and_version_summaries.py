"""Prompts of a transcript: the beginnings of what people wrote, as an outline of the conversation."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, pairwise
from typing import Final

from django.db.models import BooleanField, Func, QuerySet
from django.db.models.functions import Length, Substr

from checkpoints.db.decompressed_text_sql import DecompressedText
from checkpoints.formats import parse_message_parts
from checkpoints.formats.caller_argument_order import restore_argument_order
from checkpoints.formats.parse_message_parts import CallPart, TextPart
from checkpoints.models import Message, Session
from checkpoints.models.segment_and_message import PROMPT_ROLES
from harness_site.core.call_sentences import build_short_call_sentence
from harness_site.core.masking.masker import mask_text
from harness_site.core.rendering.safe_display_text import strip_markdown_marks
from harness_site.sessions import program_tags_in_messages
from harness_site.sessions.selectors import call_records, conversation_window, find_words_errors_and_decisions
from harness_site.sessions.selectors.conversation_window import TranscriptVersion
from harness_site.sessions.selectors.version_list import VersionRow

#: Maximum number of messages of people that are read for the outline; half of them on each side of a position.
MAX_PROMPTS: Final = 300
_HALF: Final = MAX_PROMPTS // 2
#: Messages of people among which the first prompt is.
_MAX_PROMPTS_READ: Final = 20
#: Characters of a stored message that are read.
_BEGINNING: Final = 2_000
#: Characters of a prompt in the outline.
_TITLE: Final = 120
#: Last messages of a version among which its summary is, and roles of messages that only have results of calls.
_SUMMARISED_MESSAGES: Final = 6
_RESULT_ROLES: Final = ("Tool", "function", "tool")
#: Beginning of a longer message whose first block is a text, in canonical JSON.
_FIRST_TEXT: Final = re.compile(
    r'\{"(?:blocks|content)":(?:\[\{(?:"cache_control":\{[^{}]*\},)?(?:"kind":"text",)?"text":)?"((?:[^"\\]|\\.)*)'
)
#: Marks of Markdown that a title of one line does not need.
_LINK: Final = re.compile(r"\[([^\]\n]+)\]\([^)\n]+\)")
_CODE_BLOCK: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_TABLE_RULE: Final = re.compile(r"\n[ \t]*\|[ \t:|-]*(?=\n|\Z)")
_TABLE_ROW: Final = re.compile(r"\n[ \t]*\|([^\n]*)")
_LIST_MARK: Final = re.compile(r"\n[ \t]*[-*+] +")
_LIST_AFTER_COLON: Final = re.compile(r"(:)\s*\n[ \t]*[-*+] +")
_Row = tuple[int, datetime, str, int]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A message of a person.

    `title` is the beginning of its text on one line, in which only what was a table is masked; `is_command` tells that
    it is a command to the program instead of a text; `messages` counts the messages from it to the next prompt.
    """

    position: int
    at: datetime
    title: str
    is_command: bool
    messages: int


@dataclass(frozen=True, slots=True)
class PromptOutline:
    """Prompts in order; `has_earlier` and `has_later` tell that there are more before and after them.

    `first` is the first prompt of the version that is a text, else the first command; None without any.
    """

    prompts: tuple[Prompt, ...]
    first: Prompt | None
    has_earlier: bool = False
    has_later: bool = False


class _IsPromptRole(Func):
    """Condition of the index of prompts, without parameters: SQLite does not use a partial index for those."""

    template = f"(%(expressions)s IN {PROMPT_ROLES})"
    output_field = BooleanField()


def load_prompt_outline(transcript: TranscriptVersion, *, around: int = 0) -> PromptOutline:
    """Load and verify the prompts of a version in order, those around a position if there are too many.

    Texts that programs wrote are no prompts. No message is sealed, which needs the whole messages.

    Args:
        transcript: The version.
        around: The position of the message that is displayed.

    Raises:
        IntegrityError: A message was altered.
    """
    messages = find_words_errors_and_decisions.query_version_messages(transcript).filter(_IsPromptRole("role"))
    rows = list(_query_message_beginnings(messages)[: MAX_PROMPTS + 1])
    if len(rows) <= MAX_PROMPTS:
        prompts = _verify_and_build_prompts(transcript, rows, transcript.length)
        return PromptOutline(prompts, _find_first_prompt_or_command(prompts))
    first = _find_first_prompt_or_command(
        _verify_and_build_prompts(transcript, rows[:_MAX_PROMPTS_READ], transcript.length)
    )
    nearest = _query_message_beginnings(messages.filter(position__lte=around), "-position")[: _HALF + 1]
    before = list(nearest)
    after = list(_query_message_beginnings(messages.filter(position__gt=around))[: _HALF + 1])
    end = after[_HALF][0] if len(after) > _HALF else transcript.length
    prompts = _verify_and_build_prompts(transcript, [*reversed(before[:_HALF]), *after[:_HALF]], end)
    return PromptOutline(prompts, first, has_earlier=len(before) > _HALF, has_later=len(after) > _HALF)


def load_summary_of_each_version(session: Session, rows: Sequence[VersionRow]) -> dict[int, str]:
    """Load one line about what each version added, not masked, by its number. `rows` is newest first.

    It is the first prompt, else the newest text of the agent, else what the newest call does; where the last answer was
    continued, what its first call does, because it begins with the text of before. A version has none if a later one of
    `rows` has other messages in its place.

    Raises:
        IntegrityError: A message or the newest of the versions was altered.
    """
    transcript = conversation_window.find_transcript_version(session, rows[0].version.version) if rows else None
    if transcript is None:
        return {}
    prompts = load_prompt_outline(transcript, around=transcript.length).prompts
    found: dict[int, str] = {}
    continued = {row.version.version for row in rows if row.is_answer_continued}
    last_positions: dict[int, range] = {}
    grown: dict[int, int] = {}  # position → the version that completed its message; earlier ones may not have its calls
    for row in rows:
        first = row.version.length - row.added
        prompt = next((each for each in prompts if first <= each.position < row.version.length), None)
        if prompt is not None:
            found[row.version.version] = prompt.title
        elif row.added:
            end = row.version.length
            last_positions[row.version.version] = range(end - 1, max(first, end - _SUMMARISED_MESSAGES) - 1, -1)
        if row.is_answer_continued:
            grown.setdefault(first, row.version.version)
        elif row.removed:
            break
    texts, calls = _load_texts_and_first_calls(transcript, list(chain.from_iterable(last_positions.values())))
    orders = call_records.load_argument_orders_of_callers(session.pk, {call.call_id for call in calls.values()})
    for version, positions in last_positions.items():
        text = next((texts[position] for position in positions if position in texts), None)
        call = next((calls[each] for each in positions if each in calls and version >= grown.get(each, version)), None)
        if text is not None and not (version in continued and call is not None):
            found[version] = text
        elif call is not None:
            args = restore_argument_order(call.args, orders.get((call.call_id, call.name), ""))
            found[version] = build_short_call_sentence(call.name, args)
    return found


def _load_texts_and_first_calls(
    transcript: TranscriptVersion, positions: Sequence[int]
) -> tuple[dict[int, str], dict[int, CallPart]]:
    """Load and verify the beginnings of messages: their texts and their first calls, by position.

    Results of calls are left out, and so are calls in messages that are too long to be read.
    """
    if not positions:
        return {}, {}
    messages = find_words_errors_and_decisions.query_version_messages(transcript).filter(position__in=positions)
    rows = list(_query_message_beginnings(messages.exclude(role__in=_RESULT_ROLES)))
    texts: dict[int, str] = {}
    calls: dict[int, CallPart] = {}
    for position, _moment, beginning, size in rows:
        title, _is_command = _parse_prompt_title_and_is_command(beginning, size)
        if title:
            texts[position] = title
        if call := _parse_first_call_of_message(beginning, size):
            calls[position] = call
    used = texts.keys() | calls.keys()
    beginnings = {position: text for position, _moment, text, _size in rows if position in used}
    find_words_errors_and_decisions.verify_message_beginnings(transcript, beginnings)
    return texts, calls


def _parse_first_call_of_message(beginning: str, size: int) -> CallPart | None:
    parts = parse_message_parts.parse_message_parts(beginning) if size <= _BEGINNING else ()
    return next((part for part in parts if isinstance(part, CallPart)), None)


def _verify_and_build_prompts(transcript: TranscriptVersion, rows: Sequence[_Row], end: int) -> tuple[Prompt, ...]:
    """Build the prompts of rows in order; `end` is the position after the last message of the last one."""
    titles = {
        position: (moment, *title)
        for position, moment, text, size in rows
        if (title := _parse_prompt_title_and_is_command(text, size))[0]
    }
    beginnings = {position: text for position, _moment, text, _size in rows if position in titles}
    find_words_errors_and_decisions.verify_message_beginnings(transcript, beginnings)
    return tuple(
        Prompt(position, *titles[position], following - position) for position, following in pairwise([*titles, end])
    )


def _query_message_beginnings(messages: QuerySet[Message], order: str = "position") -> QuerySet[Message, _Row]:
    body = DecompressedText("body")
    beginnings = messages.annotate(beginning=Substr(body, 1, _BEGINNING), size=Length(body))
    return beginnings.order_by(order).values_list("position", "created_at", "beginning", "size")


def _find_first_prompt_or_command(prompts: Sequence[Prompt]) -> Prompt | None:
    """Return the first prompt that is no command, else the first command; None without a prompt."""
    return next((prompt for prompt in prompts if not prompt.is_command), next(iter(prompts), None))


def _parse_prompt_title_and_is_command(beginning: str, size: int) -> tuple[str, bool]:
    """Return the title of a prompt from the beginning of its message, empty if it is none, and whether it is a
    command."""
    if size <= _BEGINNING:
        parts = parse_message_parts.parse_message_parts(beginning)
        text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
    else:
        text = _parse_first_text(beginning)
        if program_tags_in_messages.begins_with_unclosed_tag(
            text
        ):  # the rest, with the end of what a program wrote, is not read
            return "", False
    written, is_command = _extract_text_and_is_command(text)
    title = _put_on_one_line_without_markdown(written)
    if title and size > _BEGINNING and len(title) < _TITLE and _is_first_text_cut(beginning):
        title += "…"
    return title[:_TITLE].lstrip("# "), is_command


def _put_on_one_line_without_markdown(text: str) -> str:
    """Return a text on one line, without blocks of code unless it has nothing else.

    The entries of a list and the rows of a table have ` · ` between them.
    """
    if len(text) > 2 * _BEGINNING:  # a title has less
        text = text[: 2 * _BEGINNING]
    text = _CODE_BLOCK.sub("\n", text).strip() or text
    if "|" in text:  # what a cell holds is known to be secret by its row or column
        text = mask_text(text)
    plain = _LINK.sub(
        r"\1", strip_markdown_marks(_TABLE_ROW.sub(_format_table_row_as_list_entry, _TABLE_RULE.sub("", text)))
    )
    return " ".join(_LIST_MARK.sub(" · ", _LIST_AFTER_COLON.sub(r"\1 ", plain.lstrip("-*+ "))).split())


def _format_table_row_as_list_entry(row: re.Match[str]) -> str:
    """Return the row of a table as an entry of a list."""
    return "\n- " + ", ".join(cell.strip() for cell in row[1].strip(" \t|").split("|"))


def _is_first_text_cut(beginning: str) -> bool:
    """Return whether the first text of a message goes on after its beginning."""
    match = _FIRST_TEXT.match(beginning)
    return match is not None and not beginning[match.end() :].startswith('"')


def _parse_first_text(beginning: str) -> str:
    match = _FIRST_TEXT.match(beginning)
    if match is None:
        return ""
    escaped = re.sub(r"\\(?:u[0-9a-fA-F]{0,3})?$", "", match[1])
    try:
        return str(json.loads(f'"{escaped}"'))
    except ValueError:
        return ""


def _extract_text_and_is_command(text: str) -> tuple[str, bool]:
    """Return what a person wrote: the text beside the tags of programs, else a command, and whether it is one."""
    if not program_tags_in_messages.has_program_written_text(text):
        return text, False
    pieces = program_tags_in_messages.split_tagged_text(text)
    written = "\n".join(piece.text for piece in pieces if piece.chip is None)
    if written:
        return written, False
    if (stored := next((piece for piece in pieces if piece.raw and piece.chip), None)) is not None and stored.chip:
        return f"{stored.chip[1]}: {stored.text}", True
    return next((piece.text for piece in pieces if piece.chip and piece.chip[0] == "run"), ""), True
