"""Random histories of sessions with rows in every table: decisions, workflows, states, pauses, forks, files."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import models
from hypothesis import strategies as st

from checkpoints import SyncCheckpointer, ValueCodec, guard
from checkpoints.framework_states import state_store
from checkpoints.framework_states.state_store import NewState, NewWrite
from checkpoints.models import AuditEvent, Blob, Session
from checkpoints.peers.agent_call_and_result_types import Join as JoinRequest
from checkpoints.peers.agent_call_and_result_types import PeerCall as PeerRequest
from checkpoints.sessions import take_and_release_ownership
from tests.integration.checkpoints.integrity.sealed_history import SEALED_TABLES, plain
from tests.property.test_hot_statements import Player, actions

_AS_TEXT = ValueCodec(lambda value: ("text", value.encode()), lambda stored: stored[1].decode())
_small = st.integers(0, 3)

#: What a history is made of beside the actions of `Player`.
rich_actions = st.one_of(
    actions,
    *(
        st.tuples(st.just(action), _small)
        for action in ("decide", "value", "state", "write", "step", "prune", "fork", "pause", "late", "transfer")
    ),
)


class RichPlayer(Player):
    """Plays a history in which other people, processes and frameworks act as well.

    `former` has the columns of each row as they were after some action, by table and key.
    """

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.former: defaultdict[tuple[type[models.Model], Any], list[dict[str, Any]]] = defaultdict(list)

    def _act(self, action: str, given: Any) -> Any:
        found = super()._act(action, given)
        session = Session.objects.get(session_id=self.session_id)
        for model, key in list_rows(session):
            columns = plain(model).values().get(pk=key)
            if columns not in self.former[model, key]:
                self.former[model, key].append(columns)
        return found

    def _own(self) -> None:
        """Own the session again after an action that has released it. Undecided calls are decided first."""
        if self.checkpointer.store.find_owned_session(self.session_id) is None:
            self._decide(0)
            self.checkpointer.resume(self.session_id)

    def _decide(self, choice: int) -> int:
        pending = self.checkpointer.pending_tool_calls(self.session_id)
        for call in pending:
            place, revision = (self.session_id, call["call_id"]), call["revision"]
            if choice % 2:
                self.checkpointer.mark_failed(*place, actor="alice", reason="I looked.", revision=revision)
            else:
                self.checkpointer.confirm_landed(*place, "done", actor="alice", reason="I looked.", revision=revision)
        return len(pending)

    def _value(self, number: int) -> str:
        self._own()
        self.calls += 1
        given = (self.checkpointer, self.session_id, "mail", {"n": number}, f"v{self.calls}")
        return str(guard(*given, lambda _: "sent", codec=_AS_TEXT))

    def _state(self, number: int) -> None:
        self._own()
        self.calls += 1
        parent = str(self.calls - 1) if number else ""
        body, values = ("json", b"{}"), {"a": ("json", f"{self.calls}".encode() * 200)}
        state = NewState("ns", str(self.calls), parent, "run", body, body, {"a": self.calls}, values, ["a"])
        state_store.save_state_and_transcript_version(self.checkpointer.store, self.session_id, state)

    def _write(self, number: int) -> None:
        self._own()
        writes = [NewWrite(number, "a", ("json", b"2" * 300 * number)), NewWrite(number + 1, "b", [("json", b"3")])]
        self.calls += 1
        given = ("ns", str(self.calls), f"task {number}", "path", writes)
        state_store.save_task_writes_and_interrupt_calls(self.checkpointer.store, self.session_id, *given)

    def _step(self, number: int) -> str:
        self._own()
        return str(self.checkpointer.workflow(self.session_id, "books").step(f"step {number}", str.upper, "entry"))

    def _prune(self, number: int) -> None:
        self.checkpointer.prune(self.session_id, keep_last=number + 1)

    def _fork(self, number: int) -> None:
        self.calls += 1
        self.checkpointer.fork_session(self.session_id, f"{self.session_id} fork {self.calls}")

    def _pause(self, number: int) -> None:
        self._own()
        self.calls += 1
        name = f"{self.session_id} peer {self.calls}"
        peers = [PeerRequest(f"{name} {each}", "stock", {"item": each}) for each in range(2)]
        if number == 0:
            self.checkpointer.accept_response(f"{name} 0", {"left": "early"})
        self.checkpointer.pause_for_peers(self.session_id, {"step": number}, [JoinRequest(f"j{self.calls}", peers)])
        for peer in peers[: number + 1]:
            self.checkpointer.accept_response(peer.id, {"left": 1})
        if number:
            self.checkpointer.take_paused(self.session_id)

    def _late(self, number: int) -> None:
        """Another process takes the session over while a call runs, whose result then comes too late."""
        self._own()
        self.calls += 1
        call_id = f"l{self.calls}"
        self.checkpointer.record_tool_call_issued(self.session_id, call_id, "pay", {}, f"late {self.calls}")
        with SyncCheckpointer() as other:
            owned = take_and_release_ownership.take_ownership_and_start_heartbeat(
                other.store, self.session_id, takeover=True
            )
            take_and_release_ownership.release_ownership_if_still_owner(other.store, owned)
        self.checkpointer.record_tool_call_result(self.session_id, call_id, "paid", True)

    def _transfer(self, number: int) -> None:
        """Export the session, delete it and import it again."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "session"
            self.checkpointer.export_session(self.session_id, file)
            with _kept_out(self.checkpointer, self.session_id):
                self.checkpointer.delete_session(self.session_id)
                self.checkpointer.import_session(file)
        self._own()


def list_rows(session: Session) -> list[tuple[type[models.Model], Any]]:
    """List the rows of a session in all tables that belong to it, with the contents of frameworks.

    Entries of the audit trail are verified with their chain, and not here.
    """
    tables: list[type[models.Model]] = [Blob, *(model for model in SEALED_TABLES if model is not AuditEvent)]
    rows = [(model, plain(model).filter(**{"pk" if model is Session else "session": session.pk})) for model in tables]
    return [(model, key) for model, found in rows for key in found.order_by("pk").values_list("pk", flat=True)]


@contextmanager
def _kept_out(checkpointer: SyncCheckpointer, session_id: str) -> Iterator[None]:
    """Release a session for the block if the checkpointer owns it."""
    if checkpointer.store.find_owned_session(session_id) is not None:
        checkpointer.release_session(session_id)
    yield
