"""Parser of docstrings in Google's convention."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import Any

SECTIONS = ("Args", "Attributes", "Returns", "Raises")
_ENTRY = re.compile(r"(?P<name>\w+): (?P<text>.*)")


@dataclass
class Docstring:
    """Parts of a docstring: its text before the sections, `Args`, `Attributes` and `Raises` by name, and `Returns`."""

    text: str = ""
    entries: dict[str, dict[str, str]] = field(default_factory=dict)
    returns: str = ""

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0]


def read_docstring(described: Any) -> Docstring:
    """Read the docstring of a function, property or class.

    Args:
        described: Function, property or class.

    Returns:
        Its parts; empty ones if there is no docstring, own or inherited.
    """
    result = Docstring()
    section, lines = "", list[str]()
    for line in (inspect.getdoc(described) or "").splitlines():
        if line.removesuffix(":") in SECTIONS and line.endswith(":"):
            _store_section(result, section, lines)
            section, lines = line.removesuffix(":"), []
        else:
            lines.append(line)
    _store_section(result, section, lines)
    return result


def _store_section(result: Docstring, section: str, lines: list[str]) -> None:
    if not section:
        result.text = "\n".join(lines).strip()
    elif section == "Returns":
        result.returns = " ".join(line.strip() for line in lines).strip()
    else:
        result.entries[section] = _read_entries(lines)


def _read_entries(lines: list[str]) -> dict[str, str]:
    entries: dict[str, str] = {}
    name = ""
    for line in lines:
        entry = _ENTRY.fullmatch(line[4:]) if line.startswith("    ") and not line.startswith("     ") else None
        if entry is not None:
            name = entry["name"]
            entries[name] = entry["text"]
        elif line.strip():
            entries[name] += f" {line.strip()}"
    return entries
