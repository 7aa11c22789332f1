"""Lines of a transcript that could not be stored, until later ones can: the SDK gives a batch up after a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final

from checkpoints.adapters.claude import transcript_line_delta_encoding
from checkpoints.adapters.claude.transcript_line_delta_encoding import Line

#: Characters of all lines that are kept.
_MAX_CHARACTERS: Final = 64_000_000


@dataclass(frozen=True)
class _RefusedLines:
    """Lines of a session, the batch that was refused last, and whether another process owned the session."""

    lines: Sequence[Line]
    batch: object
    size: int
    was_busy: bool


class TranscriptLineRetryBuffer:
    """Refused lines by session. Safe to use from many threads."""

    def __init__(self) -> None:
        self._by_session: OrderedDict[str, _RefusedLines] = OrderedDict()
        self._lock = Lock()

    def prepend_refused_lines(self, session_id: str, batch: object, lines: Sequence[Line]) -> Sequence[Line]:
        """Return the lines that have to be stored now: the refused ones, and behind them those of a batch.

        Args:
            session_id: Identifier of the session.
            batch: Batch as the SDK gave it. One that is given again was refused with the lines that are kept.
            lines: Lines of the batch.
        """
        with self._lock:
            refused = self._by_session.get(session_id)
        if refused is None:
            return lines
        return refused.lines if refused.batch is batch else [*refused.lines, *lines]

    def remember_refused_lines(self, session_id: str, batch: object, lines: Sequence[Line], *, was_busy: bool) -> None:
        """Keep lines that were refused, with those that were refused before. The oldest sessions make room for them."""
        size = sum(len(transcript_line_delta_encoding.encode_json(line)) for line in lines)
        with self._lock:
            before = self._by_session.pop(session_id, None)
            was_busy = was_busy or (before is not None and before.was_busy)
            self._by_session[session_id] = _RefusedLines(lines, batch, size, was_busy)
            while sum(each.size for each in self._by_session.values()) > _MAX_CHARACTERS:
                self._by_session.popitem(last=False)

    def was_session_busy(self, session_id: str) -> bool:
        """Return whether lines of a session were refused because another process owned it."""
        with self._lock:
            refused = self._by_session.get(session_id)
        return refused is not None and refused.was_busy

    def discard(self, session_id: str) -> None:
        """Discard the lines of a session: they are stored, or nobody wants them."""
        with self._lock:
            self._by_session.pop(session_id, None)
