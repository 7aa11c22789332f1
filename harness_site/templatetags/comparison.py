"""Filters of the page that compares two versions."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import islice
from operator import itemgetter
from urllib.parse import urlencode

from django import template
from django.template import Context
from django.utils.safestring import SafeString

from checkpoints.queries import blocks
from checkpoints.queries.alignment import Fold
from checkpoints.queries.blocks import Result
from checkpoints.queries.compare import OPENED, Comparison
from checkpoints.queries.fieldwise import FieldChange
from checkpoints.queries.plans import Plan
from checkpoints.queries.words import Piece
from harness_site.rendering import jsontree, markdown, masking, saying, text

register = template.Library()

#: Unchanged characters that are shown on either side of a change.
_CONTEXT = 160


@register.filter
def messages_delta(found: Comparison) -> str:
    """+4, or +4 −1 where some went."""
    added, removed = (found.added, found.removed) if not found.rest_a + found.rest_b else _lengths(found)
    return " ".join(saying.signed(number) for number in (added, -removed) if number) or "0"


def _lengths(found: Comparison) -> tuple[int, int]:
    """Where not everything was compared, only the lengths say something."""
    difference = found.b.length - found.a.length
    return max(difference, 0), max(-difference, 0)


@register.simple_tag(takes_context=True)
def opening(context: Context, position: int) -> str:
    """The address of this page with the unchanged messages from `position` on shown as well."""
    found: Comparison = context["found"]
    query: list[tuple[str, object]] = [("a", found.a.version), ("b", found.b.version)]
    if context["two"]:
        query.append(("with", context["other"].row.pk))
    query += [("open", place) for place in [*context["opened"], position]]
    return f"?{urlencode(query)}#m-{position}"


@register.filter
def begins_last(fold: Fold) -> int:
    """Where the last messages of a fold begin that can be opened at once."""
    return fold.position + max(0, fold.count - OPENED)


@register.filter
def dotted(path: tuple[str | int, ...]) -> str:
    """Where a field stands: `order.items[2].price`."""
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.visible(steps.removeprefix("."))


@register.simple_tag
def field_value(change: FieldChange, side: str) -> str:
    """The old or the new value on one line, masked where any name on the way to it makes it a secret."""
    value = change.old if side == "old" else change.new
    if any(field.hidden for step in change.path for field in masking.fields_of({str(step): value})):
        value = masking.MASK
    return text.visible(saying.beginning(jsontree.dumped(value)))


@register.filter
def cost_delta(found: Comparison) -> Decimal | None:
    return None if found.a.cost is None or found.b.cost is None else found.b.cost - found.a.cost


@register.filter
def tokens_delta(found: Comparison) -> str:
    if found.a.tokens is None or found.b.tokens is None:
        return "–"
    return saying.signed(found.b.tokens - found.a.tokens)


@register.filter
def done(plan: Plan | None) -> int:
    return plan.done if plan else 0


@register.filter
def differ(pieces: tuple[Piece, ...]) -> bool:
    return any(piece.change != "same" for piece in pieces)


@register.filter
def masked_pieces(pieces: tuple[Piece, ...]) -> list[Piece]:
    """The pieces with what is secret masked; a secret is known by the whole of it, and a change may have cut it up."""
    hidden: dict[str, Sequence[tuple[int, int]]] = {}
    for side in ("del", "ins"):
        hidden[side] = masking.spans("".join(piece.text for piece in pieces if piece.change in ("same", side)))
    if not any(hidden.values()):
        return list(pieces)
    shown, at = [], {"del": 0, "ins": 0}
    for piece in pieces:
        sides = ("del", "ins") if piece.change == "same" else (piece.change,)
        covered = [span for side in sides for span in _inside(hidden[side], at[side], at[side] + len(piece.text))]
        shown.append(Piece(piece.change, _without(piece.text, covered)))
        for side in sides:
            at[side] += len(piece.text)
    return shown


def _inside(spans: Sequence[tuple[int, int]], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """What of ordered `spans` lies between two places, counted from the first of them."""
    for first, last in islice(spans, bisect_right(spans, start, key=itemgetter(1)), None):
        if first >= stop:
            return
        yield max(first, start) - start, min(last, stop) - start


def _without(text: str, covered: list[tuple[int, int]]) -> str:
    """`text` with each stretch of covered places replaced by one mask."""
    parts: list[str] = []
    end: int | None = None
    for start, stop in sorted(covered):
        if end is None or start > end:
            parts += [text[end or 0 : start], masking.MASK]
        end = stop if end is None else max(end, stop)
    return "".join([*parts, text[end or 0 :]])


@register.filter
def middle(piece: Piece) -> str:
    """An unchanged stretch of an edited message; the middle of a long one is folded, and its length named."""
    left_out = len(piece.text) - 2 * _CONTEXT
    if left_out < _CONTEXT:
        return text.visible(piece.text)
    begin, end = piece.text[:_CONTEXT], piece.text[-_CONTEXT:]
    return text.visible(f"{begin} … {left_out:,} unchanged characters … {end}")


@register.filter
def prose_excerpt(content: str) -> SafeString:
    return markdown.prose(saying.beginning(content))


@register.filter
def result_text(result: Result) -> str:
    return blocks.plain((result,))
