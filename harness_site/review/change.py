"""Other arguments than the model asked for: written by a person, and shown against what they replace."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any, Final

from checkpoints.enums import DecisionKind
from checkpoints.models import Decision, ToolCall
from checkpoints.queries import words
from checkpoints.queries.words import Piece
from checkpoints.serde import canonical, digests, parse
from harness_site import wording
from harness_site.rendering import jsontree
from harness_site.rendering.masking import MASK, Field, fields_of, hidden_items, masked_value, restored

#: Longer arguments are not edited in a browser.
LONGEST: Final = 100_000
#: Deeper values are shown as JSON text.
_DEEP: Final = 8


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs, at `path` (empty for the whole). `kind` is added, removed or changed.

    `pieces` are what is shown, already masked; `hidden` says that the difference lies in something masked.
    """

    path: str
    kind: str
    pieces: tuple[Piece, ...]
    hidden: bool = False


class Unreadable(ValueError):
    """What was written is not arguments; the message says where."""


def editable(stored: str) -> str | None:
    """Stored arguments as text to be edited, masked for who reads; None where that cannot be done."""
    try:
        value = parse(stored)
    except ValueError:
        return None
    if not isinstance(value, dict) or len(stored) > LONGEST:
        return None
    return jsontree.dumped(value, indent=2)


def written(text: str, stored: str) -> dict[str, Any]:
    """The arguments that somebody wrote who was shown `editable(stored)`. Raises `Unreadable`."""
    if editable(stored) is None:
        raise Unreadable("The arguments of this call cannot be edited here.")
    try:
        value = parse(text)
    except JSONDecodeError as error:
        raise Unreadable(f"This is not JSON: {error.msg[0].lower()}{error.msg[1:]}, in line {error.lineno}.") from None
    except ValueError as error:
        raise Unreadable(f"This cannot be read as arguments: {error}.") from None
    if not isinstance(value, dict):
        raise Unreadable("Arguments are an object: names and values between { and }.")
    arguments: dict[str, Any] = restored(value, parse(stored))
    if MASK in text and MASK in json.dumps(arguments, ensure_ascii=False):
        raise Unreadable(f"A {MASK} stands where nothing was masked: the tool would be called with these very letters.")
    return arguments


def asked_for(call: ToolCall) -> Any:
    """The arguments that the model asked for, before people changed them."""
    edits = Decision.objects.filter(tool_call=call, kind=DecisionKind.EDIT)
    first = edits.order_by("pk").values_list("evidence", flat=True).first()
    given = wording.parsed(first or "{}")
    before = given.get("args_before") if isinstance(given, dict) else None
    return wording.parsed(before if isinstance(before, str) else call.args)


def digest(args: dict[str, Any]) -> str:
    """What the library will bind decisions about these arguments to. Raises `NotRepresentable`, `TooLarge`."""
    return digests.text_digest(canonical(args, "args"))


def differences(before: Any, after: Any) -> tuple[Difference, ...]:
    """Where two JSON values differ, value by value."""
    return tuple(_differ("", before, after, 0))


def _differ(path: str, before: Any, after: Any, depth: int) -> Iterator[Difference]:
    if canonical(before) == canonical(after):
        return
    if depth < _DEEP and isinstance(before, dict) and isinstance(after, dict):
        old, new = ({field.key: field for field in fields_of(value)} for value in (before, after))
        for key in sorted(old.keys() | new.keys()):
            field = old.get(key) or new[key]
            yield from _entry(f"{path}.{field.name}" if path else field.name, old.get(key), new.get(key), depth)
    elif depth < _DEEP and isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        hidden = hidden_items(before) | hidden_items(after)
        for index, pair in enumerate(zip(before, after, strict=True)):
            if index in hidden and pair[0] != pair[1]:
                yield _hidden(f"{path}[{index + 1}]")
            elif index not in hidden:
                yield from _differ(f"{path}[{index + 1}]", *pair, depth + 1)
    else:
        yield _changed(path, masked_value(before), masked_value(after))


def _entry(path: str, old: Field | None, new: Field | None, depth: int) -> Iterator[Difference]:
    if old is None and new is not None:
        yield Difference(path, "added", (Piece("ins", _shown(new)),))
    elif new is None and old is not None:
        yield Difference(path, "removed", (Piece("del", _shown(old)),))
    elif old is not None and new is not None and (old.hidden or new.hidden):
        if canonical(old.value) != canonical(new.value):
            yield _hidden(path)
    elif old is not None and new is not None:
        yield from _differ(path, old.value, new.value, depth + 1)


def _hidden(path: str) -> Difference:
    return Difference(path, "changed", (Piece("same", MASK),), hidden=True)


def _shown(field: Field) -> str:
    return MASK if field.hidden else _text(masked_value(field.value))


def _changed(path: str, before: Any, after: Any) -> Difference:
    if canonical(before) == canonical(after):
        return Difference(path, "changed", (Piece("same", _text(after)),), hidden=True)
    if isinstance(before, str) and isinstance(after, str) and MASK not in before + after and _alike(before, after):
        return Difference(path, "changed", words.diff(before, after))
    return Difference(path, "changed", (Piece("del", _text(before)), Piece("ins", _text(after))))


def _alike(before: str, after: str) -> bool:
    """Whether it helps to see which words differ: in a short value, the whole of it does."""
    return min(len(before), len(after)) > 40 and words.likeness(before, after) > 0.3


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value else jsontree.dumped(value, indent=None)
