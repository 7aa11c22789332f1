"""Files of messages as model providers take and give them: whole conversations, or one message after the other."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from checkpoints import clock
from checkpoints.adapters.importing.lines import Reading, objects, reading
from checkpoints.adapters.importing.recorder import Recorder
from checkpoints.adapters.importing.refusal import NothingToImport
from checkpoints.adapters.importing.report import ImportReport, Progress
from checkpoints.adapters.importing.rows import IMPORT, Origin, session_name, storable
from checkpoints.adapters.importing.said import START, Said, Totals, moment
from checkpoints.client import SyncCheckpointer
from checkpoints.exceptions import InvalidInput
from checkpoints.ids import checked
from checkpoints.queries import blocks
from checkpoints.queries.blocks import Result, Text
from checkpoints.serde.canonical import canonical, parse
from checkpoints.serde.digests import text_digest

Body = dict[str, Any]
_LINES: Final = frozenset({".jsonl", ".ndjson"})
_PERSON: Final = frozenset({"user", "human"})


@dataclass
class Exchange:
    """What one JSON value says: messages in the form they are stored in.

    `whole`: they are a conversation of their own, called `name` where it has a name; otherwise they go on from what the
    file said before. `about` describes the conversation (the model, an id of the provider's).
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
class Format:
    """A convention of messages. `read` returns None for a value that is none of it."""

    name: str
    read: Callable[[Any], Exchange | None]


@dataclass(frozen=True)
class Wish:
    """How the sessions are called: `session_id` is the file's, and what those of its conversations begin with."""

    session_id: str
    agent: str


def import_exchanges(
    checkpointer: SyncCheckpointer,
    source: str | Path | Sequence[Body],
    given: Format,
    *,
    session_id: str | None,
    agent: str,
    progress: Progress | None,
) -> ImportReport:
    """Import a file, a folder of files, or messages from memory."""
    if isinstance(source, str | Path):
        return _import_path(checkpointer, Path(source).expanduser(), given, session_id, agent, progress)
    if session_id is None:
        raise InvalidInput("Messages from memory need a session_id.")
    files = reading([], progress)
    one = _File(
        checkpointer, files, Path("messages"), given, Wish(checked("session id", session_id), agent), clock.now()
    )
    one.take(enumerate(source, 1))
    return files.report


def _import_path(
    checkpointer: SyncCheckpointer,
    path: Path,
    given: Format,
    session_id: str | None,
    agent: str,
    progress: Progress | None,
) -> ImportReport:
    found = [path] if path.is_file() else sorted(file for file in path.rglob("*.json*") if file.is_file())
    if not found:
        raise NothingToImport(path, "there is no file of JSON")
    if session_id is not None and len(found) > 1:
        raise InvalidInput("A session_id names one file; a folder's sessions are called like its files.")
    files = reading(found, progress)
    for file in found:
        relative = file.stem if file == path else file.relative_to(path).with_suffix("").as_posix()
        wish = Wish(checked("session id", session_id or session_name(relative)), agent)
        written = datetime.fromtimestamp(file.stat().st_mtime, UTC)
        _File(checkpointer, files, file, given, wish, written).take(_values(file, files))
    return files.report


def _values(path: Path, files: Reading) -> Iterator[tuple[int, Any]]:
    """The JSON values of a file: its lines, or what it holds as one value; a list counts as its entries."""
    if path.suffix not in _LINES:
        try:
            raw = path.read_bytes()
            value = parse(raw.decode(json.detect_encoding(raw)))
        except ValueError:
            value = None  # lines, whatever the file is called, or damaged
        if isinstance(value, dict | list):
            files.report.files += 1
            yield from enumerate(value if isinstance(value, list) else [value], 1)
            files.tell(path, files.sizes[path])
            return
    for line in objects(path, files):
        yield line.number, line.value


class _File:
    """The conversations of one file."""

    def __init__(
        self,
        checkpointer: SyncCheckpointer,
        files: Reading,
        path: Path,
        given: Format,
        wish: Wish,
        written: datetime,
    ) -> None:
        self._store, self._files, self._path = checkpointer.store, files, path
        self._format, self._wish, self._written = given, wish, written
        self._names: Counter[str] = Counter()

    def take(self, values: Iterator[tuple[int, Any]]) -> None:
        running: Conversation | None = None
        whole = 0
        for number, value in values:
            exchange = self._read(number, value)
            if exchange is None:
                continue
            self._files.report.unknown.update(exchange.unknown)
            if exchange.whole:
                whole += 1
                self._whole(exchange, number)
                continue
            running = running or self._opened("")
            running.add(exchange)
        if running is not None:
            running.close()
        elif not whole:
            self._files.report.empty.append(str(self._path))

    def _read(self, number: int, value: Any) -> Exchange | None:
        """What a value says; where that cannot be kept, it is reported."""
        try:
            exchange = self._format.read(value)
            why = f"it is no message of the format {self._format.name}"
            for message in exchange.messages if exchange else ():
                canonical(message, "message")
        except InvalidInput as error:
            exchange, why = None, error.detail
        if exchange is None:
            self._files.report.damage(self._path, number, why, json.dumps(value, ensure_ascii=False))
        return exchange

    def _whole(self, exchange: Exchange, number: int) -> None:
        """A conversation of its own; the only one of a file that is not made of lines is called like the file."""
        alone = number == 1 and self._path.suffix not in _LINES and not exchange.name
        name = "" if alone else exchange.name or str(number)
        self._names[name] += 1
        if self._names[name] > 1:
            name = f"{name}.{self._names[name]}"
        conversation = self._opened(name)
        conversation.add(exchange)
        conversation.close()

    def _opened(self, name: str) -> Conversation:
        session_id = session_name(self._wish.session_id, *([name] if name else []))
        origin = Origin(session_id, self._format.name, self._wish.agent, labels=(self._format.name,))
        origin.metadata = {IMPORT: {"file": self._path.name}}
        recorder = Recorder(self._store, origin, self._files.report, otherwise=self._written, by_place=True)
        return Conversation(recorder)


class Conversation:
    """Messages without names of their own: what they say, and everything before it, names them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._key = START
        self._about: dict[str, Any] = {}

    def add(self, exchange: Exchange) -> None:
        for body in exchange.messages:
            self._say(body, exchange.at)
        totals: Totals = self._recorder.totals
        totals.tokens.update(exchange.tokens)
        totals.cost += exchange.cost
        self._about.update(exchange.about)

    def _say(self, body: Body, at: datetime | None) -> None:
        before, text = self._key, canonical(body)
        self._key = f"m:{text_digest(before + text)[:40]}"
        parts = blocks.read(text)
        answers = bool(parts) and all(isinstance(part, Result) for part in parts)
        role = "tool" if answers else str(body.get("role") or "assistant")
        person = role.lower() in _PERSON
        if person and not self._recorder.origin.title:
            self._recorder.origin.title = "\n".join(part.text for part in parts if isinstance(part, Text))
        when = moment(body.get("created_at")) or at
        self._recorder.say(Said(self._key, role, body, when, before, begins_turn=person))

    def close(self) -> None:
        origin = self._recorder.origin
        origin.metadata = storable({**origin.metadata, **self._about})
        self._recorder.close()


def counted(usage: Any, names: dict[str, str]) -> Counter[str]:
    """The numbers of a provider's usage object under the names this library knows: `names` says which becomes which."""
    found: Counter[str] = Counter()
    for theirs, ours in names.items():
        count = usage.get(theirs) if isinstance(usage, dict) else None
        if isinstance(count, int) and not isinstance(count, bool) and 0 < count < 2**53:
            found[ours] += count
    return found


def strange(content: Any, known: frozenset[str], what: str) -> Counter[str]:
    """The types in a message's content that are not `known`."""
    found: Counter[str] = Counter()
    for block in content if isinstance(content, list) else ():
        kind = block.get("type") if isinstance(block, dict) else type(block).__name__
        named = kind if isinstance(kind, str) else "without a type"
        if named not in known:
            found[f"{what} {named}"] += 1
    return found


def parted(value: Body, shown: frozenset[str], quiet: frozenset[str]) -> Body:
    """A message with its `quiet` fields put aside under `source`; `shown` and unknown ones stay where they are."""
    aside = {name: field for name, field in value.items() if name in quiet and name not in shown}
    rest = {name: field for name, field in value.items() if name not in aside}
    return {**rest, "source": aside} if aside else rest


def of_list(values: list[Any], read: Callable[[Any], Exchange | None]) -> Exchange | None:
    """One exchange of several entries; None where one of them is no message."""
    found = [read(value) for value in values]
    together = Exchange([])
    for each in found:
        if each is None:
            return None
        together.messages += each.messages
        together.unknown.update(each.unknown)
    return together
