"""Errors about the state of a session: it exists already, has ended, has a newer version, or is still needed."""

from __future__ import annotations

from checkpoints.exceptions.base_error import CheckpointsError
from checkpoints.exceptions.input_errors import InvalidInput
from checkpoints.exceptions.ownership_errors import OwnershipError


class SessionExists(InvalidInput):
    """A session with this identifier exists already."""

    code = "session_exists"
    hint = "Choose an id that is not taken. Nothing was written."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"There already is a session {session_id!r}.")


class SessionFinished(OwnershipError):
    """The session has ended."""

    code = "session_finished"
    hint = "resume returns its result; fork_session opens a new session from any of its versions."

    def __init__(self, session_id: str, status: str) -> None:
        self.session_id, self.status = session_id, status
        super().__init__(f"Session {session_id!r} is {status}. Nothing was written.")


class SessionOfOtherFramework(InvalidInput):
    """An adapter was about to continue a session that the adapter of another framework has begun.

    `framework` is the name of that framework, and `adapter` is the framework of the adapter that was refused.
    """

    code = "session_of_other_framework"
    hint = (
        "Use another session id for it: each framework stores messages and states in a form of its own. "
        "append_checkpoint and OpenAI conversations over HTTP append a message to a session of any framework."
    )

    def __init__(self, session_id: str, framework: str, adapter: str) -> None:
        self.session_id, self.framework, self.adapter = session_id, framework, adapter
        super().__init__(
            f"The session {session_id!r} is one of {framework}. {adapter} has stored and run nothing in it."
        )


class VersionConflict(CheckpointsError):
    """The session has a newer version than `expected`. `latest` is the version that was saved instead."""

    code = "version_conflict"
    hint = "Load the latest version and apply the change to it. Nothing was written."

    def __init__(self, session_id: str, expected: int, latest: int) -> None:
        self.session_id, self.expected, self.latest = session_id, expected, latest
        super().__init__(f"Session {session_id!r} is at version {latest}, not at {expected}.")


class StillNeeded(CheckpointsError):
    """A row that should be removed is needed to continue."""

    code = "still_needed"
    hint = "Nothing was removed."

    def __init__(self, session_id: str, why: str) -> None:
        self.session_id = session_id
        super().__init__(f"Session {session_id!r}: {why}.")
