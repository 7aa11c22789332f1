"""Interface of the readers of formats, and their shared builder: a reader turns the entries of a transcript into
messages, and the builder does the rest.

A message that the reader gives no key is recognised by its content and everything before it. Facts about the session,
what the program wrote down between messages, and usage are given to the builder as they occur; each message carries
those that are new since the message before it under `source`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal, Protocol, get_args

from checkpoints.formats import parse_message_parts
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.formats.digests import digest_text
from checkpoints.formats.parse_message_parts import Part, ResultPart, TextPart
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.importers.escape_non_utf8_path import format_path
from checkpoints.importers.import_report import ImportReport
from checkpoints.importers.imported_message_and_usage import (
    TRANSCRIPT_START,
    ImportedMessage,
    parse_token_count_or_zero,
)
from checkpoints.importers.imported_session_and_run import (
    IMPORT_MARK,
    TranscriptOrigin,
    make_valid_session_id,
    omit_empty_values_and_require_storable,
)
from checkpoints.importers.price_table import PriceTable
from checkpoints.importers.prompt_title import build_title_and_detect_instructions
from checkpoints.importers.session_writer import ImportWriter
from checkpoints.importers.transcript_recorder import TranscriptRecorder
from checkpoints.store.database_client_state import Store

Body = dict[str, Any]
PERSON_ROLES: Final = frozenset({"user", "human"})
#: Largest number of stored names of models, branches and folders, and their length.
_MAX_VALUES: Final = 20
_MAX_TEXT_LENGTH: Final = 4000
#: Characters of notes that are stored with one message, and at the end of a transcript with its session.
_MAX_NOTES_PER_MESSAGE: Final = 1_000_000
_MAX_NOTES_PER_SESSION: Final = 16_000
#: What may be the title of a session: one that its source gives, the first prompt, the name that somebody chose for its
#: outermost span, a prompt that tells the model who it is, the first answer of some words, and a name that a program
#: gives to all of its spans.
TitleSource = Literal["given", "prompt", "span", "instruction", "answer", "operation"]
_TITLE_SOURCES_BEST_FIRST: Final[tuple[TitleSource, ...]] = get_args(TitleSource)
#: Number of words without which an answer, such as “Done.”, says no more than a name.
_MIN_WORDS_OF_ANSWER: Final = 3
#: Facts of a session, and the field of its metadata that lists their values.
_CONTEXT_FIELDS: Final = {
    "cwd": "working_directories",
    "git_branch": "git_branches",
    "model": "models",
    "permission_mode": "permission_modes",
    "program_version": "program_versions",
}


def get_text_field_or_empty(values: Any, name: str) -> str:
    """Return the text of a field; empty if there is none."""
    value = values.get(name) if isinstance(values, dict) else None
    return value if isinstance(value, str) else ""


def find_block_types(content: Any) -> set[str]:
    """Return the types of the blocks of a message's content."""
    return (
        {get_text_field_or_empty(block, "type") for block in content if isinstance(block, dict)}
        if isinstance(content, list)
        else set()
    )


class TranscriptReader(Protocol):
    """Reader of one file: gets its values in order."""

    def add_value(self, number: int, value: Any) -> None:
        """Read the next value of the file; `number` is that of its line or entry."""

    def flush(self) -> None:
        """Write everything read so far. More values may follow."""


@dataclass(frozen=True)
class TranscriptFormat:
    """Format of transcripts.

    `recognize` tells how surely one value of a file is of this format: 0 not, 1 possibly, 2 certainly, more if it
    settles the question for the whole file. `open_reader` makes the reader of one file.
    """

    name: str
    agent: str
    recognize: Callable[[Any], int]
    open_reader: Callable[[ImportContext], TranscriptReader]


