"""Repository of Strands Agents: the messages of an agent are the transcript of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from strands.multiagent.base import Status
from strands.session.session_repository import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage

from checkpoints.adapters.session_claims import SessionClaims
from checkpoints.adapters.strands import message_conversion
from checkpoints.adapters.sync_or_async_client import AdapterClient, run_on_thread
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
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.sync_client import SyncCheckpointer

T = TypeVar("T")
_FRAMEWORK: Final = "strands"
#: Name of the framework in errors and in the metadata of its sessions.
FRAMEWORK_NAME: Final = "Strands Agents"
#: Names of the documents of a session, before the identifiers of agents.
_SESSION, _AGENT, _MULTI_AGENT = "session", "agent/", "multi_agent/"


class SessionConflict(SessionException):
    """Another process has written to the session since it was read. Nothing was written; create the agent again."""


class HarnessSessionRepository(SessionRepository):
    """Repository that keeps sessions of Strands as sessions of this library.

        repository = HarnessSessionRepository(checkpointer)
        manager = RepositorySessionManager("order-17", repository)
        agent = Agent(model, tools=tools, session_manager=manager)

    The first agent of a session is the session itself, and each further one is a session below it. A message is
    appended only behind the last one, so that no process overwrites what another one has written. A write is refused
    with `SessionBusy` while a run of another client owns the session.
    """

    def __init__(self, checkpointer: SyncCheckpointer | Checkpointer | None = None, *, agent: str = "strands") -> None:
        """Create a repository.

        Args:
            checkpointer: Client of a database, blocking or async. None uses the `default` database of the project.
            agent: Name of the agent of new sessions, for lists and filters.

        Raises:
            InvalidInput: The client is one of a server over HTTP.
        """
        self.client = AdapterClient(checkpointer)
        self._agent_name = agent
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="harness-strands")
        #: State of each agent as this repository has read or written it last.
        self._known: dict[str, dict[str, Any]] = {}
        #: Sessions that have had the messages of agents, by the identifiers of session and agent.
        self._agent_session_ids: dict[tuple[str, str], str] = {}
        #: Calls of finished invocations of agents whose messages are in no session, by agent.
        self._finished_calls: WeakKeyDictionary[Any, list[str]] = WeakKeyDictionary()

    @classmethod
    @contextmanager
    def open(cls, url: str, **options: Any) -> Iterator[HarnessSessionRepository]:
        """Open a database for a `with` block.

        Args:
            url: Path or URL of a database, as `SyncCheckpointer.open` takes it.
            options: Arguments of the class.

        Yields:
            The repository. Its client is closed at the end.
        """
        with SyncCheckpointer.open(url) as checkpointer:
            yield cls(checkpointer, **options)

    # ---- sessions

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Create a session.

        Args:
            session: Record of the session.
            kwargs: Not used.

        Returns:
            The record.

        Raises:
            SessionException: It exists.
            InvalidInput: The identifier cannot be used, or a session of it has messages and is none of Strands.
            SessionOfOtherFramework: A session of this identifier is one of another framework.
        """
        session_id = _validate_identifier(session.session_id)

        def save_new_session_document(row: SessionRow) -> None:
            if self._load_document(session_id, _SESSION) is not None:
                raise SessionException(f"Session {session_id} already exists")
            if row.message_count:
                raise InvalidInput(f"The session {session_id!r} has messages that are none of Strands. Use another id.")
            self._save_document(row, _SESSION, {"record": session.to_dict(), "agent": None})

        self._write_session_change_under_lock(session_id, save_new_session_document)
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """Read a session. Returns None if there is none."""
        stored = self._run_blocking(partial(self._load_document, _validate_identifier(session_id), _SESSION))
        return None if stored is None else Session.from_dict(stored["record"])

    def delete_session(self, session_id: str, **kwargs: Any) -> None:
        """Delete a session with all of its agents.

        Args:
            session_id: Identifier of the session.
            kwargs: Not used.

        Raises:
            SessionException: There is no such session.
            StillNeeded: A run of another client drives it, or a person has to decide.
        """
        if self.read_session(session_id) is None:
            raise SessionException(f"Session {session_id} does not exist")

        def delete_session_and_agent_sessions() -> None:
            store = self.client.store
            children = SessionRow.objects.using(store.using).filter(
                workspace=store.workspace_id, parent_session_id=session_id
            )
            for child_id in [*children.values_list("session_id", flat=True), session_id]:
                if (
                    self._load_document(
                        child_id, _SESSION if child_id == session_id else _get_agent_document_name(child_id)
                    )
                    is not None
                ):
                    remove_and_copy_states.release_and_delete_session(store, child_id)
                self._known.pop(child_id, None)

        self._run_blocking(delete_session_and_agent_sessions)

    # ---- agents

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Create an agent in a session.

        Args:
            session_id: Identifier of the session.
            session_agent: Record of the agent.
            kwargs: Not used.

        Raises:
            SessionException: There is no such session.
            SessionConflict: The session has an agent of this identifier.
        """
        agent_id, record = _validate_identifier(session_agent.agent_id), session_agent.to_dict()

        def store_first_agent_of_session_if_unset(row: SessionRow) -> None:
            stored = self._get_session_document_or_raise(session_id)
            if stored["agent"] is None:
                self._save_document(row, _SESSION, {**stored, "agent": agent_id})

        def save_new_agent_document(row: SessionRow) -> None:
            self._get_session_document_or_raise(session_id)
            if self._load_document(row.session_id, _AGENT + agent_id) is not None:
                raise SessionConflict(f"Agent {agent_id} in session {session_id} already exists")
            if row.session_id != session_id:
                rows = SessionRow.objects.using(self.client.store.using).filter(pk=row.pk)
                rows.update(parent_session_id=session_id)
            self._save_document(row, _AGENT + agent_id, record)

        self._write_session_change_under_lock(session_id, store_first_agent_of_session_if_unset)
        agent_session_id = self.load_session_id_of_agent(session_id, agent_id)
        self._write_session_change_under_lock(agent_session_id, save_new_agent_document)
        self._known[agent_session_id] = record

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """Read an agent. Returns None if there is none."""
        agent_session_id = self.load_session_id_of_agent(session_id, agent_id)
        record = self._run_blocking(
            partial(self._load_document, agent_session_id, _AGENT + _validate_identifier(agent_id))
        )
        if record is None:
            return None
        self._known[agent_session_id] = record
        pending = _get_interrupt_state(record).get("pending_tool_execution")
        if pending is not None and self._has_tool_results_in_newest_message(agent_session_id):
            record = _copy_without_interrupts(record)
        return SessionAgent.from_dict(record)

    def _has_tool_results_in_newest_message(self, agent_session_id: str) -> bool:
        """Return whether the last message has results of tools. Then the calls of which an interrupt was are over,
        although the process died before it stored the state of the agent without the interrupt."""
        newest = message_list_without_lease.list_messages_of_newest_version
        messages = self._run_blocking(lambda: newest(self.client.store, agent_session_id, 1))
        return any("toolResult" in block for message in messages for block in message["content"])

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Replace the state of an agent.

        Args:
            session_id: Identifier of the session.
            session_agent: Record of the agent. It gets the time at which the agent was created.
            kwargs: Not used.

        Raises:
            SessionException: There is no such agent.
            SessionConflict: Another process has replaced the state since this repository has read or written it.
        """
        agent_id = _validate_identifier(session_agent.agent_id)
        agent_session_id = self.load_session_id_of_agent(session_id, agent_id)

        def replace_agent_document(row: SessionRow) -> None:
            stored = self._get_agent_document_or_raise(row.session_id, session_id, agent_id)
            if self._known.get(agent_session_id, stored) != stored:
                raise SessionConflict(f"Another process has changed the agent {agent_id} of session {session_id}.")
            session_agent.created_at = stored["created_at"]
            self._save_document(row, _AGENT + agent_id, session_agent.to_dict())

        self._write_session_change_under_lock(agent_session_id, replace_agent_document)
        self._known[agent_session_id] = session_agent.to_dict()

    def load_session_id_of_agent(self, session_id: str, agent_id: str) -> str:
        """Return the identifier of the session that has the messages of an agent.

        Args:
            session_id: Identifier of the session of Strands.
            agent_id: Identifier of the agent.

        Returns:
            That of the session for its first agent, or if it does not exist yet; else that of a session below it.

        Raises:
            InvalidInput: An identifier cannot be used.
        """
        stored = self._run_blocking(partial(self._load_document, _validate_identifier(session_id), _SESSION))
        if stored is None or stored["agent"] in (None, agent_id):
            return session_id
        return validate_id("session id", f"{session_id}/{_validate_identifier(agent_id)}")

    # ---- messages

    def create_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        """Append a message to those of an agent, as a version.

        Args:
            session_id: Identifier of the session.
            agent_id: Identifier of the agent.
            session_message: Record of the message, whose number is the number of messages before it.
            kwargs: Not used.

        Raises:
            SessionException: There is no such agent.
            SessionConflict: The agent has more or fewer messages than that.
            SessionBusy: A run of another client owns the session and is alive.
            SessionFinished: The session has ended.
            NotRepresentable: The message has no exact JSON form.
        """
        message = message_conversion.encode_message(session_message)
        title, facts = (
            parse_message_parts.find_first_user_text_or_empty([message]),
            {_FRAMEWORK: f"{session_id}/{agent_id}"},
        )
        known_session_id = self._agent_session_ids.get((session_id, agent_id))
        if known_session_id is not None and self._try_append_to_known_agent(
            known_session_id, session_message.message_id, message, title, facts
        ):
            return

        def build_version_with_message(row: SessionRow) -> VersionContent:
            self._get_agent_document_or_raise(row.session_id, session_id, agent_id)
            if session_message.message_id != row.message_count:
                raise SessionConflict(
                    f"Agent {agent_id} in session {session_id} has {row.message_count} messages; a message with the "
                    f"number {session_message.message_id} cannot be appended."
                )
            return VersionContent(None, added=[message])

        agent_session_id = self.load_session_id_of_agent(session_id, agent_id)
        self._write_session_change_under_lock(agent_session_id, build_version_with_message, title, facts)
        self._agent_session_ids[session_id, agent_id] = agent_session_id

    def _try_append_to_known_agent(
        self, agent_session_id: str, number: int, message: dict[str, Any], title: str, facts: dict[str, str]
    ) -> bool:
        """Append a message to an agent that nobody has written to since this repository has. Returns whether it did."""

        def build_version_with_message(row: SessionRow, _: Checkpoint | None) -> VersionContent | None:
            return VersionContent(None, added=[message]) if number == row.message_count else None

        def append_under_claims_lock() -> bool:
            with SessionClaims.get_for_client(self.client.sync).lock_session_claims(agent_session_id):
                return message_list_without_lease.try_append_to_cached_session(
                    self.client.store,
                    agent_session_id,
                    NewSessionFields(title, self._agent_name, framework=FRAMEWORK_NAME),
                    build_version_with_message,
                    facts,
                )

        return self._run_blocking(append_under_claims_lock)

    def read_message(self, session_id: str, agent_id: str, message_id: int, **kwargs: Any) -> SessionMessage | None:
        """Read a message. Returns None if there is none."""
        agent_session_id = self.load_session_id_of_agent(session_id, agent_id)
        messages = self._run_blocking(
            partial(message_list_without_lease.list_messages_of_newest_version, self.client.store, agent_session_id)
        )
        known = 0 <= message_id < len(messages)
        return message_conversion.decode_message(messages[message_id], message_id) if known else None

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        """Replace a message by a version that has it changed. Earlier versions keep what it was.

        Args:
            session_id: Identifier of the session.
            agent_id: Identifier of the agent.
            session_message: Record of the message. It gets the time at which the message was created.
            kwargs: Not used.

        Raises:
            SessionException: There is no such message.
            SessionBusy: A run of another client owns the session and is alive.
        """

        def build_version_with_replaced_message(row: SessionRow) -> VersionContent:
            number = session_message.message_id
            if not 0 <= number < row.message_count:
                raise SessionException(f"Message {number} does not exist")
            tail = message_list_without_lease.list_messages_of_newest_version(
                self.client.store, row.session_id, row.message_count - number
            )
            session_message.created_at = message_conversion.decode_message(tail[0], number).created_at
            changed = message_conversion.encode_message(session_message)
            return VersionContent(None, keep=number, added=[changed, *tail[1:]])

        self._write_session_change_under_lock(
            self.load_session_id_of_agent(session_id, agent_id), build_version_with_replaced_message
        )

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **kwargs: Any
    ) -> list[SessionMessage]:
        """List the messages of an agent in order.

        Args:
            session_id: Identifier of the session.
            agent_id: Identifier of the agent.
            limit: Largest number of messages. None: all.
            offset: Number of messages to leave out, from the first one.
            kwargs: Not used.

        Returns:
            The records of the messages.

        Raises:
            SessionException: There is no such agent.
            CheckpointCorrupted: A stored message cannot be read.
        """
        agent_session_id = self.load_session_id_of_agent(session_id, agent_id)

        def load_messages_of_agent() -> list[dict[str, Any]]:
            self._get_agent_document_or_raise(agent_session_id, session_id, agent_id)
            return message_list_without_lease.list_messages_of_newest_version(self.client.store, agent_session_id)

        decoded = [
            message_conversion.decode_message(message, number)
            for number, message in enumerate(self._run_blocking(load_messages_of_agent))
        ]
        return decoded[offset:] if limit is None else decoded[offset : offset + limit]

    # ---- graphs and swarms

    def create_multi_agent(self, session_id: str, multi_agent: Any, **kwargs: Any) -> None:
        """Store the state of a graph or a swarm. Raises `SessionException` without such a session."""
        self._save_multi_agent(session_id, multi_agent, must_exist=False)

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **kwargs: Any) -> dict[str, Any] | None:
        """Read the state of a graph or a swarm. Returns None if there is none."""
        name = _MULTI_AGENT + _validate_identifier(multi_agent_id)
        state = self._run_blocking(partial(self._load_document, _validate_identifier(session_id), name))
        return None if state is None else _remove_interrupts_if_all_answered(state)

    def update_multi_agent(self, session_id: str, multi_agent: Any, **kwargs: Any) -> None:
        """Replace the state of a graph or a swarm. Raises `SessionException` if there is none."""
        self._save_multi_agent(session_id, multi_agent, must_exist=True)

    def remember_calls_to_close_with_node_state(self, agent: Any, call_ids: Sequence[str]) -> None:
        """Remember the calls of an agent of a graph or a swarm, whose messages are in no session.

        They are closed together with the next state in which the node of the agent is completed: until then, the node
        would run again after a crash, and its calls be replayed.

        Args:
            agent: The agent.
            call_ids: Identifiers of the calls of an invocation that has ended.
        """
        self._finished_calls.setdefault(agent, []).extend(call_ids)

    def _save_multi_agent(self, session_id: str, multi_agent: Any, *, must_exist: bool) -> None:
        agents = [each for each in _iterate_agents_of_completed_nodes(multi_agent) if each in self._finished_calls]
        closed = [call_id for agent in agents for call_id in self._finished_calls[agent]]
        name, state = _MULTI_AGENT + _validate_identifier(multi_agent.id), multi_agent.serialize_state()

        def save_multi_agent_document(row: SessionRow) -> VersionContent:
            self._get_session_document_or_raise(session_id)
            if must_exist and self._load_document(session_id, name) is None:
                raise SessionException(f"MultiAgent state {multi_agent.id} in session {session_id} does not exist")
            self._save_document(row, name, state)
            return VersionContent(None, write_transcript_version.build_empty_call_results(closed))

        self._write_session_change_under_lock(_validate_identifier(session_id), save_multi_agent_document)
        for agent in agents:
            del self._finished_calls[agent]

    # ---- database

    def _load_document(self, session_id: str, name: str) -> Any:
        return framework_json_documents.load_document(self.client.store, session_id, _FRAMEWORK, name)

    def _save_document(self, row: SessionRow, name: str, value: Any) -> None:
        framework_json_documents.save_document(self.client.store, row, _FRAMEWORK, name, value)

    def _get_session_document_or_raise(self, session_id: str) -> dict[str, Any]:
        stored = self._load_document(session_id, _SESSION)
        if stored is None:
            raise SessionException(f"Session {session_id} does not exist")
        return dict(stored)

    def _get_agent_document_or_raise(self, agent_session_id: str, session_id: str, agent_id: str) -> dict[str, Any]:
        stored = self._load_document(agent_session_id, _AGENT + agent_id)
        if stored is None:
            raise SessionException(f"Agent {agent_id} in session {session_id} does not exist")
        return dict(stored)

    def _write_session_change_under_lock(
        self,
        session_id: str,
        build: Callable[[SessionRow], VersionContent | None],
        title: str = "",
        facts: dict[str, str] | None = None,
    ) -> None:
        """Change a session in one transaction, while no other thread of this client claims or releases it."""
        description = NewSessionFields(title, self._agent_name, framework=FRAMEWORK_NAME)

        def write_change_under_lock() -> None:
            claims = SessionClaims.get_for_client(self.client.sync)
            with claims.lock_session_claims(session_id):
                message_list_without_lease.write_next_version_built_by_callback(
                    self.client.store,
                    session_id,
                    description,
                    lambda row, _: build(row),
                    facts=facts,
                    pairings=claims.find_call_pairings_and_mark_for_reload(session_id),
                )

        self._run_blocking(write_change_under_lock)

    def _run_blocking(self, work: Callable[[], T]) -> T:
        """Run database work, also in a hook of an agent, which runs on the thread of an event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            if not isinstance(self.client.given, Checkpointer):
                return work()
            return asyncio.run(run_on_thread(self.client.given, work))
        return self._thread.submit(lambda: asyncio.run(run_on_thread(self.client.given, work))).result()


def _remove_interrupts_if_all_answered(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a graph or a swarm without interrupts, if it runs and all of them have their responses.

    A graph stores the interrupts that it was resumed from until the nodes after them have ended. If its process dies
    meanwhile, Strands would neither take a task nor run these nodes.
    """
    interrupts = _get_interrupt_state(state).get("interrupts", {}).values()
    if state.get("status") != Status.EXECUTING.value or any(each.get("response") is None for each in interrupts):
        return state
    return _copy_without_interrupts(state)


