"""Import of files of messages in the formats of model providers: whole conversations, or single messages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from checkpoints.client import SyncCheckpointer
from checkpoints.db import clock
from checkpoints.exceptions import InvalidInput
from checkpoints.formats import content_blocks
from checkpoints.formats.canonical import parse_json, to_canonical_json
from checkpoints.formats.content_blocks import ResultPart, TextPart
from checkpoints.formats.digests import digest_text
from checkpoints.ids import validate_id
from checkpoints.importers.import_errors import NothingToImport
from checkpoints.importers.import_report import ImportReport, Progress
from checkpoints.importers.imported_message import TRANSCRIPT_START, ImportedMessage, UsageTotals, parse_time
from checkpoints.importers.imported_session import IMPORT_MARK, TranscriptOrigin, make_session_id, to_storable
from checkpoints.importers.json_lines import ImportFiles, iterate_json_objects, open_import_files
from checkpoints.importers.transcript_recorder import TranscriptRecorder

Body = dict[str, Any]
_LINE_FILE_SUFFIXES: Final = frozenset({".jsonl", ".ndjson"})
_PERSON_ROLES: Final = frozenset({"user", "human"})


@dataclass
class Exchange:
    """Messages of one JSON value, in their stored form.

    `whole`: they are a conversation of their own, called `name` if it has a name; otherwise they continue the messages
    before them in the file. `about` describes the conversation (the model, an id of the provider's).
    """

    messages: list[Body]
    whole: bool = False
    name: str = ""
    at: datetime | None = None
    tokens: Counter[str] = field(default_factory=Counter)
    cost: Decimal = Decimal()
    about: dict[str, Any] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class MessageFormat:
    """Message format. `read` returns None for a value of another format."""

    name: str
    read: Callable[[Any], Exchange | None]


@dataclass(frozen=True)
class SessionNaming:
    """Names of the imported sessions: `session_id` is the file's, and the prefix of those of its conversations."""

    session_id: str
    agent: str


def import_exchanges(
    checkpointer: SyncCheckpointer,
    source: str | Path | Sequence[Body],
    message_format: MessageFormat,
    *,
    session_id: str | None,
    agent: str,
    progress: Progress | None,
) -> ImportReport:
    """Import a file, a folder of files, or messages from memory."""
    if isinstance(source, str | Path):
        return _import_path(checkpointer, Path(source).expanduser(), message_format, session_id, agent, progress)
    if session_id is None:
        raise InvalidInput("Messages from memory need a session_id.")
    files = open_import_files([], progress)
    file_import = _FileImport(
        checkpointer,
        files,
        Path("messages"),
        message_format,
        SessionNaming(validate_id("session id", session_id), agent),
        clock.now(),
    )
    file_import.import_values(enumerate(source, 1))
    return files.report


def _import_path(
    checkpointer: SyncCheckpointer,
    path: Path,
    message_format: MessageFormat,
    session_id: str | None,
    agent: str,
    progress: Progress | None,
) -> ImportReport:
    paths = [path] if path.is_file() else sorted(file for file in path.rglob("*.json*") if file.is_file())
    if not paths:
        raise NothingToImport(path, "there is no file of JSON")
    if session_id is not None and len(paths) > 1:
        raise InvalidInput("A session_id names one file; a folder's sessions are called like its files.")
    files = open_import_files(paths, progress)
    for file in paths:
        relative = file.stem if file == path else file.relative_to(path).with_suffix("").as_posix()
        naming = SessionNaming(validate_id("session id", session_id or make_session_id(relative)), agent)
        modified_at = datetime.fromtimestamp(file.stat().st_mtime, UTC)
        _FileImport(checkpointer, files, file, message_format, naming, modified_at).import_values(
            _iterate_json_values(file, files)
        )
    return files.report


def _iterate_json_values(path: Path, files: ImportFiles) -> Iterator[tuple[int, Any]]:
    """Iterate over the JSON values of a file: its lines, or its one value; a list counts as its entries."""
    if path.suffix not in _LINE_FILE_SUFFIXES:
        try:
            raw = path.read_bytes()
            value = parse_json(raw.decode(json.detect_encoding(raw)))
        except ValueError:
            value = None  # JSON lines, whatever the file's suffix, or damaged
        if isinstance(value, dict | list):
            files.report.files += 1
            yield from enumerate(value if isinstance(value, list) else [value], 1)
            files.report_progress(path, files.sizes[path])
            return
    for line in iterate_json_objects(path, files):
        yield line.number, line.value


class _FileImport:
    """Import of the conversations of one file."""

    def __init__(
        self,
        checkpointer: SyncCheckpointer,
        files: ImportFiles,
        path: Path,
        message_format: MessageFormat,
        naming: SessionNaming,
        modified_at: datetime,
    ) -> None:
        self._store, self._files, self._path = checkpointer.store, files, path
        self._format, self._wish, self._written = message_format, naming, modified_at
        self._names: Counter[str] = Counter()

    def import_values(self, values: Iterator[tuple[int, Any]]) -> None:
        running: ConversationImport | None = None
        conversation_count = 0
        for number, value in values:
            exchange = self._read_exchange(number, value)
            if exchange is None:
                continue
            self._files.report.unknown.update(exchange.unknown)
            if exchange.whole:
                conversation_count += 1
                self._import_whole_conversation(exchange, number)
                continue
            running = running or self._open_conversation("")
            running.add_exchange(exchange)
        if running is not None:
            running.close()
        elif not conversation_count:
            self._files.report.empty.append(str(self._path))

    def _read_exchange(self, number: int, value: Any) -> Exchange | None:
        """Read the messages of a value; a value that cannot be stored is reported."""
        try:
            exchange = self._format.read(value)
            reason = f"it is no message of the format {self._format.name}"
            for message in exchange.messages if exchange else ():
                to_canonical_json(message, "message")
        except InvalidInput as error:
            exchange, reason = None, error.detail
        if exchange is None:
            self._files.report.add_damaged_place(self._path, number, reason, json.dumps(value, ensure_ascii=False))
        return exchange

    def _import_whole_conversation(self, exchange: Exchange, number: int) -> None:
        """Import a conversation of its own; the only one of a file that is not made of lines is named after the
        file."""
        is_only = number == 1 and self._path.suffix not in _LINE_FILE_SUFFIXES and not exchange.name
        name = "" if is_only else exchange.name or str(number)
        self._names[name] += 1
        if self._names[name] > 1:
            name = f"{name}.{self._names[name]}"
        conversation = self._open_conversation(name)
        conversation.add_exchange(exchange)
        conversation.close()

    def _open_conversation(self, name: str) -> ConversationImport:
        session_id = make_session_id(self._wish.session_id, *([name] if name else []))
        origin = TranscriptOrigin(session_id, self._format.name, self._wish.agent, labels=(self._format.name,))
        origin.metadata = {IMPORT_MARK: {"file": self._path.name}}
        recorder = TranscriptRecorder(self._store, origin, self._files.report, otherwise=self._written, by_place=True)
        return ConversationImport(recorder)


class ConversationImport:
    """Import of messages without names of their own: their content, and everything before it, names them."""

    def __init__(self, recorder: TranscriptRecorder) -> None:
        self._recorder = recorder
        self._key = TRANSCRIPT_START
        self._about: dict[str, Any] = {}

    def add_exchange(self, exchange: Exchange) -> None:
        for body in exchange.messages:
            self._record_message(body, exchange.at)
        totals: UsageTotals = self._recorder.totals
        totals.tokens.update(exchange.tokens)
        totals.cost += exchange.cost
        self._about.update(exchange.about)

    def _record_message(self, body: Body, default_time: datetime | None) -> None:
        previous_key, text = self._key, to_canonical_json(body)
        self._key = f"m:{digest_text(previous_key + text)[:40]}"
        parts = content_blocks.read_message_parts(text)
        answers = bool(parts) and all(isinstance(part, ResultPart) for part in parts)
        role = "tool" if answers else str(body.get("role") or "assistant")
        person = role.lower() in _PERSON_ROLES
        if person and not self._recorder.origin.title:
            self._recorder.origin.title = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        created_at = parse_time(body.get("created_at")) or default_time
        self._recorder.record_message(
            ImportedMessage(self._key, role, body, created_at, previous_key, begins_turn=person)
        )

    def close(self) -> None:
        origin = self._recorder.origin
        origin.metadata = to_storable({**origin.metadata, **self._about})
        self._recorder.close()


def count_usage(usage: Any, names: dict[str, str]) -> Counter[str]:
    """Count a provider's usage object under the names this library knows; `names` maps one to the other."""
    counts: Counter[str] = Counter()
    for source_name, target_name in names.items():
        count = usage.get(source_name) if isinstance(usage, dict) else None
        if isinstance(count, int) and not isinstance(count, bool) and 0 < count < 2**53:
            counts[target_name] += count
    return counts


def count_unknown_types(content: Any, known_types: frozenset[str], what: str) -> Counter[str]:
    """Count the types in a message's content that are not `known_types`."""
    counts: Counter[str] = Counter()
    for block in content if isinstance(content, list) else ():
        kind = block.get("type") if isinstance(block, dict) else type(block).__name__
        type_name = kind if isinstance(kind, str) else "without a type"
        if type_name not in known_types:
            counts[f"{what} {type_name}"] += 1
    return counts


def separate_fields(value: Body, shown: frozenset[str], quiet: frozenset[str]) -> Body:
    """Move the `quiet` fields of a message to `source`; `shown` and unknown ones stay."""
    source = {name: field for name, field in value.items() if name in quiet and name not in shown}
    body = {name: field for name, field in value.items() if name not in source}
    return {**body, "source": source} if source else body


def merge_exchanges(values: list[Any], read: Callable[[Any], Exchange | None]) -> Exchange | None:
    """Merge several entries into one exchange; None if one of them is no message."""
    exchanges = [read(value) for value in values]
    merged = Exchange([])
    for exchange in exchanges:
        if exchange is None:
            return None
        merged.messages += exchange.messages
        merged.unknown.update(exchange.unknown)
    return merged
