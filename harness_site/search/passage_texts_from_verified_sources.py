"""Passages with the texts of their sources. The index is a copy without seals, so with seals no text of it is shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from django.db import connection

from checkpoints.models import Message
from checkpoints.seals import row_seals
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.versions import version_seals_and_transcript_verification
from harness_site.core.unreadable_rows_and_quarantine import (
    convert_rows_or_mark_unreadable,
    filter_out_unreadable_records,
    load_rows_or_mark_unreadable,
)
from harness_site.search.index_delete_triggers import SOURCES
from harness_site.search.models import Kind, Passage
from harness_site.search.text_extraction import split_into_overlapping_pieces
from harness_site.search.texts_to_index import IndexedText, load_texts_to_index


def replace_passage_texts_and_drop_unverified(passages: Sequence[Passage]) -> list[Passage]:
    """Give each passage the text that its source has now. Without seals, nothing changes.

    Left out are passages whose source is deleted, altered, or in another place than the passage says. The session of an
    altered source is put under quarantine.
    """
    if get_seal_keys() is None:
        return list(passages)
    texts: dict[tuple[str, int], IndexedText] = {}
    for kind in Kind:
        keys = sorted({passage.source for passage in passages if passage.kind == kind})
        if keys:
            texts |= {
                (kind.value, text.source): text
                for text in load_texts_to_index(kind, _list_verified_source_keys(kind, keys))
            }
    return [
        passage
        for passage in passages
        if _try_to_replace_passage_text(passage, texts.get((passage.kind, passage.source)))
    ]


def _list_verified_source_keys(kind: Kind, keys: Iterable[int]) -> list[int]:
    """Return the keys of the sources that are as they were written."""
    column = "pk" if kind == Kind.SESSION else "session_id"
    stored: Any = SOURCES[kind]._default_manager.filter(pk__in=keys)
    rows = load_rows_or_mark_unreadable(stored, kind.value, session_column=column)
    messages = filter_out_unreadable_records(rows) if kind == Kind.MESSAGE else []
    chains = version_seals_and_transcript_verification.read_chains_before_messages(connection, messages)
    verify = partial(_verify_source_and_get_key, chains)
    verified = convert_rows_or_mark_unreadable(rows, verify, kind.value, lambda row: getattr(row, column))
    return filter_out_unreadable_records(verified)


def _verify_source_and_get_key(chains: Mapping[tuple[int, int], Any], row: Any) -> int:
    if isinstance(row, Message):
        version_seals_and_transcript_verification.verify_nonconsecutive_message(connection, row, chains)
    else:
        row_seals.verify_row(row)
    return int(row.pk)


def _try_to_replace_passage_text(passage: Passage, source: IndexedText | None) -> bool:
    """Give a passage the text of its source. Returns False if the source has none at its place."""
    place = passage.workspace_id, passage.session_id, passage.position
    if source is None or place != (source.workspace, source.session, source.position):
        return False
    pieces = list(split_into_overlapping_pieces(source.text))
    if not 0 <= passage.part < len(pieces):
        return False
    passage.text = pieces[passage.part]
    return True
