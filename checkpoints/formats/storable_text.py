"""Characters that no database keeps in text: NUL, and surrogates without their pair."""

import re

UNSTORABLE_CHARACTERS = re.compile("[\x00\ud800-\udfff]")


def is_storable_text(text: str) -> bool:
    """Return whether a text column can hold `text`: text that none can hold equals no row, and its query fails."""
    return UNSTORABLE_CHARACTERS.search(text) is None


def replace_unstorable_characters(text: str) -> str:
    """Replace the characters that a database cannot store: surrogates by `?`, NUL by nothing."""
    return (text if text.isascii() else text.encode("utf-8", "replace").decode()).replace("\0", "")


def truncate_to_storable(text: str, length: int) -> str:
    """Truncate text to a column of that length, without characters that a database cannot store."""
    return replace_unstorable_characters(text[:length])
