"""Import transcripts of Claude Code, one file or a whole folder of projects."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from checkpoints.client import SyncCheckpointer
from checkpoints.importers.claude_code.conversation_import import FORMAT_NAME, ConversationImport
from checkpoints.importers.claude_code.file_discovery import TranscriptSource, find_transcripts
from checkpoints.importers.claude_code.line_types import Line
from checkpoints.importers.claude_code.session_metadata import AGENT_NAME, SessionFacts
from checkpoints.importers.import_report import ImportReport, Progress
from checkpoints.importers.imported_session import IMPORT_MARK, TranscriptOrigin, make_session_id
from checkpoints.importers.json_lines import ImportFiles, iterate_json_objects, open_import_files
from checkpoints.importers.transcript_recorder import TranscriptRecorder
from checkpoints.store.store import Store

#: Number of lines after which conversations that are read at the same time are written.
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
    sources, other_files = find_transcripts(Path(path).expanduser())
    files = open_import_files([source.path for source in sources], progress)
    files.report.empty += [str(file) for file in other_files]
    for source in sources:
        _FileImport(checkpointer.store, source, files).import_lines()
    return files.report


class _FileImport:
    """Import of one file: the conversation it is named after, and those of subagents that older versions wrote into
    it."""

    def __init__(self, store: Store, source: TranscriptSource, files: ImportFiles) -> None:
        self._store, self._source, self._files = store, source, files
        self._written = datetime.fromtimestamp(source.path.stat().st_mtime, UTC)
        self._conversations: dict[str, ConversationImport] = {}
        self._sides: dict[str, str] = {}

    def import_lines(self) -> None:
        messages_before = self._files.report.messages
        for number, line in enumerate(iterate_json_objects(self._source.path, self._files), 1):
            self._get_conversation(self._get_conversation_name(line.value)).add_line(line.value)
            if number % _FLUSH_LINES == 0 and len(self._conversations) > 1:
                for conversation in self._conversations.values():
                    conversation.flush()
        for conversation in self._conversations.values():
            conversation.close()
        if self._files.report.messages == messages_before:
            self._files.report.empty.append(str(self._source.path))

    def _get_conversation_name(self, line: Line) -> str:
        """Return the conversation of the file that a line belongs to: empty for the one it is named after."""
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

    def _get_conversation(self, name: str) -> ConversationImport:
        if name not in self._conversations:
            source = self._source
            side = f"agent-{source.agent_id}" if source.agent_id else name
            self._conversations[name] = self._open_side_conversation(side, source.about or {})
        return self._conversations[name]

    def _open_side_conversation(self, side: str, agent_metadata: dict[str, Any]) -> ConversationImport:
        source = self._source
        metadata: dict[str, Any] = {IMPORT_MARK: {"project": source.path.parent.name, "file": source.path.name}}
        origin = TranscriptOrigin(make_session_id(source.session_id), FORMAT_NAME, AGENT_NAME, labels=(AGENT_NAME,))
        if side:
            kind = agent_metadata.get("agentType")
            origin.session_id = make_session_id(source.session_id, side)
            origin.labels = (AGENT_NAME, "subagent")
            origin.agent = f"{AGENT_NAME}/{kind}" if isinstance(kind, str) and kind else f"{AGENT_NAME}/subagent"
            metadata |= {"parent_session": source.session_id, "subagent": agent_metadata or {"id": side}}
        description = agent_metadata.get("description")
        facts = SessionFacts(metadata, description if isinstance(description, str) else "")
        return ConversationImport(
            TranscriptRecorder(self._store, origin, self._files.report, otherwise=self._written), facts
        )
