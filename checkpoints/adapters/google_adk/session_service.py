"""Session service of Google ADK: the events of a session are the transcript of a session of this library."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from operator import itemgetter
from typing import Any, Final
from uuid import uuid4
from weakref import WeakValueDictionary

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.adk.sessions.state import State
from pydantic_core import to_jsonable_python

from checkpoints.adapters.google_adk import event_conversion
from checkpoints.adapters.session_claims import SessionClaims
from checkpoints.adapters.sync_or_async_client import AdapterClient
from checkpoints.async_client import Checkpointer
from checkpoints.exceptions import InvalidInput
from checkpoints.formats import parse_message_parts
from checkpoints.framework_states import (
    framework_json_documents,
    message_list_without_lease,
    remove_and_copy_states,
    write_transcript_version,
)
from checkpoints.framework_states.write_transcript_version import VersionContent
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.models import Checkpoint
from checkpoints.models import Session as SessionRow
from checkpoints.sessions import create_finish_release
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.sync_client import SyncCheckpointer
from checkpoints.versions import load_version

logger = logging.getLogger(__name__)

_FRAMEWORK: Final = "google-adk"
#: Name of the framework in errors and in the metadata of its sessions.
FRAMEWORK_NAME: Final = "Google ADK"
#: Names of the documents: of a session, and of the state that sessions share.
_SESSION, _SHARED = "session", "shared_state"


@dataclass(frozen=True)
class _StateDeltas:
    """Changes of the state of a session, and of those that it shares, by names without their prefix."""

    own: dict[str, Any] = field(default_factory=dict)
    of_user: dict[str, Any] = field(default_factory=dict)
    of_app: dict[str, Any] = field(default_factory=dict)


class HarnessSessionService(BaseSessionService):
    """Session service that keeps the sessions of Google ADK as sessions of this library.

        service = HarnessSessionService(checkpointer)
        app = App(name="refunds", root_agent=agent, plugins=[Harness(service)])
        runner = Runner(app=app, session_service=service)

    A session is named `app/user/session`. What all sessions of a user or of an app share (`user:` and `app:`) is kept
    in the sessions `app/user/` and `app/`, which have no messages. An event is appended, and all state that it changes
    is written, in one transaction; it is refused with `SessionBusy` while a run of another client owns the session.
    """

    def __init__(self, checkpointer: SyncCheckpointer | Checkpointer | None = None) -> None:
        """Create a service.

        Args:
            checkpointer: Client of a database, blocking or async. None uses the `default` database of the project.

        Raises:
            InvalidInput: The client is one of a server over HTTP.
        """
        self.client = AdapterClient(checkpointer)
        #: Calls of agents that tools have run, by session and call of the tool.
        self._inner_calls: dict[tuple[str, str], list[str]] = {}
        #: Calls of tools that are nodes of a workflow, by session and path of the node.
        self._node_calls: dict[tuple[str, str], list[str]] = {}
        #: Locks of sessions to which this process appends, by identifier.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @classmethod
    @contextmanager
    def open(cls, url: str) -> Iterator[HarnessSessionService]:
        """Open a database for a `with` block.

        Args:
            url: Path or URL of a database, as `SyncCheckpointer.open` takes it.

        Yields:
            The service. Its client is closed at the end.
        """
        with SyncCheckpointer.open(url) as checkpointer:
            yield cls(checkpointer)

    @classmethod
    @asynccontextmanager
    async def aopen(cls, url: str) -> AsyncIterator[HarnessSessionService]:
        """Open a database for an `async with` block. Argument and result are those of `open`."""
        async with Checkpointer.open(url) as checkpointer:
            yield cls(checkpointer)

    # ---- sessions

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session.

        Args:
            app_name: Name of the app.
            user_id: Identifier of the user.
            state: First state. Values under `user:` and `app:` are shared, and those under `temp:` are not stored.
            session_id: Identifier of the session. None or empty: a new one.

        Returns:
            The session, with the state that it shares.

        Raises:
            AlreadyExistsError: The user has a session of this identifier.
            InvalidInput: A name cannot be used, or a session of it has messages that are none of ADK.
            SessionOfOtherFramework: A session of these names is one of another framework.
        """
        session_id = (session_id or "").strip() or str(uuid4())
        harness_session_id = build_harness_session_id(app_name, user_id, session_id)
        deltas = _split_state_by_scope(state or {})

        def create_session_document(row: SessionRow) -> None:
            if self._load_document(harness_session_id) is not None:
                raise AlreadyExistsError(f"Session with id {session_id} already exists.")
            if row.message_count:
                raise InvalidInput(
                    f"The session {harness_session_id!r} has messages that are none of Google ADK. Use another id."
                )
            self._save_document(row, _build_document(app_name, user_id, session_id, deltas.own))
            self._update_shared_states(app_name, user_id, deltas)

        await self._write_version_under_locks(harness_session_id, app_name, user_id, deltas, create_session_document)
        created = await self.get_session(app_name=app_name, user_id=user_id, session_id=session_id)
        if created is None:
            raise SessionNotFoundError(f"Session {session_id} not found.")
        return created

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Load a session.

        Args:
            app_name: Name of the app.
            user_id: Identifier of the user.
            session_id: Identifier of the session.
            config: Which events to load. None: all.

        Returns:
            The session; None if there is none. A fork of a session that has the name of one is one: its state is what
            the copied events have made of it.

        Raises:
            CheckpointCorrupted: A stored event cannot be read.
            InvalidInput: A name cannot be used, or this version of ADK does not know an event.
        """
        session_id = session_id.strip() if session_id else session_id
        harness_session_id = build_harness_session_id(app_name, user_id, session_id)
        return await self.client.run_blocking(
            partial(self._load_session, harness_session_id, app_name, user_id, session_id, config or GetSessionConfig())
        )

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """List the sessions of an app, without their events.

        Args:
            app_name: Name of the app.
            user_id: Identifier of a user. None: sessions of all users.

        Returns:
            The sessions, those with the latest event last.
        """
        return await self.client.run_blocking(partial(self._list_sessions, app_name, user_id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session. What it shares with others stays.

        Args:
            app_name: Name of the app.
            user_id: Identifier of the user.
            session_id: Identifier of the session. Nothing happens if there is none.

        Raises:
            StillNeeded: A run of another client drives it, or a person has to decide.
        """
        harness_session_id = build_harness_session_id(
            app_name, user_id, session_id.strip() if session_id else session_id
        )
        await self.client.run_blocking(
            partial(remove_and_copy_states.release_and_delete_session, self.client.store, harness_session_id)
        )

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Load the state that all sessions of a user share.

        Args:
            app_name: Name of the app.
            user_id: Identifier of the user.

        Returns:
            The values by names without `user:`.
        """
        return await self.client.run_blocking(
            partial(self._load_shared_state, _build_user_state_session_id(app_name, user_id))
        )

    # ---- events

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event to a session, and write the state that it changes, in one transaction.

        Args:
            session: Session as this service has returned it. It gets the event and its changes.
            event: Event. One that is partial is not stored; one that the session has is not appended again.

        Returns:
            The event, without state under `temp:`.

        Raises:
            SessionNotFoundError: There is no such session.
            StaleSessionError: Somebody else has appended an event since the session was loaded. Nothing was written;
                load it again.
            SessionBusy: A run of another client owns the session and is alive.
            SessionFinished: The session has ended.
            NotRepresentable: The event has no exact JSON form.
        """
        if event.partial:
            return event
        harness_session_id = build_harness_session_id(session.app_name, session.user_id, session.id)
        async with self._locks.setdefault(harness_session_id, asyncio.Lock()):
            if any(known == event for known in session.events if known.id == event.id):
                return event
            self._apply_temp_state(session, event)
            event = self._trim_temp_delta_state(event)
            version = await self._append_event_if_missing_and_get_version(harness_session_id, session, event)
            session.last_update_time = event.timestamp
            session._storage_update_marker = str(version)
            return self._commit_event_to_session(session, event)

    async def _append_event_if_missing_and_get_version(
        self, harness_session_id: str, session: Session, event: Event
    ) -> int:
        """Append an event unless the session ends with it, which a write has stored that seemed to fail.

        Returns the number of the version.
        """
        deltas = _split_state_by_scope(event.actions.state_delta)
        message = event_conversion.encode_event(event)
        outer_calls = [(harness_session_id, str(response.id)) for response in event.get_function_responses()]
        closed = [call_id for outer_call in outer_calls for call_id in self._inner_calls.get(outer_call, ())]
        node = (harness_session_id, event.node_info.path)
        closed += self._node_calls.get(node, ())
        content = VersionContent(None, write_transcript_version.build_empty_call_results(closed), added=[message])
        title = parse_message_parts.find_first_user_text_or_empty([message])
        if deltas == _StateDeltas() and await self._try_append_to_known_session(
            harness_session_id, session, content, title
        ):
            return int(session._storage_update_marker or 0) + 1
        versions: list[int] = []

        def save_state_and_build_version(row: SessionRow) -> VersionContent | None:
            document = self._load_document(harness_session_id) or self._build_document_of_fork(
                row, session.app_name, session.user_id, session.id
            )
            if self._is_stale(session, row):
                if self._load_newest_event_id(harness_session_id) != event.id:
                    raise StaleSessionError(
                        f"Another process has appended an event to the session {harness_session_id} since it was "
                        "loaded. Nothing was written; load the session again."
                    )
                versions.append(row.latest_version)
                return None
            versions.append(row.latest_version + 1)
            self._save_document(row, {**document, "state": {**document["state"], **deltas.own}})
            self._update_shared_states(session.app_name, session.user_id, deltas)
            return content

        await self._write_version_under_locks(
            harness_session_id,
            session.app_name,
            session.user_id,
            deltas,
            save_state_and_build_version,
            title,
            must_exist=session.id,
        )
        for outer_call in outer_calls:
            self._inner_calls.pop(outer_call, None)
        self._node_calls.pop(node, None)
        return versions[-1]

    async def _try_append_to_known_session(
        self, harness_session_id: str, session: Session, content: VersionContent, title: str
    ) -> bool:
        """Append an event that changes no state to a session that nobody has written to since this service has.

        Returns whether it did.
        """

        def build_version_if_session_unchanged(row: SessionRow, _: Checkpoint | None) -> VersionContent | None:
            return content if session._storage_update_marker == str(row.latest_version) else None

        def append_under_claims_lock() -> bool:
            with SessionClaims.get_for_client(self.client.sync).lock_session_claims(harness_session_id):
                return message_list_without_lease.try_append_to_cached_session(
                    self.client.store,
                    harness_session_id,
                    NewSessionFields(title, session.app_name, framework=FRAMEWORK_NAME),
                    build_version_if_session_unchanged,
                    {_FRAMEWORK: harness_session_id},
                )

        return await self.client.run_blocking(append_under_claims_lock)

    def remember_inner_calls_to_close(self, harness_session_id: str, call_id: str, inner_ids: Sequence[str]) -> None:
        """Remember the calls of an agent that a tool has run, whose messages are in no session of this service.

        They are closed together with the call of the tool: until then, the agent would run again after a crash, and
        its calls be replayed.

        Args:
            harness_session_id: Identifier of the session that has logged the calls.
            call_id: Identifier of the call of the tool.
            inner_ids: Identifiers of the calls of the agent.
        """
        if inner_ids:
            self._inner_calls[harness_session_id, call_id] = list(inner_ids)

    def remember_node_call_to_close(self, harness_session_id: str, node_path: str, call_id: str) -> None:
        """Remember the call of a tool that is a node of a workflow. The next event of the node, which has its output,
        closes the call: no event has the call and its result.

        Args:
            harness_session_id: Identifier of the session that has logged the call.
            node_path: Path of the node in its workflow.
            call_id: Identifier of the call.
        """
        self._node_calls.setdefault((harness_session_id, node_path), []).append(call_id)

    def require_newest_revision(self, session: Session) -> None:
        """Require that nobody has appended an event to a session since it was loaded.

        Args:
            session: Session. One that this service does not have passes.

        Raises:
            StaleSessionError: Somebody has.
        """
        harness_session_id = build_harness_session_id(session.app_name, session.user_id, session.id)
        row = self._find_session_row(harness_session_id)
        if row is not None and row.latest_version and self._is_stale(session, row):
            raise StaleSessionError(
                f"Another process has continued the session {harness_session_id} since it was loaded. Nothing was "
                "done; load the session again."
            )

    # ---- database

    def _load_session(
        self, harness_session_id: str, app_name: str, user_id: str, session_id: str, config: GetSessionConfig
    ) -> Session | None:
        while True:
            stored, row = self._load_document(harness_session_id), self._find_session_row(harness_session_id)
            if row is None:
                return None
            # A date can only be found in the events, and the state of a fork only from all of them.
            reads_all = stored is None or bool(config.after_timestamp)
            loaded = self._load_newest_version(harness_session_id, None if reads_all else config.num_recent_events)
            if self._load_document(harness_session_id) == stored:  # nobody has changed the state between the reads
                break
        events = event_conversion.decode_messages([] if loaded is None else loaded["transcript"])
        document = stored or _build_document_with_state_from_events(app_name, user_id, session_id, events)
        updated_at = events[-1].timestamp if events else row.created_at.timestamp()
        if config.num_recent_events is not None:
            events = events[max(len(events) - config.num_recent_events, 0) :]
        if config.after_timestamp:
            events = [event for event in events if event.timestamp >= config.after_timestamp]
        session = Session(
            app_name=app_name,
            user_id=user_id,
            id=session_id,
            state=self._load_and_merge_shared_states(app_name, user_id, document["state"]),
            events=events,
            last_update_time=updated_at,
        )
        session._storage_update_marker = str(0 if loaded is None else loaded["version"])
        return session

    def _load_newest_version(self, harness_session_id: str, limit: int | None) -> dict[str, Any] | None:
        """Load the newest version with its last messages, one at least: it has the time of the last event."""
        if limit is None:
            return load_version.load_latest_version(self.client.store, harness_session_id)
        return load_version.load_latest_version_with_last_messages(self.client.store, harness_session_id, max(limit, 1))

    def _list_sessions(self, app_name: str, user_id: str | None) -> ListSessionsResponse:
        prefix = (
            _build_app_state_session_id(app_name)
            if user_id is None
            else _build_user_state_session_id(app_name, user_id)
        )
        store = self.client.store
        rows = SessionRow.objects.using(store.using).filter(
            workspace=store.workspace_id, agent=NewSessionFields(agent=app_name).build_columns()["agent"]
        )
        load_shared_state = cache(self._load_shared_state)
        found = []
        for row in rows:
            names = _split_harness_session_id(row.session_id)
            if names is None or not row.session_id.startswith(prefix):
                continue
            document = self._load_document(row.session_id) or self._build_document_of_fork(row, *names)
            state = _merge_shared_states(
                document["state"],
                load_shared_state(_build_app_state_session_id(app_name)),
                load_shared_state(_build_user_state_session_id(app_name, document["user_id"])),
            )
            found.append((self._find_time_of_last_event(row), document["user_id"], document["id"], state))
        found.sort(key=itemgetter(0, 1, 2))
        return ListSessionsResponse(
            sessions=[
                Session(app_name=app_name, user_id=owner, id=session_id, state=state, last_update_time=updated_at)
                for updated_at, owner, session_id, state in found
            ]
        )

    def _is_stale(self, session: Session, row: SessionRow) -> bool:
        """Return whether somebody has written to a session since it was loaded. One that a program has built itself has
        no number of a version; it is compared by its last event, or by its time."""
        if session._storage_update_marker is not None:
            return session._storage_update_marker != str(row.latest_version)
        if session.events:
            return self._load_newest_event_id(row.session_id) != session.events[-1].id
        return self._find_time_of_last_event(row) > session.last_update_time

    def _find_time_of_last_event(self, row: SessionRow) -> float:
        newest = message_list_without_lease.list_messages_of_newest_version(self.client.store, row.session_id, 1)
        events = event_conversion.decode_messages(newest)
        return events[0].timestamp if events else row.created_at.timestamp()

    def _load_newest_event_id(self, harness_session_id: str) -> str | None:
        newest = message_list_without_lease.list_messages_of_newest_version(self.client.store, harness_session_id, 1)
        return event_conversion.decode_messages(newest)[0].id if newest else None

    def _load_and_merge_shared_states(self, app_name: str, user_id: str, own: Mapping[str, Any]) -> dict[str, Any]:
        of_app = self._load_shared_state(_build_app_state_session_id(app_name))
        of_user = self._load_shared_state(_build_user_state_session_id(app_name, user_id))
        return _merge_shared_states(own, of_app, of_user)

    def _build_document_of_fork(self, row: SessionRow, app_name: str, user_id: str, session_id: str) -> dict[str, Any]:
        """Return the document of a session that has none, because it was forked outside ADK."""
        events = event_conversion.decode_messages(
            message_list_without_lease.list_messages_of_newest_version(self.client.store, row.session_id)
        )
        return _build_document_with_state_from_events(app_name, user_id, session_id, events)

    def _find_session_row(self, harness_session_id: str) -> SessionRow | None:
        store = self.client.store
        return (
            SessionRow.objects.using(store.using)
            .filter(workspace=store.workspace_id, session_id=harness_session_id)
            .first()
        )

    def _load_document(self, harness_session_id: str) -> dict[str, Any] | None:
        found = framework_json_documents.load_document(self.client.store, harness_session_id, _FRAMEWORK, _SESSION)
        return None if found is None else dict(found)

    def _save_document(self, row: SessionRow, document: Mapping[str, Any]) -> None:
        framework_json_documents.save_document(self.client.store, row, _FRAMEWORK, _SESSION, dict(document))

    def _load_shared_state(self, harness_session_id: str) -> dict[str, Any]:
        return dict(
            framework_json_documents.load_document(self.client.store, harness_session_id, _FRAMEWORK, _SHARED) or {}
        )

    def _update_shared_states(self, app_name: str, user_id: str, deltas: _StateDeltas) -> None:
        """Merge changes into the states that sessions share. The caller has locked the sessions that keep them."""
        store = self.client.store
        for harness_session_id, delta in _list_shared_state_sessions_to_update(app_name, user_id, deltas):
            row = SessionRow.objects.using(store.using).get(workspace=store.workspace_id, session_id=harness_session_id)
            merged = {**self._load_shared_state(harness_session_id), **delta}
            framework_json_documents.save_document(store, row, _FRAMEWORK, _SHARED, merged)

    async def _write_version_under_locks(
        self,
        harness_session_id: str,
        app_name: str,
        user_id: str,
        deltas: _StateDeltas,
        build: Callable[[SessionRow], VersionContent | None],
        title: str = "",
        must_exist: str | None = None,
    ) -> None:
        """Change a session, and what it shares, in one transaction that locks all of it."""
        shared = [
            state_session_id for state_session_id, _ in _list_shared_state_sessions_to_update(app_name, user_id, deltas)
        ]

        def create_shared_sessions_and_write_version() -> None:
            store = self.client.store
            if must_exist is not None and self._find_session_row(harness_session_id) is None:
                raise SessionNotFoundError(f"Session {must_exist} not found.")
            for state_session_id in shared:
                description = NewSessionFields(
                    title=_get_title_of_shared_state_session(state_session_id), agent=app_name, framework=FRAMEWORK_NAME
                )
                create_finish_release.create_session_if_missing(store, state_session_id, description)
            claims = SessionClaims.get_for_client(self.client.sync)
            with claims.lock_session_claims(harness_session_id):
                message_list_without_lease.write_next_version_built_by_callback(
                    store,
                    harness_session_id,
                    NewSessionFields(title, app_name, framework=FRAMEWORK_NAME),
                    lambda row, _: build(row),
                    facts={_FRAMEWORK: harness_session_id},
                    pairings=claims.find_call_pairings_and_mark_for_reload(harness_session_id),
                    source_ids=shared,
                )

        await self.client.run_blocking(create_shared_sessions_and_write_version)


