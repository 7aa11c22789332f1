"""Log of lines that a foreign program writes to a session: opaque, in the order of their commits.

The lines are writes after one state, which has the header of the log. A write is refused while a run of another client
owns the session, and creates no run itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from checkpoints.db.hot_statements import ChangedRow, NewRows
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.exceptions import CheckpointCorrupted
from checkpoints.formats import digests
from checkpoints.framework_states import read_and_insert_state_rows, state_store
from checkpoints.models import FrameworkState, FrameworkWrite, Session
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.versions import opaque_bytes_as_message_differences
from checkpoints.versions.opaque_bytes_as_message_differences import StoredMessage

STATE_ID = "lines"
_CHANNEL = "line"
_TYPE = "json"


class LineLog:
    """Log of a session that is locked in the transaction of its caller, or that nobody has written to meanwhile.

    Attributes:
        row: Row of the session.
        owned_session: State of the session if this client owns it.
        size: Number of lines.
        header: JSON object that its users keep beside the lines; empty for a new log.
    """

    def __init__(
        self,
        store: Store,
        row: Session,
        owned_session: OwnedSession | None,
        group: str,
        *,
        known: tuple[int, dict[str, Any]] | None = None,
    ) -> None:
        """Read the header of the log of a locked session.

        Args:
            store: State of the client.
            row: The session.
            owned_session: State of the session if this client owns it.
            group: Name of the group of a new log.
            known: Number of lines, and header, of a log whose caller knows them; it is not read.
        """
        self.row, self.owned_session = row, owned_session
        self._version = row.latest_version
        self._store, self._group = store, group
        self._added: list[tuple[int, bytes]] = []
        self._is_new = False
        if known is not None:
            self.size, self.header = known
            return
        place = (row.workspace_id, row.session_id)
        state = next(
            iter(read_and_insert_state_rows.list_state_by_id_or_newest(store.using, place, "", STATE_ID)), None
        )
        self._is_new = state is None
        self.size, self.header = (0, {}) if state is None else _parse_size_and_header(row.session_id, bytes(state.body))

    def queue_lines(self, contents: Sequence[bytes]) -> None:
        """Add lines; `insert_queued_lines` stores them."""
        self._added += enumerate(contents, self.size)
        self.size += len(contents)

    def insert_queued_lines(self, messages: Sequence[StoredMessage]) -> None:
        """Store the added lines, each in its row. The transaction has stored `messages`, which have their texts."""
        read_and_insert_state_rows.insert_rows_of_states_or_writes(
            self._store.using, self.row, FrameworkWrite, self._take_rows_of_queued_lines(messages)
        )

    def take_rows_of_queued_lines_and_header(self, messages: Sequence[StoredMessage]) -> list[NewRows | ChangedRow]:
        """Return the rows of the added lines and of the header, for a statement that stores them with `messages`."""
        place = {"namespace": "", "state_id": STATE_ID}
        return [
            read_and_insert_state_rows.build_rows_of_states_or_writes(
                FrameworkWrite, self._take_rows_of_queued_lines(messages)
            ),
            ChangedRow(FrameworkState, place, {"body": self._encode_header()}),
        ]

    def _take_rows_of_queued_lines(self, messages: Sequence[StoredMessage]) -> list[dict[str, Any]]:
        rows = []
        for number, (position, content) in enumerate(self._added):
            candidates = opaque_bytes_as_message_differences.list_candidate_base_messages(
                messages, number, len(self._added)
            )
            rows.append(
                {
                    "namespace": "",
                    "state_id": STATE_ID,
                    "task_id": "",
                    "position": position,
                    "task_path": "",
                    "channel": _CHANNEL,
                    "digest": digests.digest_blob(_TYPE, content),
                    **opaque_bytes_as_message_differences.build_content_columns(_TYPE, content, candidates)._asdict(),
                }
            )
        self._added.clear()
        return rows

    def save_header(self) -> None:
        """Store the header and the number of lines. Pages notice it, also if no version was written meanwhile."""
        body = self._encode_header()
        states = FrameworkState.objects.using(self._store.using)
        if self._is_new:
            self._is_new = False
            states.create(
                session=self.row,
                namespace="",
                state_id=STATE_ID,
                run_key=self._group,
                body_type=_TYPE,
                body=body,
                metadata_type=_TYPE,
                metadata=b"{}",
            )
        else:
            states.filter(session=self.row, namespace="", state_id=STATE_ID).update(body=body)
        if self.row.latest_version == self._version:
            look_up_and_lock_rows.increment_session_revision(self._store, self.row.pk)

    def _encode_header(self) -> bytes:
        return json.dumps({"size": self.size, "header": self.header}, separators=(",", ":")).encode()


@contextmanager
def lock_or_create_session_for_line_log(
    store: Store, session_id: str, description: NewSessionFields, group: str
) -> Iterator[LineLog]:
    """Lock a session for a write to its log in one transaction; it is created if it does not exist.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        description: Description of the session if it does not exist.
        group: Name by which `load_headers_of_logs_in_group` finds the log, if it is new; at most 255 characters.

    Raises:
        SessionFinished: The session has ended.
        SessionBusy: A run of another client owns the session and is alive.
        OwnershipLost: Another run has taken the session from this client.
        CheckpointCorrupted: The header cannot be read.
    """
    with state_store.lock_or_create_session(store, session_id, description) as (row, owned_session):
        yield LineLog(store, row, owned_session, group)


def load_session_lines(store: Store, session_id: str) -> list[bytes] | None:
    """Load all lines of a session, in order. Returns None if it has no log.

    Raises:
        IntegrityError: A row is not one that this library wrote.
        CheckpointCorrupted: A line is missing or altered.
    """
    state = state_store.load_state(store, session_id, "", STATE_ID)
    if state is None:
        return None
    lines = {write.position: write.value[1] for write in state.writes if isinstance(write.value, tuple)}
    if lines and max(lines) != len(lines) - 1:
        raise CheckpointCorrupted(session_id, "its lines", "one is missing")
    return [lines[position] for position in range(len(lines))]


def load_headers_of_logs_in_group(
    store: Store, group: str, *, parent_session_id: str | None = None
) -> list[dict[str, Any]]:
    """List the headers of the logs of a group, or of those whose session belongs to a parent."""
    with database_operation(store.using, writes=False):
        states = state_store.select_states(store, None, "").filter(run_key=group, state_id=STATE_ID)
        if parent_session_id is not None:
            states = states.filter(session__parent_session_id=parent_session_id)
        rows = list(states.order_by("pk").values_list("session__session_id", "body"))
    return [_parse_size_and_header(session_id, bytes(body))[1] for session_id, body in rows]


def _parse_size_and_header(session_id: str, body: bytes) -> tuple[int, dict[str, Any]]:
    try:
        parsed = json.loads(body)
        return int(parsed["size"]), dict(parsed["header"])
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointCorrupted(session_id, "the header of its lines", str(error)) from error
