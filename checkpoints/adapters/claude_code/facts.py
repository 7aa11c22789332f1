"""What the lines of a conversation say about it: title, program, model, place."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

from checkpoints.adapters.claude_code import lines
from checkpoints.adapters.claude_code.lines import Line
from checkpoints.adapters.importing.rows import IMPORT, Origin, storable

AGENT: Final = "claude-code"
#: Names of models, branches and folders that are kept.
_LIMIT = 20
_LIMIT_TEXT = 4000


class Facts:
    """Learns from every line and describes the session in the end."""

    def __init__(self, known: dict[str, Any], title: str = "") -> None:
        self._known = known
        self._given = title
        self._titles: dict[str, str] = {}
        self._summaries: list[tuple[str, str]] = []
        self._version = ""
        self._seen: dict[str, list[str]] = {"cwd": [], "gitBranch": [], "model": []}

    def learn(self, line: Line) -> None:
        kind, said = lines.kind(line), lines.message(line)
        if kind == "summary":
            self._summaries.append((_text(line.get("leafUuid")), _text(line.get("summary"))))
        elif kind in {"custom-title", "ai-title"}:
            named = (_text(line.get(name)) for name in ("customTitle", "aiTitle", "title"))
            self._titles[kind] = next((name for name in named if name), "")
        elif kind == "user" and said is not None:
            self._hear(line, said)
        self._version = _text(line.get("version")) or self._version
        for name in ("cwd", "gitBranch"):
            self._note(name, line.get(name))
        if kind == "assistant" and said is not None and said.get("model") != "<synthetic>":
            self._note("model", said.get("model"))

    def _hear(self, line: Line, said: dict[str, Any]) -> None:
        if line.get("isCompactSummary") or line.get("isMeta"):
            return
        if asked := lines.prompt(said.get("content")):
            self._titles.setdefault("prompt", asked[:_LIMIT_TEXT])
        if named := lines.command(said.get("content")):
            self._titles.setdefault("command", named[:_LIMIT_TEXT])

    def _note(self, name: str, value: Any) -> None:
        seen = self._seen[name]
        if (text := _text(value)) and text not in seen and len(seen) < _LIMIT:
            seen.append(text)

    def _title(self, keys: Container[str]) -> str:
        """A summary names the last message of the conversation it is of, which may be another one."""
        own = [text for leaf, text in self._summaries if leaf in keys]
        named = [self._titles.get("custom-title"), self._titles.get("ai-title"), *own[-1:], self._given]
        return next((name for name in [*named, self._titles.get("prompt"), self._titles.get("command")] if name), "")

    def describe(self, origin: Origin, keys: Container[str], *, trailing: list[Line]) -> None:
        """Tell a session about itself. `keys` are those of its lines, `trailing` its notes after the last message."""
        origin.title = self._title(keys)
        origin.program = f"{AGENT} {self._version}".strip()
        told = {
            "working_directories": self._seen["cwd"],
            "git_branches": self._seen["gitBranch"],
            "models": self._seen["model"],
            "claude_code_version": self._version,
            "summaries": [text for _, text in self._summaries][:_LIMIT],
        }
        own = {"trailing_notes": trailing} if trailing else {}
        origin.metadata = storable({**self._known, **told, IMPORT: {**self._known.get(IMPORT, {}), **own}})


def _text(value: Any) -> str:
    return lines.text(value)[:_LIMIT_TEXT]