@dataclass(frozen=True)
class ImportContext:
    """Everything that the reader of one file needs beside its values. `path` is None for values from memory.

    `session_id` is the wish of whoever imports, else empty; `name` is that of the file, for sessions without an id of
    their own.
    """

    store: Store
    report: ImportReport
    format: TranscriptFormat
    path: Path | None
    name: str
    modified_at: datetime
    session_id: str = ""
    agent: str = ""
    live: bool = False
    imported_by: str = ""
    prices: PriceTable | None = None
    #: What is known about the subagent whose transcript it is. None: it is in a file beside the transcript, if at all.
    subagent: Mapping[str, Any] | None = None
    open_writer: Callable[[Store, TranscriptOrigin], ImportWriter] = ImportWriter

    def choose_session_id(self, own_id: object = "", *parts: str) -> str:
        """Make the id of a session: as wished, else the transcript's own, else the name of the file."""
        base = self.session_id or (own_id if isinstance(own_id, str) else "") or self.name
        return make_valid_session_id(base, *parts)

    def open_builder(
        self,
        session_id: str,
        *,
        agent: str = "",
        labels: tuple[str, ...] = (),
        has_positional_keys: bool = True,
        requires_same_first_message: bool | None = None,
    ) -> TranscriptBuilder:
        """Open the builder of a session; for the last two options see `TranscriptRecorder`. Raises `ImportRefused`.

        By default all files of a session have to begin alike if keys stand for a position.
        """
        origin = TranscriptOrigin(
            validate_id("session id", session_id),
            self.format.name,
            source_path="" if self.path is None else format_path(self.path),
            imported_by=self.imported_by,
            agent=self.agent or agent or self.format.agent,
            labels=labels or (self.format.name,),
        )
        origin.metadata = {IMPORT_MARK: {"file": format_path(self.path.name)} if self.path else {}}
        recorder = TranscriptRecorder(
            self.store,
            origin,
            self.report,
            otherwise=self.modified_at,
            live=self.live,
            has_positional_keys=has_positional_keys,
            requires_same_first_message=has_positional_keys
            if requires_same_first_message is None
            else requires_same_first_message,
            prices=self.prices,
            open_writer=self.open_writer,
        )
        return TranscriptBuilder(recorder)