def build_harness_session_id(app_name: str, user_id: str, session_id: str) -> str:
    """Build the identifier of the session of this library that has the events of a session of ADK.

    Args:
        app_name: Name of the app.
        user_id: Identifier of the user.
        session_id: Identifier of the session.

    Returns:
        The three names with slashes between them. A slash or a percent sign in a name is written as in a URL.

    Raises:
        InvalidInput: A name is empty, or all of them are longer than 255 characters.
    """
    return validate_id(
        "session id", _build_user_state_session_id(app_name, user_id) + _escape_name("session id", session_id)
    )


def _build_user_state_session_id(app_name: str, user_id: str) -> str:
    return f"{_build_app_state_session_id(app_name)}{_escape_name('user id', user_id)}/"


def _build_app_state_session_id(app_name: str) -> str:
    return _escape_name("app name", app_name) + "/"


def _escape_name(kind: str, name: str) -> str:
    return validate_id(kind, name).replace("%", "%25").replace("/", "%2F")


def _split_harness_session_id(harness_session_id: str) -> tuple[str, str, str] | None:
    """Split what `build_harness_session_id` has built into app, user and session; None for any other identifier."""
    names = [name.replace("%2F", "/").replace("%25", "%") for name in harness_session_id.split("/")]
    return (names[0], names[1], names[2]) if len(names) == 3 and all(names) else None


