"""Durable sessions for agents: every turn a new version, every side effect logged before it happens.

Names are imported on first use. Django is imported, and configured, when a database is opened: an agent of a server
needs none.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from checkpoints.version import __version__ as __version__

if TYPE_CHECKING:
    from checkpoints import exceptions as exceptions
    from checkpoints.archive.folder_of_session_files import SessionFiles as SessionFiles
    from checkpoints.archive.folder_of_session_files import SyncSessionFiles as SyncSessionFiles
    from checkpoints.async_client import Checkpointer as Checkpointer
    from checkpoints.async_client import check_pending_tool_calls as check_pending_tool_calls
    from checkpoints.calls.tool_result_and_verify_answer_types import Landed as Landed
    from checkpoints.calls.tool_result_and_verify_answer_types import NotLanded as NotLanded
    from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult as ToolResult
    from checkpoints.calls.tool_result_and_verify_answer_types import Unknown as Unknown
    from checkpoints.calls.value_codec import ValueCodec as ValueCodec
    from checkpoints.decisions.actors import Actor as Actor
    from checkpoints.loop_state.resumable_loop_snapshot import RuntimeSnapshot as RuntimeSnapshot
    from checkpoints.resume.resume_point import ResumePoint as ResumePoint
    from checkpoints.session_handle import SessionHandle as SessionHandle
    from checkpoints.session_handle import SyncSessionHandle as SyncSessionHandle
    from checkpoints.store.version_state_types import UNCHANGED as UNCHANGED
    from checkpoints.sync_client import SyncCheckpointer as SyncCheckpointer
    from checkpoints.tools.foreign_tool_guard import ToolPolicies as ToolPolicies
    from checkpoints.tools.foreign_tool_guard import aguard as aguard
    from checkpoints.tools.foreign_tool_guard import guard as guard
    from checkpoints.tools.registry_and_dispatch import ToolRegistry as ToolRegistry
    from checkpoints.tools.tool import Tool as Tool
    from checkpoints.tools.tool import tool as tool
    from checkpoints.versions.save_cadence import Cadence as Cadence
    from checkpoints.versions.write_behind import SyncWriteBehind as SyncWriteBehind
    from checkpoints.versions.write_behind import WriteBehind as WriteBehind
    from checkpoints.workflows.workflow import SyncWorkflow as SyncWorkflow
    from checkpoints.workflows.workflow import Workflow as Workflow

_HOME = {
    "Actor": "checkpoints.decisions.actors",
    "Cadence": "checkpoints.versions.save_cadence",
    "Checkpointer": "checkpoints.async_client",
    "Landed": "checkpoints.calls.tool_result_and_verify_answer_types",
    "NotLanded": "checkpoints.calls.tool_result_and_verify_answer_types",
    "ResumePoint": "checkpoints.resume.resume_point",
    "RuntimeSnapshot": "checkpoints.loop_state.resumable_loop_snapshot",
    "SessionFiles": "checkpoints.archive.folder_of_session_files",
    "SessionHandle": "checkpoints.session_handle",
    "SyncCheckpointer": "checkpoints.sync_client",
    "SyncSessionFiles": "checkpoints.archive.folder_of_session_files",
    "SyncSessionHandle": "checkpoints.session_handle",
    "SyncWriteBehind": "checkpoints.versions.write_behind",
    "SyncWorkflow": "checkpoints.workflows.workflow",
    "Tool": "checkpoints.tools.tool",
    "ToolPolicies": "checkpoints.tools.foreign_tool_guard",
    "ToolRegistry": "checkpoints.tools.registry_and_dispatch",
    "ToolResult": "checkpoints.calls.tool_result_and_verify_answer_types",
    "ValueCodec": "checkpoints.calls.value_codec",
    "UNCHANGED": "checkpoints.store.version_state_types",
    "Unknown": "checkpoints.calls.tool_result_and_verify_answer_types",
    "Workflow": "checkpoints.workflows.workflow",
    "WriteBehind": "checkpoints.versions.write_behind",
    "aguard": "checkpoints.tools.foreign_tool_guard",
    "check_pending_tool_calls": "checkpoints.async_client",
    "guard": "checkpoints.tools.foreign_tool_guard",
    "tool": "checkpoints.tools.tool",
}

#: Names that are for databases alone: they take Django, which is configured for them.
_DATABASE_NAMES = frozenset({"SessionFiles", "SyncSessionFiles", "SyncWriteBehind", "WriteBehind"})

__all__ = [*sorted(_HOME), "exceptions"]


def __getattr__(name: str) -> Any:
    if name == "exceptions":
        return importlib.import_module("checkpoints.exceptions")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _DATABASE_NAMES:
        importlib.import_module("checkpoints.configure_django_on_import")
    return getattr(importlib.import_module(_HOME[name]), name)
