"""Which kinds of content a reader wants to see in transcripts, remembered by a cookie that the page sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

COOKIE: Final = "harness_reading"
#: Kinds of content that can be hidden, with the label of their button.
_KINDS: Final[dict[str, Promise]] = {
    "prose": _("Prose"),
    "tools": _("Tools"),
    "results": _("Results"),
    "reasoning": _("Reasoning"),
}
#: Facts beside each message that are hidden until a reader wants them.
_EXTRAS: Final[dict[str, Promise]] = {"tokens": _("Tokens")}


@dataclass(frozen=True, slots=True)
class KindChoice:
    """A button that shows or hides one kind of content."""

    kind: str
    label: str
    is_shown: bool


@dataclass(frozen=True, slots=True)
class ReadingChoices:
    kinds: tuple[KindChoice, ...]

    @property
    def joined_hidden_kinds(self) -> str:
        """Return the names of the hidden kinds, separated by spaces."""
        return " ".join(choice.kind for choice in self.kinds if not choice.is_shown)


def read_reading_choices_from_cookie(request: HttpRequest) -> ReadingChoices:
    """Read the choices of a reader. The cookie names the hidden kinds, separated by dots; unknown names are ignored."""
    stored = request.COOKIES.get(COOKIE)
    hidden = frozenset(_EXTRAS) if stored is None else frozenset(stored.split("."))
    labels = {**_KINDS, **_EXTRAS}
    return ReadingChoices(tuple(KindChoice(kind, str(label), kind not in hidden) for kind, label in labels.items()))
