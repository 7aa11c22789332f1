"""Differences of two JSON values, value by value, with secrets masked."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from checkpoints.formats import to_canonical_json
from harness_site.core import word_diff
from harness_site.core.argument_paths_in_words import ListPlace, describe_path
from harness_site.core.masking.masker import (
    MASK,
    MaskedField,
    find_list_item_indexes_secret_to_reader,
    mask_field_names_and_list_all_fields,
    mask_json_value,
)
from harness_site.core.money_amounts_in_call_arguments import format_amount_argument, format_two_amounts
from harness_site.core.rendering import json_tree
from harness_site.core.word_diff import BoundedMatcher, DiffPiece, TooManySteps

#: Maximum depth of a value by value comparison; deeper values are compared as JSON text.
_DEEP: Final = 8
#: Number of characters of unchanged text in the line of a change that are shown beside it.
_CONTEXT_LENGTH: Final = 80
#: Maximum steps of the comparison of two lists.
_LIST_STEPS: Final = 1_000_000
#: Maximum number of pairs of objects in two lists whose similarity is computed.
_MAX_OBJECT_PAIRS: Final = 2_500
#: Lists of as many objects are compared item by item, unless other pairs have this much more in common. 1 is an item.
_MUCH_MORE_SIMILAR: Final = 0.5
#: What a name or a text among others on one line has that could end it.
_ENDS_VALUE: Final = re.compile(r'[,\n"]')

_Path: TypeAlias = tuple[str | ListPlace, ...]


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """Difference of one value at `path`, in words (empty for the whole value). `kind` is added, removed or changed.

    `pieces` are the masked parts to display; `hidden` is True if the difference lies in a masked value.
    `readable_amount` is a new amount with separators and cents where the pieces have it as it is stored, else empty.
    """

    path: str
    kind: str
    pieces: tuple[DiffPiece, ...]
    hidden: bool = False
    readable_amount: str = ""

    @property
    def is_replacement(self) -> bool:
        """Whether a whole value took the place of another one."""
        return tuple(piece.change for piece in self.pieces) == ("del", "ins")

    @property
    def is_change_within_text(self) -> bool:
        """Whether parts of a text changed, which are shown with the text around them."""
        return len(self.pieces) > 1 and not self.is_replacement


def list_value_differences(before: Any, after: Any, *, as_stored: bool = False) -> tuple[ValueDifference, ...]:
    """List the differences of two JSON values, value by value, in the order of the second one.

    Args:
        before: The first value.
        after: The second value.
        as_stored: Whether changed amounts are written as they are stored, with the one that people read beside it.
    """
    return tuple(_generate_value_differences((), before, after, 0, as_stored=as_stored))


def _generate_value_differences(
    path: _Path, before: Any, after: Any, depth: int, *, as_stored: bool
) -> Iterator[ValueDifference]:
    if to_canonical_json(before) == to_canonical_json(after):
        return
    if depth < _DEEP and isinstance(before, dict) and isinstance(after, dict):
        old, new = (
            {field.key: field for field in mask_field_names_and_list_all_fields(value)} for value in (before, after)
        )
        for key in [*new, *(key for key in old if key not in new)]:
            field = old.get(key) or new[key]
            yield from _generate_entry_differences(
                (*path, field.name), old.get(key), new.get(key), depth, as_stored=as_stored
            )
    elif depth < _DEEP and isinstance(before, list) and isinstance(after, list):
        yield from _generate_item_differences(path, before, after, depth, as_stored=as_stored)
    else:
        yield _build_changed_difference(path, mask_json_value(before), mask_json_value(after), as_stored=as_stored)


def _generate_item_differences(
    path: _Path, before: list[Any], after: list[Any], depth: int, *, as_stored: bool
) -> Iterator[ValueDifference]:
    """Yield the differences of two lists. Items that took the place of others are compared with these one by one."""
    old, new = (_wrap_list_items_as_masked_fields(value) for value in (before, after))
    for i1, i2, j1, j2 in _list_changed_ranges(before, after):
        common = min(i2 - i1, j2 - j1)
        for i, j in zip(range(i1, i1 + common), range(j1, j1 + common), strict=True):
            place = _append_list_place_to_path(path, j, after[j])
            yield from _generate_entry_differences(place, old[i], new[j], depth, as_stored=as_stored)
        for i in range(i1 + common, i2):
            place = _append_list_place_to_path(path, i, before[i])
            yield from _generate_entry_differences(place, old[i], None, depth, as_stored=as_stored)
        for j in range(j1 + common, j2):
            place = _append_list_place_to_path(path, j, after[j])
            yield from _generate_entry_differences(place, None, new[j], depth, as_stored=as_stored)


def _append_list_place_to_path(path: _Path, index: int, item: Any) -> _Path:
    return (*path, ListPlace(index + 1, isinstance(item, dict)))


def _wrap_list_items_as_masked_fields(value: list[Any]) -> list[MaskedField]:
    hidden = find_list_item_indexes_secret_to_reader(value)
    return [MaskedField(str(index), str(index), item, index in hidden) for index, item in enumerate(value)]


def _list_changed_ranges(before: list[Any], after: list[Any]) -> list[tuple[int, int, int, int]]:
    """List the ranges of both lists that differ: from and to in the first one, from and to in the second one.

    Lists of the same length are compared item by item, unless they are of simple values and fewer of these were removed
    and added than differ at their places. In lists of objects, those are compared that have most values in common.
    """
    whole = [(0, len(before), 0, len(after))]
    if 0 < len(before) * len(after) <= _MAX_OBJECT_PAIRS and all(isinstance(item, dict) for item in [*before, *after]):
        return _list_ranges_around_similar_objects(before, after)
    is_same_length = len(before) == len(after)
    if is_same_length and any(isinstance(item, dict | list) for item in [*before, *after]):
        return whole
    old_texts, new_texts = ([to_canonical_json(item) for item in value] for value in (before, after))
    with suppress(TooManySteps):
        opcodes = BoundedMatcher(old_texts, new_texts, _LIST_STEPS).get_opcodes()
        ranges = [(i1, i2, j1, j2) for tag, i1, i2, j1, j2 in opcodes if tag != "equal"]
        differing = sum(old != new for old, new in zip(old_texts, new_texts, strict=False))
        if not is_same_length or sum(max(i2 - i1, j2 - j1) for i1, i2, j1, j2 in ranges) < differing:
            return ranges
    return whole


def _list_ranges_around_similar_objects(
    before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> list[tuple[int, int, int, int]]:
    """List the changed ranges of two lists of objects: one for each changed pair, and those between the pairs."""
    old, new = (
        [{(key, to_canonical_json(inner)) for key, inner in item.items()} for item in items]
        for items in (before, after)
    )
    similarity = [[len(one & other) / max(len(one), len(other), 1) for other in new] for one in old]
    # best[i][j] is the highest sum of similarities of pairs among the items from i and from j on.
    best = [[0.0] * (len(new) + 1) for _item in [*old, None]]
    for i in reversed(range(len(old))):
        for j in reversed(range(len(new))):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], similarity[i][j] + best[i + 1][j + 1])
    in_place = sum(similarity[i][i] for i in range(min(len(old), len(new))))
    if len(old) == len(new) and best[0][0] <= in_place + _MUCH_MORE_SIMILAR:
        return [(i, i + 1, i, i + 1) for i in range(len(old)) if similarity[i][i] < 1]
    ranges = []
    i = j = start_i = start_j = 0
    while i < len(old) and j < len(new):
        if similarity[i][j] and best[i][j] == similarity[i][j] + best[i + 1][j + 1]:
            ranges += [(start_i, i, start_j, j), *([(i, i + 1, j, j + 1)] if similarity[i][j] < 1 else [])]
            i, j = start_i, start_j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    ranges.append((start_i, len(old), start_j, len(new)))
    return [(i1, i2, j1, j2) for i1, i2, j1, j2 in ranges if i1 < i2 or j1 < j2]


def list_indexes_of_corresponding_items(before: list[Any], after: list[Any]) -> list[tuple[int, int]]:
    """List the indexes of items in the first and the second list of which one took the place of the other."""
    pairs: list[tuple[int, int]] = []
    i = j = 0
    for i1, i2, j1, j2 in [*_list_changed_ranges(before, after), (len(before), len(before), len(after), len(after))]:
        pairs += [*zip(range(i, i1), range(j, j1), strict=False), *zip(range(i1, i2), range(j1, j2), strict=False)]
        i, j = i2, j2
    return pairs


def _generate_entry_differences(
    path: _Path, old: MaskedField | None, new: MaskedField | None, depth: int, *, as_stored: bool
) -> Iterator[ValueDifference]:
    if old is None and new is not None:
        yield ValueDifference(describe_path(path), "added", (DiffPiece("ins", _mask_and_format_field_value(new)),))
    elif new is None and old is not None:
        yield ValueDifference(describe_path(path), "removed", (DiffPiece("del", _mask_and_format_field_value(old)),))
    elif old is not None and new is not None and (old.hidden or new.hidden):
        if to_canonical_json(old.value) != to_canonical_json(new.value):
            yield _build_hidden_difference(path)
    elif old is not None and new is not None:
        yield from _generate_value_differences(path, old.value, new.value, depth + 1, as_stored=as_stored)


def _build_hidden_difference(path: _Path) -> ValueDifference:
    return ValueDifference(describe_path(path), "changed", (DiffPiece("same", MASK),), hidden=True)


def _mask_and_format_field_value(field: MaskedField) -> str:
    if field.hidden:
        return MASK
    if isinstance(field.value, dict) and field.value:
        return _mask_and_format_named_values(field.value)
    return _format_masked_value_quoting_ambiguous_text(mask_json_value(field.value))


def _mask_and_format_named_values(value: dict[str, Any]) -> str:
    """Format an object as people read it: `sku CHR-09, quantity 4`. Objects and lists in it are JSON."""
    return ", ".join(
        f"{_quote_if_ambiguous_in_list(field.name)} {_mask_and_format_named_value(field)}"
        for field in mask_field_names_and_list_all_fields(value)
    )


def _mask_and_format_named_value(field: MaskedField) -> str:
    masked = MASK if field.hidden else mask_json_value(field.value)
    amount = format_amount_argument(field.key, masked)
    if amount is not masked:
        return str(amount)
    if not isinstance(masked, str):
        return json_tree.dump_json_for_display(masked)
    quoted = _quote_if_ambiguous_in_list(masked)
    return json_tree.quote_ambiguous_text_except_amount(masked) if quoted is masked else quoted


def _quote_if_ambiguous_in_list(text: str) -> str:
    """Put a text in quotes that a reader could take for more than one value."""
    is_ambiguous = text != text.strip() or _ENDS_VALUE.search(text) is not None
    return json_tree.dump_json_for_display(text) if is_ambiguous else text


def _build_changed_difference(path: _Path, before: Any, after: Any, *, as_stored: bool) -> ValueDifference:
    if to_canonical_json(before) == to_canonical_json(after):
        same = DiffPiece("same", _format_masked_value_quoting_ambiguous_text(after))
        return ValueDifference(describe_path(path), "changed", (same,), hidden=True)
    name = path[-1] if path else ""
    amounts = format_two_amounts(name, before, after) if isinstance(name, str) else None
    if amounts and not as_stored:
        return _build_replacement(path, *amounts)
    if amounts:
        stored = _build_stored_difference(path, before, after)
        return replace(stored, readable_amount="" if amounts[1] == str(after) else amounts[1])
    return _build_stored_difference(path, before, after)


def _build_stored_difference(path: _Path, before: Any, after: Any) -> ValueDifference:
    """Build the difference of two values as they are stored."""
    if (
        isinstance(before, str)
        and isinstance(after, str)
        and MASK not in before + after
        and _is_word_diff_useful(before, after)
    ):
        pieces = _shorten_unchanged_pieces(word_diff.compute_word_diff(before, after))
        return ValueDifference(describe_path(path), "changed", pieces)
    if isinstance(before, str) and isinstance(after, str):
        return _build_replacement(path, *_quote_both_texts_if_space_differs(before, after))
    return _build_replacement(
        path,
        _format_masked_value_quoting_ambiguous_text(before),
        _format_masked_value_quoting_ambiguous_text(after),
    )


def _build_replacement(path: _Path, before: str, after: str) -> ValueDifference:
    return ValueDifference(describe_path(path), "changed", (DiffPiece("del", before), DiffPiece("ins", after)))


def _quote_both_texts_if_space_differs(before: str, after: str) -> tuple[str, str]:
    """Return two texts, in quotes if one has space at its edges. An empty one has none."""
    if before == before.strip() and after == after.strip():
        return before, after
    return f'"{before}"' if before else "", f'"{after}"' if after else ""


def _shorten_unchanged_pieces(pieces: tuple[DiffPiece, ...]) -> tuple[DiffPiece, ...]:
    """Keep of unchanged text what stands beside a change."""
    last = len(pieces) - 1
    return tuple(
        _shorten_piece(piece, after_change=index > 0, before_change=index < last) if piece.change == "same" else piece
        for index, piece in enumerate(pieces)
    )


def _shorten_piece(piece: DiffPiece, *, after_change: bool, before_change: bool) -> DiffPiece:
    start = piece.text[:_CONTEXT_LENGTH] if after_change else ""
    end = piece.text[-_CONTEXT_LENGTH:] if before_change else ""
    first_line, first_break, _rest = start.partition("\n")
    _rest, last_break, last_line = end.rpartition("\n")
    shortened = f"{first_line}{first_break}…{last_break}{last_line}"
    return piece if len(piece.text) <= len(shortened) else replace(piece, text=shortened)


def _is_word_diff_useful(before: str, after: str) -> bool:
    """Return True if a word diff of two texts helps: they are long enough and similar enough."""
    return min(len(before), len(after)) > 40 and word_diff.compute_similarity_of_beginnings(before, after) > 0.3


def _format_masked_value_quoting_ambiguous_text(value: Any) -> str:
    """Format a masked value so that a number and a text with the same digits differ."""
    return json_tree.quote_ambiguous_text(value) if isinstance(value, str) else json_tree.mask_and_dump_json(value)
