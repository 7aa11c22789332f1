"""Errors about waiting for other agents."""

from __future__ import annotations

from checkpoints.exceptions.base_error import CheckpointsError
from checkpoints.exceptions.not_found_errors import NotFound


class PeerError(CheckpointsError):
    """Base of errors about waiting for other agents."""

    code = "peer_error"


class PausedForPeers(PeerError):
    """The session waits for other agents, or their responses are not used yet."""

    code = "paused_for_peers"
    hint = "Continue with take_paused when it is complete, or give it up with cancel_paused. Nothing was changed."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"Session {session_id!r} waits for other agents, or their answers are not used yet.")


class StillWaiting(PeerError):
    """No join is complete. `completed` and `total` count the calls of the joins that are open."""

    code = "still_waiting"
    hint = "accept_response tells one caller when a join is complete; list_paused(ready=True) shows what can be taken."

    def __init__(self, session_id: str, completed: int, total: int) -> None:
        self.session_id, self.completed, self.total = session_id, completed, total
        super().__init__(f"Session {session_id!r} still waits for other agents: {completed} of {total} calls are over.")


class NotPaused(PeerError):
    """The session does not wait for other agents."""

    code = "not_paused"
    hint = "resume goes on with a session that does not wait for other agents. Nothing was changed."

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"Session {session_id!r} does not wait for other agents.")


class PeerCallExists(PeerError, ValueError):
    """A call to another agent with this identifier exists already in the workspace."""

    code = "peer_call_exists"
    hint = "Give each call to another agent an id of its own. Nothing was written."

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        super().__init__(f"There already is a call {call_id!r} to another agent in this workspace.")


class PeerCallNotFound(NotFound):
    """There is no call to another agent with this identifier."""

    code = "peer_call_not_found"
    hint = "Check the id and the workspace."

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        super().__init__(f"There is no call {call_id!r} to another agent.")


class PeerCallOver(PeerError):
    """The call to another agent has ended."""

    code = "peer_call_over"
    hint = "Nobody waits for it any more. Nothing was changed."

    def __init__(self, call_id: str, status: str) -> None:
        self.call_id, self.status = call_id, status
        super().__init__(f"Call {call_id!r} to another agent is {status}.")


class SecretsLocked(PeerError):
    """A secret cannot be encrypted or decrypted; it is never stored in clear."""

    code = "secrets_locked"
    hint = "Give every process of this workspace the same HARNESS_SECRET_KEY (or HARNESS_SECRET_KEY_FILE)."

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        super().__init__(f"{path} is a secret, and {why}.")