def _merge_shared_states(
    own: Mapping[str, Any], of_app: Mapping[str, Any], of_user: Mapping[str, Any]
) -> dict[str, Any]:
    """Merge the state of a session with that of its app and of its user, whose names get their prefixes."""
    return {
        **own,
        **{State.APP_PREFIX + name: value for name, value in of_app.items()},
        **{State.USER_PREFIX + name: value for name, value in of_user.items()},
    }


def _split_state_by_scope(state: Mapping[str, Any]) -> _StateDeltas:
    """Split a state by the prefixes of its names. What is under `temp:` is left out."""
    deltas = _StateDeltas()
    for name, value in state.items():
        if name.startswith(State.APP_PREFIX):
            deltas.of_app[name.removeprefix(State.APP_PREFIX)] = _convert_to_json(name, value)
        elif name.startswith(State.USER_PREFIX):
            deltas.of_user[name.removeprefix(State.USER_PREFIX)] = _convert_to_json(name, value)
        elif not name.startswith(State.TEMP_PREFIX):
            deltas.own[name] = _convert_to_json(name, value)
    return deltas


def _convert_to_json(name: str, value: Any) -> Any:
    """Convert a value of a state. One without a JSON form is stored as its text, as the services of ADK do."""
    try:
        return to_jsonable_python(value)
    except ValueError:
        logger.warning("The value of %r in the state has no JSON form, and is stored as text.", name)
        return to_jsonable_python(value, fallback=repr)


