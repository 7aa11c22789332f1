"""Names for files that somebody downloads, made of text that an agent or an uploader chose."""

from __future__ import annotations

import re
from typing import Final

from harness_site.rendering.safe_text import one_line

#: What separates folders, or is not allowed in a name on some system.
_REFUSED: Final = re.compile(r'[\\/:*?"<>|%]+')
#: What Windows takes for a device, whatever ending it has.
_DEVICE: Final = re.compile(r"(?:con|prn|aux|nul|con(?:in|out)\$|(?:com|lpt)[0-9¹²³])(?= *(?:\.|$))", re.IGNORECASE)
_LONGEST: Final = 150
_LONGEST_ENDING: Final = 20


def file_name(text: str, fallback: str = "file") -> str:
    """`text`, with what hides in it named, as a name that every system takes as one file in the chosen folder."""
    name = _REFUSED.sub("-", one_line(text)).strip(" .-")
    stem, dot, ending = name.rpartition(".")
    if len(name) > _LONGEST:
        kept = f"{dot}{ending}" if stem and len(ending) <= _LONGEST_ENDING else ""
        name = f"{name[: _LONGEST - len(kept)].rstrip(' .')}{kept}"
    if _DEVICE.match(name):
        name = f"_{name}"
    return name or fallback
