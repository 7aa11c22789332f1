"""The arguments of a call as one form field each, and back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from checkpoints.serde import parse
from harness_site.rendering.masking import MASK, fields_of, masked, masked_value
from harness_site.rendering.safe_text import escape_hidden, hides
from harness_site.review.change import Unreadable, editable

#: More are easier to read as JSON.
MOST: Final = 30
_LINE: Final = 60


@dataclass(frozen=True, slots=True)
class ArgumentField:
    """One argument: `name` as the tool calls it, `key` in the form, what is `typed` in it, and its kind.

    `text` is taken as it is typed, `number` and `boolean` as what they say; `json` is everything else, written as JSON.
    """

    name: str
    key: str
    kind: str
    typed: str

    @property
    def lines(self) -> int:
        """How many lines its text takes, within what is comfortable."""
        return min(max(self.typed.count("\n") + 1 + len(self.typed) // _LINE, 1), 12)

    def value(self) -> Any:
        """What is typed, as JSON has it. Raises `Unreadable`."""
        if self.kind == "text":
            return self.typed.replace("\r\n", "\n")
        try:
            value = parse(self.typed)
        except ValueError:
            raise Unreadable(f"{masked(self.name)}: {self._expected()}") from None
        if self.kind == "number" and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise Unreadable(f"{masked(self.name)}: {self._expected()}")
        return value

    def _expected(self) -> str:
        return "this is not a number." if self.kind == "number" else "this is not JSON; a text needs quotes around it."


def argument_fields(stored: str, typed: Mapping[str, str]) -> tuple[ArgumentField, ...]:
    """A field for each of the stored arguments, masked for who reads, with what was `typed` in it so far. None for
    arguments that are not edited here, for none, and for too many."""
    arguments = parse(stored) if editable(stored) is not None else {}
    if len(arguments) > MOST:
        return ()
    shown = ((field.key, MASK if field.hidden else masked_value(field.value)) for field in fields_of(arguments))
    fields = enumerate((name, *_shown(value)) for name, value in shown)
    return tuple(
        ArgumentField(name, f"argument-{index}", kind, typed.get(f"argument-{index}", text))
        for index, (name, kind, text) in fields
    )


def composed(fields: tuple[ArgumentField, ...]) -> str:
    """The arguments that these fields make, as JSON text. Raises `Unreadable`."""
    return json.dumps({field.name: field.value() for field in fields}, ensure_ascii=False)


def _shown(value: Any) -> tuple[str, str]:
    """The kind of a value, and how it stands in its field."""
    if isinstance(value, str) and not hides(value):
        return "text", value
    text = escape_hidden(json.dumps(value, ensure_ascii=False, indent=2))
    if isinstance(value, bool):
        return "boolean", text
    return ("number" if isinstance(value, int | float) else "json"), text
