"""Importing transcripts of Claude Code, one file or a whole folder of projects."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from checkpoints.adapters.claude_code.conversation import FORMAT, Conversation
from checkpoints.adapters.claude_code.facts import AGENT, Facts
from checkpoints.adapters.claude_code.files import Source, sources
from checkpoints.adapters.claude_code.lines import Line
from checkpoints.adapters.importing.lines import Reading, objects, reading
from checkpoints.adapters.importing.recorder import Recorder
from checkpoints.adapters.importing.report import ImportReport, Progress
from checkpoints.adapters.importing.rows import IMPORT, Origin, session_name
from checkpoints.client import SyncCheckpointer
from checkpoints.saving.store import Store

#: Conversations that are read at the same time are written each time so many lines have been read.
_FLUSH_LINES = 2000


def import_claude_code(
    checkpointer: SyncCheckpointer, path: str | Path, *, progress: Progress | None = None
) -> ImportReport:
    """Import transcripts of Claude Code.

    Each conversation becomes a session named like it; a subagent's is `<session>/agent-<id>`. What an earlier import
    wrote is left alone, so an import that was interrupted is simply repeated.

    Args:
        checkpointer: Client of the workspace to import into.
        path: Path of a file, a project's folder, `~/.claude/projects` or `~/.claude`.
        progress: Function that is called with an `ImportProgress` now and then.

    Returns:
        Counts of what was read and added, and the lines that could not be read.

    Raises:
        NothingToImport: There is no transcript at `path`.
        ImportRefused: A session cannot be written to.
        ImportOvertaken: Another import or run has written to the session meanwhile.
    """
    found, others = sources(Path(path).expanduser())
    files = reading([source.path for source in found], progress)
    files.report.empty += [str(other) for other in others]
    for source in found:
        _File(checkpointer.store, source, files).read()
    return files.report


class _File:
    """One file: the conversation it is named after, and those of subagents that older versions wrote into it."""

    def __init__(self, store: Store, source: Source, files: Reading) -> None:
        self._store, self._source, self._files = store, source, files
        self._written = datetime.fromtimestamp(source.path.stat().st_mtime, UTC)
        self._conversations: dict[str, Conversation] = {}
        self._sides: dict[str, str] = {}

    def read(self) -> None:
        before = self._files.report.messages
        for number, line in enumerate(objects(self._source.path, self._files), 1):
            self._conversation(self._name(line.value)).take(line.value)
            if number % _FLUSH_LINES == 0 and len(self._conversations) > 1:
                for conversation in self._conversations.values():
                    conversation.flush()
        for conversation in self._conversations.values():
            conversation.close()
        if self._files.report.messages == before:
            self._files.report.empty.append(str(self._source.path))

    def _name(self, line: Line) -> str:
        """Which conversation of the file a line belongs to: empty for the one it is named after."""
        if self._source.agent_id or line.get("isSidechain") is not True:
            return ""
        agent, uuid, parent = line.get("agentId"), line.get("uuid"), line.get("parentUuid")
        if isinstance(agent, str) and agent:
            return f"agent-{agent}"
        name = self._sides.get(parent, "") if isinstance(parent, str) else ""
        name = name or f"sidechain-{uuid}"
        if isinstance(uuid, str):
            self._sides[uuid] = name
        return name

    def _conversation(self, name: str) -> Conversation:
        if name not in self._conversations:
            source = self._source
            side = f"agent-{source.agent_id}" if source.agent_id else name
            self._conversations[name] = self._opened(side, source.about or {})
        return self._conversations[name]

    def _opened(self, side: str, about: dict[str, Any]) -> Conversation:
        source = self._source
        known: dict[str, Any] = {IMPORT: {"project": source.path.parent.name, "file": source.path.name}}
        origin = Origin(session_name(source.session_id), FORMAT, AGENT, labels=(AGENT,))
        if side:
            kind = about.get("agentType")
            origin.session_id = session_name(source.session_id, side)
            origin.labels = (AGENT, "subagent")
            origin.agent = f"{AGENT}/{kind}" if isinstance(kind, str) and kind else f"{AGENT}/subagent"
            known |= {"parent_session": source.session_id, "subagent": about or {"id": side}}
        told = about.get("description")
        facts = Facts(known, told if isinstance(told, str) else "")
        return Conversation(Recorder(self._store, origin, self._files.report, otherwise=self._written), facts)
