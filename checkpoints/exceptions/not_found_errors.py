"""Errors about rows that do not exist."""

from __future__ import annotations

from checkpoints.exceptions.base_error import CheckpointsError


class NotFound(CheckpointsError):
    """Base of errors about things that do not exist."""

    code = "not_found"


class WorkspaceNotFound(NotFound):
    """There is no workspace with this name."""

    code = "workspace_not_found"
    hint = "Create it, or use the workspace `default`."

    def __init__(self, slug: str) -> None:
        super().__init__(f"There is no workspace {slug!r} in this database.")


class SessionNotFound(NotFound):
    """There is no session with this identifier in the workspace."""

    code = "session_not_found"
    hint = "Call start_session first, or check the id and the workspace."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"There is no session {session_id!r}.")


class RunNotFound(NotFound):
    """There is no run with this identifier in the workspace."""

    code = "run_not_found"
    hint = "Check the id and the workspace; the run may have been removed with its session."

    def __init__(self, run_id: object) -> None:
        self.run_id = str(run_id)
        super().__init__(f"There is no run {self.run_id!r}.")


class VersionNotFound(NotFound):
    """The session has no version with this number."""

    code = "version_not_found"
    hint = "list_checkpoints shows the versions there are."

    def __init__(self, session_id: str, version: int) -> None:
        self.session_id, self.version = session_id, version
        super().__init__(f"Session {session_id!r} has no version {version}.")


class CallNotFound(NotFound):
    """The session has no tool call with this identifier."""

    code = "call_not_found"
    hint = "Record the intent with record_tool_call_issued before its result; check the call id and the step."

    def __init__(self, session_id: str, call_id: str, step: int | None = None) -> None:
        self.session_id, self.call_id, self.step = session_id, call_id, step
        step_text = "" if step is None else f" in step {step}"
        super().__init__(f"Session {session_id!r} has no tool call {call_id!r}{step_text}.")
