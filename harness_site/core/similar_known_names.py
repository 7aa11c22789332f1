"""Known names that are like one that was typed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from harness_site.core.masking.masker import mask_text
from harness_site.core.similar_words import list_similar_words

#: Most names that are suggested for one filter.
_MAX_NAMES: Final = 5


@dataclass(frozen=True, slots=True)
class NearNames:
    """Names for one filter: its parameter in the URL and its label.

    `typed_in` is the parameter of the filter that has such a name now, if it is another one.
    """

    parameter: str
    label: str
    names: tuple[str, ...]
    typed_in: str = ""


def find_similar_names(typed: str, known: Iterable[str]) -> tuple[str, ...]:
    """Find the known names that begin with what was typed, contain it, or differ in a few letters.

    There are none if a name is exactly so: then another filter is the reason that nothing was found. Names are compared
    as the reader may see them, so that masked parts cannot be guessed.
    """
    names = {mask_text(name): name for name in known}
    wanted = typed.casefold()
    if not wanted or typed in names:
        return ()
    containing = [shown for shown in names if wanted in shown.casefold()]
    containing.sort(key=lambda shown: (not shown.casefold().startswith(wanted), len(shown), shown))
    similar = containing or list_similar_words(typed, names, limit=_MAX_NAMES)
    return tuple(names[shown] for shown in similar[:_MAX_NAMES])
