"""Reader of files of messages in the formats of model providers: whole conversations, or single messages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from checkpoints.exceptions import InvalidInput
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.importers.find_and_read_transcript_files import LINE_SUFFIXES
from checkpoints.importers.imported_message_and_usage import parse_iso_or_unix_time_or_none, parse_token_count_or_zero
from checkpoints.importers.transcript_reader_interface_and_builder import Body, ImportContext, TranscriptBuilder


@dataclass
class Exchange:
    """Messages of one JSON value, in their stored form.

    `whole`: they are a conversation of their own, called `name` if it has a name; otherwise they continue the messages
    before them in the file. The usage and cost are those of the whole value. `about` describes the conversation (the
    tools, an id of the provider's), and `envelope` has the other fields of an answer, which its last message keeps.
    """

    messages: list[Body]
    whole: bool = False
    name: str = ""
    at: datetime | None = None
    model: str = ""
    tokens: Counter[str] = field(default_factory=Counter)
    cost: Decimal | None = None
    about: dict[str, Any] = field(default_factory=dict)
    envelope: Body = field(default_factory=dict)
    #: Entries that are no messages, which are left out.
    damaged: list[Any] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)


class ExchangeReader:
    """Reader of the conversations of one file. `read` returns None for a value of another format."""

    def __init__(self, context: ImportContext, read: Callable[[Any], Exchange | None]) -> None:
        self._context, self._read = context, read
        self._running: TranscriptBuilder | None = None
        self._names: Counter[str] = Counter()

    def add_value(self, number: int, value: Any) -> None:
        """Read the messages of a value; one that cannot be stored is reported."""
        report = self._context.report
        try:
            exchange = self._read(value)
            reason = f"it is no message of the format {self._context.format.name}"
            for message in exchange.messages if exchange else ():
                to_canonical_json(message, "message")
        except InvalidInput as error:
            exchange, reason = None, error.detail
        for entry in [value] if exchange is None else exchange.damaged:
            text = json.dumps(entry, ensure_ascii=False, default=str)
            report.add_damaged_place(self._context.path or Path("messages"), number, reason, text)
        if exchange is None:
            return
        report.unknown.update(exchange.unknown)
        if exchange.whole:
            self._import_conversation(exchange, number)
            return
        if self._running is None:
            self._running = self._context.open_builder(self._context.choose_session_id())
        _add_exchange(self._running, exchange)

    def _import_conversation(self, exchange: Exchange, number: int) -> None:
        """Import a whole conversation as a session.

        It is named after the file if the file holds one JSON value alone, else after its own name or its number.
        """
        path = self._context.path
        is_only = number == 1 and not exchange.name and (path is None or path.suffix not in LINE_SUFFIXES)
        name = "" if is_only else exchange.name or str(number)
        self._names[name] += 1
        if self._names[name] > 1:
            name = f"{name}.{self._names[name]}"
        builder = self._context.open_builder(self._context.choose_session_id("", *([name] if name else [])))
        _add_exchange(builder, exchange)
        builder.flush()

    def flush(self) -> None:
        """Write the messages that follow each other."""
        if self._running is not None:
            self._running.flush()


def _add_exchange(builder: TranscriptBuilder, exchange: Exchange) -> None:
    builder.set_context(model=exchange.model)
    usage = builder.add_usage(exchange.model, exchange.tokens, exchange.cost)
    for number, body in enumerate(exchange.messages, 1):
        at = parse_iso_or_unix_time_or_none(body.get("created_at")) or exchange.at
        if number < len(exchange.messages):
            builder.add_message(body, at=at)
            continue
        identity = to_canonical_json(body, "message")  # what is beside a message does not make it another one
        if exchange.envelope:
            body = {**body, "source": {**body.get("source", {}), "response": exchange.envelope}}
        builder.add_message(body, at=at, usage=usage, identity=identity)
    builder.facts.update(exchange.about)


def convert_usage_counts(usage: Any, names: Mapping[str, str], cached: tuple[str, str] = ("", "")) -> Counter[str]:
    """Count a provider's usage object under the names this library knows; `names` maps one to the other.

    `cached` is the path of the input tokens that came from the cache, where the provider counts them as input too.
    """
    counts: Counter[str] = Counter()
    for source_name, target_name in names.items():
        if count := parse_token_count_or_zero(usage.get(source_name) if isinstance(usage, dict) else None):
            counts[target_name] += count
    details = usage.get(cached[0]) if isinstance(usage, dict) else None
    from_cache = parse_token_count_or_zero(details.get(cached[1])) if isinstance(details, dict) else 0
    if from_cache and from_cache <= counts["input_tokens"]:
        counts["input_tokens"] -= from_cache
        counts["cache_read_input_tokens"] += from_cache
    if any(counts[name] for name in ("input_tokens", "output_tokens")):
        del counts["total_tokens"]
    return +counts


def are_half_of_scores_positive(scores: Sequence[int]) -> bool:
    """Return whether at least half of the messages fit: a format gets new types of content, which are kept as they
    are."""
    return bool(scores) and sum(score > 0 for score in scores) * 2 >= len(scores)


def count_unknown_block_types(content: Any, known_types: frozenset[str], what: str) -> Counter[str]:
    """Count the types in a message's content that are not `known_types`."""
    counts: Counter[str] = Counter()
    for block in content if isinstance(content, list) else ():
        kind = block.get("type") if isinstance(block, dict) else type(block).__name__
        type_name = kind if isinstance(kind, str) else "without a type"
        if type_name not in known_types:
            counts[f"{what} {type_name}"] += 1
    return counts


def move_undisplayed_fields_to_source(value: Body, shown: frozenset[str], quiet: frozenset[str]) -> Body:
    """Move the `quiet` fields of a message to `source`; `shown` and unknown ones stay."""
    source = {name: field for name, field in value.items() if name in quiet and name not in shown}
    body = {name: field for name, field in value.items() if name not in source}
    return {**body, "source": source} if source else body


def read_and_merge_exchanges(values: list[Any], read: Callable[[Any], Exchange | None]) -> Exchange | None:
    """Merge several entries into one exchange, without those that are no messages; None if none of them is one."""
    merged = Exchange([])
    for value in values:
        exchange = read(value)
        if exchange is None:
            merged.damaged.append(value)
            continue
        merged.messages += exchange.messages
        merged.unknown.update(exchange.unknown)
    return None if values and len(merged.damaged) == len(values) else merged