class TranscriptBuilder:
    """Builder of one session from the entries of a transcript, in order."""

    def __init__(self, recorder: TranscriptRecorder) -> None:
        self.recorder = recorder
        self.interrupted = False
        self.facts: dict[str, Any] = {}
        self._key = TRANSCRIPT_START
        self._context: dict[str, str] = {}
        self._written_context: dict[str, str] = {}
        self._values: dict[str, list[str]] = {name: [] for name in _CONTEXT_FIELDS}
        self._titles: dict[TitleSource, str] = {}
        self._notes: list[Any] = []
        self._notes_size = 0
        self._count = 0
        #: Number of messages up to each message.
        self._counts: dict[str, int] = {TRANSCRIPT_START: 0}
        #: Key of the last message, the notes that it has, and the context before it.
        self._last: tuple[str, list[Any], dict[str, str]] | None = None

    @property
    def origin(self) -> TranscriptOrigin:
        return self.recorder.origin

    @property
    def report(self) -> ImportReport:
        return self.recorder.report

    @property
    def message_count(self) -> int:
        """Number of messages in the current form of the transcript, as far as it has been read now."""
        return self._count

    # facts beside the messages

    def set_context(self, **values: object) -> None:
        """Note the model, folder, branch, permission mode or version that hold from here on; no text changes
        nothing."""
        for name, value in values.items():
            text = value[:_MAX_TEXT_LENGTH] if isinstance(value, str) else ""
            if text:
                self._context[name] = text
                known = self._values[name]
                if text not in known and len(known) < _MAX_VALUES:
                    known.append(text)

    def note_title_candidate(self, title: object, source: TitleSource = "prompt") -> None:
        """Note what may be the title; the first one of each source counts. Of a prompt, it is the first sentence."""
        if not isinstance(title, str) or source in self._titles:
            return
        if source in {"prompt", "answer"}:
            title, is_instruction = build_title_and_detect_instructions(title)
            source = "instruction" if is_instruction and source == "prompt" else source
        if source == "answer" and len(title.split()) < _MIN_WORDS_OF_ANSWER:
            return
        if title.strip():
            self._titles.setdefault(source, title[:_MAX_TEXT_LENGTH])

    def add_note(self, note: Any) -> None:
        """Note an entry that is no part of the conversation; it is stored with the next message."""
        self._notes.append(note)
        self._notes_size += len(repr(note))  # about as long as its JSON, which is made with the message
        if self._notes_size > _MAX_NOTES_PER_MESSAGE:
            self._write_excess_notes_as_message()

    def add_usage(self, model: object, tokens: Mapping[str, object], cost: Decimal | None = None) -> dict[str, Any]:
        """Add the usage of one request. Returns it as a message stores it."""
        name = model if isinstance(model, str) and model else self._context.get("model", "")
        counts = {kind: count for kind, value in tokens.items() if (count := parse_token_count_or_zero(value))}
        self.recorder.totals.add_usage(name, counts, cost)
        stated = {} if cost is None else {"cost_usd": str(cost)}
        return {**({"model": name} if name else {}), **counts, **stated} if counts or stated else {}

    # messages

    def add_message(
        self,
        body: Body,
        *,
        at: datetime | None = None,
        key: str = "",
        after: str | None = None,
        begins_turn: bool | None = None,
        times: Mapping[str, datetime] | None = None,
        usage: Mapping[str, Any] | None = None,
        identity: str = "",
    ) -> str:
        """Add the next message. Returns its key.

        A message without a `key` gets one from its content and everything before it, or from its `identity` instead of
        the content: what different exports of the same message have in common. `after` is the key of the message
        that it follows if that is not the last one. A message of a person begins a turn unless `begins_turn` differs.
        """
        previous_key = self._key if after is None else after
        key = key or f"m:{digest_text(previous_key + (identity or to_canonical_json(body, 'message')))[:40]}"
        self._key = key
        parts = parse_message_parts.list_message_parts(body)
        answers = bool(parts) and all(isinstance(part, ResultPart) for part in parts)
        role = "tool" if answers else str(body.get("role") or "assistant")
        is_prompt = role.lower() in PERSON_ROLES if begins_turn is None else begins_turn
        if is_prompt or role.lower() == "assistant":
            text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
            self.note_title_candidate(text, "prompt" if is_prompt else "answer")
        source = body.get("source")
        facts = {**(source if isinstance(source, dict) else {}), **({"usage": dict(usage)} if usage else {})}
        self.record_message(ImportedMessage(key, role, body, at, previous_key, is_prompt, times or {}), facts, parts)
        return key

    def record_message(self, message: ImportedMessage, source: Body, parts: Sequence[Part] | None = None) -> None:
        """Record a message with what is known beside it. `parts` are those of its body, if they have been read."""
        comes_again = self._undo_context_if_last_message_repeats(message.key)
        self._last = message.key, [*self._notes], self._written_context
        if self._notes:
            source = {**source, "before": self._notes}
            self._notes, self._notes_size = [], 0
        if self._context != self._written_context:
            self._written_context = dict(self._context)
            source = {**source, "context": self._written_context}
        body = {**message.body, "source": source} if source else message.body
        if message.at is not None and "created_at" not in body:
            body = {**body, "created_at": message.at.isoformat()}
        if message.after is not None:
            self._count = self._counts.get(message.after, self._count)
        if not comes_again:
            self._count += 1
        self._counts[message.key] = self._count
        self.recorder.record_message(
            ImportedMessage(
                message.key, message.role, body, message.at, message.after, message.begins_turn, message.times
            ),
            parse_message_parts.list_message_parts(message.body) if parts is None else parts,
        )

    def repeat_messages(
        self, keys: Mapping[str, str], after: str, build_body: Callable[[str, Body], Body] = lambda _, body: body
    ) -> None:
        """Repeat messages that an earlier form of the transcript has. Arguments are those of the recorder's method."""
        self.recorder.repeat_messages(keys, after, build_body)
        for key in keys.values():
            if self.recorder.has_message(key):
                self._count += 1
                self._counts[key] = self._count

    def _undo_context_if_last_message_repeats(self, key: str) -> bool:
        """Take back what the last message has from beside the conversation, if it comes again. Returns whether it
        does."""
        if self._last is None or self._last[0] != key:
            return False
        notes, self._written_context = self._last[1:]
        self._notes = [*notes, *self._notes]
        return True

    def build_compaction_block(self, *, tokens_before: object = None, trigger: object = None) -> Body:
        """Return the block that says what a compaction replaced, for the message that starts the transcript over."""
        facts = {
            "messages_before": self.message_count,
            "tokens_before": parse_token_count_or_zero(tokens_before),
            "trigger": trigger,
        }
        return {"kind": "compaction", **{name: value for name, value in facts.items() if value not in (None, 0, "")}}

    def _write_excess_notes_as_message(self) -> None:
        """Write notes as a message of their own if they are too many to be part of another one."""
        text = f"{len(self._notes)} notes of the program to itself are kept with this message."
        body = {"role": "system", "content": text}
        key = f"notes:{digest_text(self._key + to_canonical_json(self._notes, 'notes'))[:40]}"
        self.record_message(ImportedMessage(key, "system", body), {})

    # ends

    def end_turn_and_write_pending_turns(self) -> None:
        """Write the complete turns."""
        self.recorder.end_turn_and_write_pending_turns()

    def flush(self) -> None:
        """Write everything, and describe the session. More messages may follow."""
        if self._notes_size > _MAX_NOTES_PER_SESSION:
            self._write_excess_notes_as_message()
        origin = self.origin
        origin.title = next(
            (self._titles[name] for name in _TITLE_SOURCES_BEST_FIRST if name in self._titles), origin.title
        )
        values = {field: self._values[name] for name, field in _CONTEXT_FIELDS.items()}
        version = self._context.get("program_version", "")
        origin.program = f"{origin.format} {version}".strip()
        mark = {**origin.metadata.get(IMPORT_MARK, {}), **({"trailing_notes": self._notes} if self._notes else {})}
        origin.metadata = omit_empty_values_and_require_storable(
            {**origin.metadata, **values, **self.facts, IMPORT_MARK: mark}
        )
        self.recorder.flush(interrupted=self.interrupted)
