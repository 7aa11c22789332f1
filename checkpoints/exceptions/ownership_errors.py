"""Errors about the ownership of sessions, and about a client that is closed."""

from __future__ import annotations

from datetime import datetime

from checkpoints.exceptions.base_error import CheckpointsError


class OwnershipError(CheckpointsError):
    """Base of errors about the ownership of sessions."""

    code = "ownership_error"


class NotOwner(OwnershipError):
    """This client does not own the session it is to write to."""

    code = "not_owner"
    hint = "Call start_session or resume with this checkpointer first."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"This checkpointer does not own session {session_id!r}. Nothing was written.")


class AtGate(NotOwner):
    """This checkpointer has taken the session and waits for decisions before its run may continue."""

    code = "at_gate"
    hint = "Continue when the call to resume that waits has returned."

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.args = (f"The run of session {session_id!r} waits for decisions about its calls. Nothing was written.",)


class OpenedInAnotherProcess(NotOwner):
    """This checkpointer was opened in the process from which this one was forked, and can take no session here."""

    code = "opened_in_another_process"
    hint = "Open a checkpointer in each process, after the fork, with the same path or URL."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        CheckpointsError.__init__(
            self,
            f"This checkpointer was opened in another process and cannot own session {session_id!r} in this one. "
            "Nothing was written.",
        )


class ReleasedWhenIdle(NotOwner):
    """This checkpointer released the session by itself, because it was not used for a while."""

    code = "released_when_idle"
    hint = (
        "Resume it (resume, start_session or session) and go on from its last checkpoint; "
        "a larger idle_release_seconds keeps a session for longer."
    )

    def __init__(self, session_id: str) -> None:
        CheckpointsError.__init__(
            self,
            f"This checkpointer released session {session_id!r} because it was idle for longer than "
            "idle_release_seconds. Nothing was written.",
        )
        self.session_id = session_id


class SessionBusy(OwnershipError):
    """Another live run owns the session. `owner` describes it; both times are the database's."""

    code = "session_busy"
    hint = (
        "Try again when that run has finished or, if its process was killed, when the lease has ended. takeover=True "
        "is for a run that is alive and has to be replaced."
    )

    def __init__(self, session_id: str, owner: str, last_seen: datetime, lease_ends: datetime) -> None:
        self.session_id, self.owner, self.last_seen, self.lease_ends = session_id, owner, last_seen, lease_ends
        super().__init__(
            f"Session {session_id!r} is owned by {owner}, last seen {last_seen:%H:%M:%S}; "
            f"its lease ends {lease_ends:%H:%M:%S} UTC."
        )


class OwnershipLost(OwnershipError):
    """Another run has taken the session over."""

    code = "ownership_lost"
    hint = "Stop this run: another one goes on from the last checkpoint. Nothing was written."
    #: By this attribute, frameworks recognise a writer that another one has replaced.
    is_stale_write_owner_error = True

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"Another run has taken session {session_id!r} from this one.")


class CheckpointerClosed(CheckpointsError):
    """The client has been closed."""

    code = "checkpointer_closed"
    hint = "Open a new one. Nothing was done."

    def __init__(self) -> None:
        super().__init__("This checkpointer has been closed.")
