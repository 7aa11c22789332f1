"""Description of a new session."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from checkpoints.exceptions import InvalidInput, NotRepresentable
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.generate_and_validate_ids import validate_id

TITLE_LENGTH = 200
#: Reserved key of the metadata: the name of the framework whose adapter has begun the session.
FRAMEWORK_MARK: Final = "harness.framework"
#: Name of the framework whose sessions are conversations of OpenAI's API too.
OPENAI_AGENTS_SDK: Final = "OpenAI Agents SDK"


@dataclass(frozen=True)
class NewSessionFields:
    """Descriptive fields of a new session. An existing session keeps its own.

    `framework` is the name of the framework whose adapter writes to the session; empty if none does.
    """

    user_message: str = ""
    agent: str = ""
    title: str | None = None
    scratchpad_root: str | None = None
    metadata: dict[str, Any] | None = None
    labels: Iterable[str] = ()
    framework: str = ""

    def build_columns(self) -> dict[str, Any]:
        if self.metadata is not None and not isinstance(self.metadata, dict):
            raise NotRepresentable("metadata", f"a {type(self.metadata).__name__} is not a dict")
        if isinstance(self.labels, str):
            raise InvalidInput(f"labels is the text {self.labels!r}; give a list of labels.")
        title, field_name = (self.user_message, "user_message") if self.title is None else (self.title, "title")
        mark = {FRAMEWORK_MARK: self.framework} if self.framework else {}
        return {
            "agent": _normalize_to_single_line(self.agent, "agent"),
            "title": _normalize_to_single_line(title, field_name),
            "scratchpad_root": _normalize_to_single_line(self.scratchpad_root or "", "scratchpad_root", 4096),
            "metadata": to_canonical_json({**(self.metadata or {}), **mark}, "metadata"),
            "labels": to_canonical_json([validate_id("label", label) for label in self.labels], "labels"),
        }


def _normalize_to_single_line(text: object, label: str, length: int = TITLE_LENGTH) -> str:
    """Return `text` as one storable line, shortened to `length` characters. Raises `InvalidInput` if it is no text."""
    if not isinstance(text, str):
        raise InvalidInput(f"{label} is a {type(text).__name__}, not text.")
    line = " ".join(text.encode("utf-8", "replace").decode().replace("\0", " ").split())
    return line if len(line) <= length else line[: length - 1] + "…"