def _list_shared_state_sessions_to_update(
    app_name: str, user_id: str, deltas: _StateDeltas
) -> list[tuple[str, dict[str, Any]]]:
    """List the sessions whose shared state changes, with the changes."""
    deltas_by_session_id = (
        (_build_app_state_session_id(app_name), deltas.of_app),
        (_build_user_state_session_id(app_name, user_id), deltas.of_user),
    )
    return [(harness_session_id, delta) for harness_session_id, delta in deltas_by_session_id if delta]


def _get_title_of_shared_state_session(harness_session_id: str) -> str:
    return (
        "State that the sessions of this app share"
        if harness_session_id.count("/") == 1
        else "State that the sessions of this user share"
    )


def _build_document_with_state_from_events(
    app_name: str, user_id: str, session_id: str, events: Sequence[Event]
) -> dict[str, Any]:
    """Build the document of a session from its events, as if each of them had just been appended."""
    state: dict[str, Any] = {}
    for event in events:
        state.update(_split_state_by_scope(event.actions.state_delta).own)
    return _build_document(app_name, user_id, session_id, state)


def _build_document(app_name: str, user_id: str, session_id: str, state: dict[str, Any]) -> dict[str, Any]:
    return {"app_name": app_name, "user_id": user_id, "id": session_id, "state": state}
