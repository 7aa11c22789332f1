"""Keys of the Claude Agent SDK as sessions of this library."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from checkpoints.exceptions import InvalidInput
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.formats.digests import digest_text
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.importers.imported_session_and_run import make_valid_session_id

_SUBAGENT_PATTERN: Final = re.compile(r"subagents/(agent-[^/]+)")
_GROUP_LENGTH: Final = 255


@dataclass(frozen=True)
class TranscriptKey:
    """Key of a transcript: that of a session, or of one of its subagents if `subpath` is not empty."""

    project: str
    session: str
    subpath: str = ""

    @property
    def root_session_id(self) -> str:
        """Id of the session that the transcript of the main agent is."""
        if "/" in self.project or "/" in self.session:
            return f"claude-{digest_text(to_canonical_json([self.project, self.session]))[:40]}"
        return make_valid_session_id(self.project, self.session)

    @property
    def subagent_name_or_empty(self) -> str:
        """Name of the subagent as the names of its files have it; empty for the main agent."""
        if not self.subpath:
            return ""
        if match := _SUBAGENT_PATTERN.fullmatch(self.subpath):
            return match[1]
        name = self.subpath.rpartition("/")[2].removeprefix("agent-")
        return f"agent-{name}-{digest_text(self.subpath)[:12]}"

    @property
    def session_id(self) -> str:
        """Id of the session that this transcript is."""
        return (
            make_valid_session_id(self.root_session_id, self.subagent_name_or_empty)
            if self.subpath
            else self.root_session_id
        )

    @property
    def relative_path(self) -> str:
        """Path that the file of the transcript has below the folder of all projects."""
        if not self.subpath:
            return f"{self.project}/{self.session}.jsonl"
        return f"{self.project}/{self.session}/subagents/{self.subagent_name_or_empty}.jsonl"

    @property
    def project_log_group(self) -> str:
        """Name of all logs of lines of the project: those of main agents, or those of subagents."""
        kind = "claude-subagents" if self.subpath else "claude"
        name = f"{kind}:{self.project}"
        return name if len(name) <= _GROUP_LENGTH else f"{kind}#{digest_text(self.project)}"


def parse_session_key(key: Mapping[str, Any]) -> TranscriptKey:
    """Read a `SessionKey` of the SDK.

    Args:
        key: Mapping with `project_key`, `session_id`, and `subpath` for a subagent.

    Returns:
        The key.

    Raises:
        InvalidInput: It is no such mapping, or a value cannot be stored.
    """
    if not isinstance(key, Mapping):
        raise InvalidInput(f"The key of a session is a {type(key).__name__}, not a mapping.")
    parts = [validate_id(name, key.get(name)) for name in ("project_key", "session_id")]
    if "subpath" in key:
        parts.append(validate_id("subpath", key["subpath"]))
    return TranscriptKey(*parts)


def build_transcript_key_of_project(project_key: object) -> TranscriptKey:
    """Read the key of a project, as that of a session without a name. Raises `InvalidInput`."""
    return TranscriptKey(validate_id("project_key", project_key), "")


def get_transcript_key_of_hook(hook: Mapping[str, Any]) -> TranscriptKey:
    """Find the transcript that a hook of a tool belongs to, from the input of the hook. Raises `InvalidInput`."""
    path = hook.get("transcript_path")
    project = PurePath(path).parent.name if isinstance(path, str) else ""
    key = {"project_key": project, "session_id": hook.get("session_id")}
    agent = hook.get("agent_id")
    return parse_session_key(
        {**key, "subpath": f"subagents/agent-{agent}"} if isinstance(agent, str) and agent else key
    )


def build_line_key_or_empty(entry: Mapping[str, Any]) -> str:
    """Return the key of a line in its log: its uuid, or a digest of one that is too long; empty if it has none."""
    uuid = entry.get("uuid")
    if not isinstance(uuid, str) or not uuid:
        return ""
    is_plain = len(uuid) <= 200 and uuid.isascii() and uuid.isprintable() and " " not in uuid
    return uuid if is_plain else f"uuid {hashlib.sha256(uuid.encode('utf-8', 'surrogatepass')).hexdigest()}"
