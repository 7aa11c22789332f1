"""Detection of the format of a file by its content."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from checkpoints.exceptions import InvalidInput
from checkpoints.importers.anthropic_messages import ANTHROPIC
from checkpoints.importers.claude_code.transcript_reader import CLAUDE_CODE
from checkpoints.importers.codex import CODEX
from checkpoints.importers.gemini_cli import GEMINI_CLI
from checkpoints.importers.import_errors import FormatRefused
from checkpoints.importers.langfuse import LANGFUSE
from checkpoints.importers.openai_chat import OPENAI_CHAT
from checkpoints.importers.openai_responses import OPENAI_RESPONSES
from checkpoints.importers.opentelemetry import OPENTELEMETRY
from checkpoints.importers.pi_coding_agent import PI
from checkpoints.importers.swe_agent import SWE_AGENT
from checkpoints.importers.transcript_reader_interface_and_builder import TranscriptFormat

#: All formats. Of two that fit a file equally well, the first one is taken.
FORMATS: Final[dict[str, TranscriptFormat]] = {
    known.name: known
    for known in (
        CLAUDE_CODE,
        CODEX,
        GEMINI_CLI,
        PI,
        SWE_AGENT,
        OPENTELEMETRY,
        LANGFUSE,
        OPENAI_CHAT,
        OPENAI_RESPONSES,
        ANTHROPIC,
    )
}

#: Lowest score of a value that is certainly of a format.
CERTAIN: Final = 2


def get_format_by_name(name: str) -> TranscriptFormat:
    """Return the format of that name. Raises `InvalidInput`."""
    if name not in FORMATS:
        raise InvalidInput(f"There is no format {name!r}. Use one of: {', '.join(FORMATS)}.")
    return FORMATS[name]


def detect_format_or_none(values: Sequence[Any]) -> TranscriptFormat | None:
    """Return the format that most surely fits the values of a file; None if most of them fit none."""
    scores = {known: _score_each_value_for_format(known, values) for known in FORMATS.values()}
    best = max(scores, key=lambda known: sum(scores[known]))
    return best if _fits_most_values(scores[best]) else None


def find_only_certain_format_or_none(values: Sequence[Any]) -> TranscriptFormat | None:
    """Return the only format that each of the values is certainly of; None if there is no such format."""
    fitting = [known for known in FORMATS.values() if all(known.recognize(value) >= CERTAIN for value in values)]
    return fitting[0] if values and len(fitting) == 1 else None


def require_most_values_of_format(path: Path, values: Sequence[Any], wished: TranscriptFormat) -> None:
    """Refuse a file if most of its values are not of the format that it is to be read as. Raises `FormatRefused`."""
    if not values or _fits_most_values(_score_each_value_for_format(wished, values)):
        return
    detected = detect_format_or_none(values)
    advice = f"; it looks like {detected.name}" if detected else ""
    raise FormatRefused(path, f"most of its entries are not of the format {wished.name}{advice}")


def _score_each_value_for_format(known: TranscriptFormat, values: Sequence[Any]) -> list[int]:
    """Tell for each value how surely it is of a format."""
    return [known.recognize(value) for value in values]


def _fits_most_values(scores: Sequence[int]) -> bool:
    return sum(score > 0 for score in scores) * 2 > len(scores) or sum(scores) > len(scores) * 2