def _get_interrupt_state(record: dict[str, Any]) -> dict[str, Any]:
    return (record.get("_internal_state") or {}).get("interrupt_state") or {}


def _copy_without_interrupts(record: dict[str, Any]) -> dict[str, Any]:
    none = {"interrupts": {}, "context": {}, "activated": False}
    return {**record, "_internal_state": {**(record.get("_internal_state") or {}), "interrupt_state": none}}


def _iterate_agents_of_completed_nodes(multi_agent: Any) -> Iterator[Any]:
    """List the agents of a graph or a swarm whose nodes are completed. In a swarm, one node runs at a time."""
    nodes = getattr(multi_agent, "nodes", {}).values()
    completed = getattr(getattr(multi_agent, "state", None), "completed_nodes", nodes)
    for node in nodes:
        if node in completed:
            yield from _iterate_agents_of_executor(node.executor)


def _iterate_agents_of_executor(executor: Any) -> Iterator[Any]:
    """List the agent that a node has, or the agents of the graph or swarm that it has."""
    nodes = getattr(executor, "nodes", None)
    if nodes is None:
        yield executor
        return
    for node in nodes.values():
        yield from _iterate_agents_of_executor(node.executor)


def _get_agent_document_name(agent_path: str) -> str:
    return _AGENT + agent_path.rpartition("/")[2]


def _validate_identifier(name: str) -> str:
    """Validate an identifier of Strands, in which no path may be."""
    validate_id("identifier", name)
    if "/" in name:  # as Strands itself has it
        raise InvalidInput(f"The identifier {name[:40]!r} cannot contain a slash.")
    return name
