"""Durable sessions for agents: every turn a new version, every side effect logged before it happens.

Names are imported when they are first used, so that importing this package does not need a configured Django.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checkpoints import exceptions as exceptions
    from checkpoints.aio import Checkpointer as Checkpointer
    from checkpoints.aio import check_pending_tool_calls as check_pending_tool_calls
    from checkpoints.client import SyncCheckpointer as SyncCheckpointer
    from checkpoints.files.session_files import SessionFiles as SessionFiles
    from checkpoints.files.session_files import SyncSessionFiles as SyncSessionFiles
    from checkpoints.outcomes import Landed as Landed
    from checkpoints.outcomes import NotLanded as NotLanded
    from checkpoints.outcomes import ToolResult as ToolResult
    from checkpoints.outcomes import Unknown as Unknown
    from checkpoints.resuming.actors import Actor as Actor
    from checkpoints.resuming.gate import ResumePoint as ResumePoint
    from checkpoints.runs.snapshot import RuntimeSnapshot as RuntimeSnapshot
    from checkpoints.saving.cadence import Cadence as Cadence
    from checkpoints.saving.state import UNCHANGED as UNCHANGED
    from checkpoints.saving.write_behind import SyncWriteBehind as SyncWriteBehind
    from checkpoints.saving.write_behind import WriteBehind as WriteBehind
    from checkpoints.session_handle import SessionHandle as SessionHandle
    from checkpoints.session_handle import SyncSessionHandle as SyncSessionHandle
    from checkpoints.tools.registry import Tool as Tool
    from checkpoints.tools.registry import ToolRegistry as ToolRegistry
    from checkpoints.tools.registry import tool as tool
    from checkpoints.workflows.journal import SyncWorkflow as SyncWorkflow
    from checkpoints.workflows.journal import Workflow as Workflow

__version__ = "0.1.0"

_HOME = {
    "Actor": "checkpoints.resuming.actors",
    "Cadence": "checkpoints.saving.cadence",
    "Checkpointer": "checkpoints.aio",
    "Landed": "checkpoints.outcomes",
    "NotLanded": "checkpoints.outcomes",
    "ResumePoint": "checkpoints.resuming.gate",
    "RuntimeSnapshot": "checkpoints.runs.snapshot",
    "SessionFiles": "checkpoints.files.session_files",
    "SessionHandle": "checkpoints.session_handle",
    "SyncCheckpointer": "checkpoints.client",
    "SyncSessionFiles": "checkpoints.files.session_files",
    "SyncSessionHandle": "checkpoints.session_handle",
    "SyncWriteBehind": "checkpoints.saving.write_behind",
    "SyncWorkflow": "checkpoints.workflows.journal",
    "Tool": "checkpoints.tools.registry",
    "ToolRegistry": "checkpoints.tools.registry",
    "ToolResult": "checkpoints.outcomes",
    "UNCHANGED": "checkpoints.saving.state",
    "Unknown": "checkpoints.outcomes",
    "Workflow": "checkpoints.workflows.journal",
    "WriteBehind": "checkpoints.saving.write_behind",
    "check_pending_tool_calls": "checkpoints.aio",
    "tool": "checkpoints.tools.registry",
}

__all__ = [*sorted(_HOME), "exceptions"]


def __getattr__(name: str) -> Any:
    if name == "exceptions":
        return importlib.import_module("checkpoints.exceptions")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    importlib.import_module("checkpoints.conf").ensure_configured()
    return getattr(importlib.import_module(_HOME[name]), name)
