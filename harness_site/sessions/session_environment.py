"""Facts about where and with what a session ran, from its metadata: folder, branches, models, versions, permissions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from checkpoints.formats import parse_json
from checkpoints.importers.imported_session_and_run import MIRROR_FORMAT
from checkpoints.models import Session
from checkpoints.sessions.mark_or_require_session_framework import get_framework


@dataclass(frozen=True, slots=True)
class SessionEnvironment:
    """Facts of a session, not masked; empty if unknown. A mirrored session is written by the Claude Agent SDK while it
    runs, by the reader of imported files. `subagents` names the call that started each subagent, by its
    session id; `estimate` has the estimated cost in US dollars by model and kind of tokens, and
    `prices` the name of the price table and its prices for a million tokens; `exit_status` is how the
    program of the agent says that it ended; `framework` is the name of the one whose adapter has begun the session."""

    folders: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    permission_modes: tuple[str, ...] = ()
    program_versions: tuple[str, ...] = ()
    is_imported: bool = False
    is_mirrored: bool = False
    subagents: Mapping[str, str] | None = None
    estimate: Mapping[str, Any] | None = None
    prices: Mapping[str, Any] | None = None
    exit_status: str = ""
    framework: str = ""

    @property
    def has_any_stated_fact(self) -> bool:
        """Whether any of the facts above the pages of a session is known."""
        lists = (self.folders, self.branches, self.models, self.permission_modes, self.program_versions)
        return self.is_imported or bool(self.framework) or any(lists)

    @property
    def first_folder_name(self) -> str:
        """Return the name of the first folder."""
        return PurePosixPath(self.folders[0].replace("\\", "/")).name if self.folders else ""


def read_session_environment(session: Session) -> SessionEnvironment:
    """Read the facts of a session; those of an unknown form are left out."""
    try:
        metadata = parse_json(session.metadata)
    except ValueError:
        return SessionEnvironment()
    if not isinstance(metadata, dict):
        return SessionEnvironment()
    mark, links = metadata.get("import"), metadata.get("subagents")
    estimate = mark.get("estimate") if isinstance(mark, dict) else None
    prices = mark.get("prices") if isinstance(mark, dict) else None
    outcome = metadata.get("outcome") if isinstance(mark, dict) else None
    exit_status = outcome.get("exit_status") if isinstance(outcome, dict) else None
    return SessionEnvironment(
        folders=_read_string_list(metadata, "working_directories"),
        branches=_read_string_list(metadata, "git_branches"),
        models=_read_string_list(metadata, "models"),
        permission_modes=_read_string_list(metadata, "permission_modes"),
        program_versions=_read_string_list(metadata, "program_versions"),
        is_imported=isinstance(mark, dict),
        is_mirrored=isinstance(mark, dict) and mark.get("format") == MIRROR_FORMAT,
        subagents={key: value for key, value in links.items() if isinstance(value, str)}
        if isinstance(links, dict)
        else {},
        estimate=estimate if isinstance(estimate, dict) else {},
        prices=prices if isinstance(prices, dict) else {},
        framework=get_framework(session),
        exit_status=exit_status if isinstance(exit_status, str) else "",
    )


def _read_string_list(metadata: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = metadata.get(name)
    return tuple(value for value in values if isinstance(value, str) and value) if isinstance(values, list) else ()
