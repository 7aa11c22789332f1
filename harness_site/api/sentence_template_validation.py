"""Templates of the sentences that say what a call does, given by an agent over HTTP."""

from __future__ import annotations

import re
from string import Formatter
from typing import Final

from checkpoints.exceptions import InvalidInput

_SIMPLE_SPECIFICATION: Final = re.compile(r"[<>=^]?[-+ ]?,?\d{0,2}(\.\d{1,2})?[a-zA-Z%]?")


def validate_sentence_template(template: str) -> str:
    """Return the template if it only inserts arguments by name. Raises `InvalidInput`.

    Python's format strings can also read attributes and fill memory, and this one is formatted on the server.
    """
    try:
        fields = list(Formatter().parse(template))
    except ValueError as error:
        raise InvalidInput(f"The sentence {template[:80]!r} is no format string: {error}.") from None
    for _, name, specification, conversion in fields:
        if name is None:
            continue
        if not name.isidentifier() or conversion or not _SIMPLE_SPECIFICATION.fullmatch(specification or ""):
            raise InvalidInput(
                f"The sentence {template[:80]!r} may insert arguments by their names alone, such as {{order}}."
            )
    return template
