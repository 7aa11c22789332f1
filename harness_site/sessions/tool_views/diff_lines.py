"""Lines of a difference of two texts, with changed words marked and code coloured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from harness_site.core.rendering.syntax_highlighting import CodeToken, list_colored_code_tokens
from harness_site.core.word_diff import BoundedMatcher, TooManySteps, compute_word_diff

Sign = Literal["same", "del", "ins", "gap"]
#: Unchanged lines on either side of a change.
CONTEXT: Final = 3
_STEPS: Final = 400_000
#: Pairs of lines, and characters of a line, that are compared word by word.
_PAIRS: Final = 60
_LINE: Final = 300


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line with its number in the old (`del`) or new text, None if unknown. `html` is safe."""

    sign: Sign
    number: int | None
    html: SafeString


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two masked texts, by line, with where each line starts and the coloured tokens."""

    lines: Sequence[str]
    starts: Sequence[int]
    tokens: Sequence[CodeToken]

    @classmethod
    def from_text(cls, text: str, language: str) -> _Side:
        lines = text.split("\n")
        starts, at = [], 0
        for line in lines:
            starts.append(at)
            at += len(line) + 1
        return cls(lines, starts, list_colored_code_tokens(text, language))


def build_diff_lines(old: str, new: str, language: str, *, first: int | None = None) -> list[DiffLine]:
    """Compare two masked texts. `first` is the number of their first line in the file, None if unknown."""
    old, new = old.removesuffix("\n"), new.removesuffix("\n")
    before, after = _Side.from_text(old, language), _Side.from_text(new, language)
    if not old:
        return _build_lines_of_range("ins", after, 0, len(after.lines), first)
    if not new:
        return _build_lines_of_range("del", before, 0, len(before.lines), first)
    lines: list[DiffLine] = []
    for tag, i1, i2, j1, j2 in _compute_line_opcodes(before.lines, after.lines):
        if tag == "equal":
            lines += _build_lines_of_range("same", after, j1, j2, first)
        else:
            lines += _build_replaced_lines(before, (i1, i2), after, (j1, j2), first)
    return _fold_unchanged_lines(lines)


def count_added_and_removed_lines(old: str, new: str) -> tuple[int, int]:
    """Return the number of lines that a change adds and removes."""
    old, new = old.removesuffix("\n"), new.removesuffix("\n")
    before, after = old.split("\n") if old else [], new.split("\n") if new else []
    changes = [opcode for opcode in _compute_line_opcodes(before, after) if opcode[0] != "equal"]
    return sum(j2 - j1 for _, _, _, j1, j2 in changes), sum(i2 - i1 for _, i1, i2, _, _ in changes)


def number_lines_of_single_text(text: str, language: str, first: int) -> list[DiffLine]:
    """Number the lines of a masked text."""
    side = _Side.from_text(text.removesuffix("\n"), language)
    return _build_lines_of_range("same", side, 0, len(side.lines), first)


def _compute_line_opcodes(before: Sequence[str], after: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    with suppress(TooManySteps):
        return BoundedMatcher(before, after, _STEPS).get_opcodes()
    return [("replace", 0, len(before), 0, len(after))]


def _build_replaced_lines(
    before: _Side, old: tuple[int, int], after: _Side, new: tuple[int, int], first: int | None
) -> list[DiffLine]:
    """List replaced lines: as many as there are on both sides are compared word by word."""
    removed: list[DiffLine] = []
    added: list[DiffLine] = []
    pairs = min(old[1] - old[0], new[1] - new[0], _PAIRS)
    for number in range(pairs):
        at, to = old[0] + number, new[0] + number
        marks = _find_changed_word_spans(before.lines[at], after.lines[to])
        removed.append(
            DiffLine(
                "del", _compute_line_number(first, at), _render_highlighted_line_with_marks(before, at, marks[0], "del")
            )
        )
        added.append(
            DiffLine(
                "ins", _compute_line_number(first, to), _render_highlighted_line_with_marks(after, to, marks[1], "ins")
            )
        )
    removed += _build_lines_of_range("del", before, old[0] + pairs, old[1], first)
    added += _build_lines_of_range("ins", after, new[0] + pairs, new[1], first)
    return removed + added


def _find_changed_word_spans(old: str, new: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return where words were removed from the old and added in the new line."""
    if max(len(old), len(new)) > _LINE:
        return [], []
    removed: list[tuple[int, int]] = []
    added: list[tuple[int, int]] = []
    at = to = 0
    for piece in compute_word_diff(old, new):
        size = len(piece.text)
        if piece.change == "del":
            removed.append((at, at + size))
        elif piece.change == "ins":
            added.append((to, to + size))
        at += size if piece.change != "ins" else 0
        to += size if piece.change != "del" else 0
    return removed, added


def _build_lines_of_range(sign: Sign, side: _Side, start: int, stop: int, first: int | None) -> list[DiffLine]:
    return [
        DiffLine(sign, _compute_line_number(first, at), _render_highlighted_line_with_marks(side, at, [], ""))
        for at in range(start, stop)
    ]


def _compute_line_number(first: int | None, at: int) -> int | None:
    return None if first is None else first + at


def _render_highlighted_line_with_marks(side: _Side, at: int, marks: Sequence[tuple[int, int]], tag: str) -> SafeString:
    """Render a line with its coloured tokens, and `marks` in an element `tag`."""
    line, start = side.lines[at], side.starts[at]
    tokens = [
        (max(0, token.start - start), min(len(line), token.stop - start), token.css_class)
        for token in _iterate_tokens_in_range(side.tokens, start, start + len(line))
    ]
    if not tokens and not marks:
        return escape(line)
    edges = sorted({0, len(line), *(edge for a, b, _ in tokens for edge in (a, b)), *(e for m in marks for e in m)})
    pieces = []
    for a, b in pairwise(edges):
        html = escape(line[a:b])
        css_class = next((name for x, y, name in tokens if x <= a and b <= y), "")
        if css_class:
            html = mark_safe(f'<span class="{css_class}">{html}</span>')  # noqa: S308 - escaped; a closed set of classes
        if any(x <= a and b <= y for x, y in marks):
            html = mark_safe(f"<{tag}>{html}</{tag}>")  # noqa: S308 - escaped above
        pieces.append(html)
    return mark_safe("".join(pieces))  # noqa: S308 - escaped above


def _iterate_tokens_in_range(tokens: Sequence[CodeToken], start: int, stop: int) -> Iterator[CodeToken]:
    """Yield the tokens that overlap a range, by binary search for the first one."""
    low, high = 0, len(tokens)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if tokens[middle].stop <= start else (low, middle)
    while low < len(tokens) and tokens[low].start < stop:
        yield tokens[low]
        low += 1


def _fold_unchanged_lines(lines: list[DiffLine]) -> list[DiffLine]:
    """Replace long stretches of unchanged lines by a gap."""
    near = {
        at
        for index, line in enumerate(lines)
        if line.sign != "same"
        for at in range(index - CONTEXT, index + CONTEXT + 1)
    }
    folded: list[DiffLine] = []
    for index, line in enumerate(lines):
        if index in near:
            folded.append(line)
        elif not folded or folded[-1].sign != "gap":
            folded.append(DiffLine("gap", None, SafeString()))
    return folded
