"""Import of one transcript: its values are read by the reader of its format, which writes sessions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from checkpoints.db import clock
from checkpoints.exceptions import InvalidInput
from checkpoints.importers import detect_format
from checkpoints.importers.find_and_read_transcript_files import (
    FEW_SAMPLE_VALUES,
    FileReader,
    SourceFile,
    find_reason_to_convert_encoding_or_empty,
    read_first_values_and_detect_json_lines,
)
from checkpoints.importers.import_errors import EncodingRefused, FormatRefused
from checkpoints.importers.import_report import ImportReport
from checkpoints.importers.new_session_batch import NewSessionBatch
from checkpoints.importers.price_table import PriceTable
from checkpoints.importers.session_writer import ImportWriter
from checkpoints.importers.transcript_reader_interface_and_builder import (
    ImportContext,
    TranscriptFormat,
    TranscriptReader,
)
from checkpoints.store.database_client_state import Store

#: Number of bytes between two progress reports.
_PROGRESS_STEP_BYTES = 256 * 1024


@dataclass(frozen=True)
class ImportOptions:
    """Wishes of whoever imports. `format` is empty if it is to be detected; the other texts may be empty too."""

    format: str = ""
    session_id: str = ""
    agent: str = ""
    imported_by: str = ""
    prices: PriceTable | None = None


def build_import_context(
    store: Store,
    options: ImportOptions,
    report: ImportReport,
    chosen: TranscriptFormat,
    file: SourceFile | None,
    name: str,
    batch: NewSessionBatch | None = None,
) -> ImportContext:
    now = clock.now()
    return ImportContext(
        store=store,
        report=report,
        format=chosen,
        path=None if file is None else file.path,
        name=name,
        modified_at=now if file is None else file.modified_at,
        session_id=options.session_id,
        agent=options.agent,
        live=file is not None and file.was_changed_recently(now),
        imported_by=options.imported_by,
        prices=options.prices,
        open_writer=partial(ImportWriter, batch=batch),
    )


def add_value_or_report_damage(reader: TranscriptReader, context: ImportContext, number: int, value: Any) -> None:
    """Read a value; one that cannot be stored is reported."""
    try:
        reader.add_value(number, value)
    except InvalidInput as error:
        text = json.dumps(value, ensure_ascii=False, default=str)
        context.report.add_damaged_place(context.path or Path("messages"), number, error.detail, text)


class FileImport:
    """Import of one file, which can go on when lines have been appended to it."""

    def __init__(
        self,
        store: Store,
        options: ImportOptions,
        report: ImportReport,
        file: SourceFile,
        batch: NewSessionBatch | None = None,
    ) -> None:
        self.file, self._report = file, report
        self.session_ids: list[str] = []
        #: Whether nothing of what was read last is a message.
        self.is_empty = False
        self._known_sessions = self._known_messages = 0
        chosen = _choose_format(file, options)
        self.format = chosen
        self._context = build_import_context(store, options, report, chosen, file, file.relative, batch)
        self.is_live = self._context.live
        self._values = FileReader(file, report, live=self.is_live)
        self._reader = chosen.open_reader(self._context)

    @property
    def offset(self) -> int:
        return self._values.offset

    def import_unread_values(self, on_read: Callable[[int], None] | None = None) -> list[str]:
        """Import what the file has beyond what was read. Returns the ids of its sessions."""
        self.read_unread_values(on_read)
        return self.flush()

    def read_unread_values(self, on_read: Callable[[int], None] | None = None) -> None:
        """Read what the file has beyond what was read. Of a small file nothing is written before `flush`."""
        self._values.file = self.file
        self._known_sessions, self._known_messages = len(self._report.session_ids), self._report.messages
        reported = self._values.offset
        for value in self._values.iterate_values():
            add_value_or_report_damage(self._reader, self._context, value.number, value.value)
            if on_read is not None and self._values.offset - reported >= _PROGRESS_STEP_BYTES:
                reported = self._values.offset
                on_read(reported)

    def flush(self) -> list[str]:
        """Write what was read. Returns the ids of the sessions of the file."""
        self._reader.flush()
        self.file.document = None
        self.is_empty = self._report.messages == self._known_messages
        self.session_ids += self._report.session_ids[self._known_sessions :]
        return self.session_ids


def _choose_format(file: SourceFile, options: ImportOptions) -> TranscriptFormat:
    if not options.format:
        few_values = read_first_values_and_detect_json_lines(file, FEW_SAMPLE_VALUES)
        _require_readable_encoding(file)
        certain = (
            detect_format.find_only_certain_format_or_none(few_values) if len(few_values) >= FEW_SAMPLE_VALUES else None
        )
        if certain is not None:
            return certain
    values = read_first_values_and_detect_json_lines(file)
    _require_readable_encoding(file)
    if options.format:
        chosen = detect_format.get_format_by_name(options.format)
        detect_format.require_most_values_of_format(file.path, values, chosen)
        return chosen
    detected = detect_format.detect_format_or_none(values)
    if detected is None:
        why = "most of its entries are of no known format" if values else "it has no JSON objects"
        raise FormatRefused(file.path, why)
    return detected


def _require_readable_encoding(file: SourceFile) -> None:
    """Raise `EncodingRefused` for a file of lines that has to be converted before it can be read."""
    if why := find_reason_to_convert_encoding_or_empty(file):
        raise EncodingRefused(file.path, why)
