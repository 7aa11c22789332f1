"""Checkpointer for LangGraph on the sessions of this library: a thread is a session.

The states of a graph are stored as LangGraph's serializer gives them, lists by element. Beside them, each change of the
messages becomes a version with a readable transcript, which closes the guarded tool calls that it answers.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import islice
from threading import Lock
from typing import Any, Final, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_serializable_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME
from langgraph.types import Command, Interrupt

from checkpoints.adapters.garbage_collection_pause import pause_garbage_collection
from checkpoints.adapters.langgraph import (
    interrupt_and_decision_conversion,
    langchain_messages_to_transcript,
    message_list_cache,
)
from checkpoints.adapters.langgraph.message_list_cache import (
    EMPTY_LIST,
    CachedMessages,
    ChannelKey,
    ListMemory,
    MessageFields,
    SavedList,
)
from checkpoints.adapters.session_claims import SessionClaims
from checkpoints.adapters.sync_or_async_client import get_sync_client, run_on_thread
from checkpoints.async_client import Checkpointer
from checkpoints.calls import framework_interrupt_calls
from checkpoints.database_backend.database_client_backend import DatabaseBackend
from checkpoints.exceptions import CheckpointCorrupted, InvalidInput, OwnershipLost
from checkpoints.formats.canonical_json import parse_json
from checkpoints.framework_states import (
    find_decisions_or_discard_interrupt_calls,
    opaque_line_log,
    remove_and_copy_states,
    state_store,
)
from checkpoints.framework_states.state_store import GrownListNotStored, LoadedState, NewState, NewWrite
from checkpoints.framework_states.write_transcript_version import VersionContent
from checkpoints.models import FrameworkState, Session
from checkpoints.sessions import mark_or_require_session_framework, take_and_release_ownership
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store.call_intent_and_outcome_types import CallIntent
from checkpoints.store.database_client_state import Store
from checkpoints.sync_client import SyncCheckpointer
from checkpoints.tools.foreign_tool_guard import ToolPolicies
from checkpoints.versions.framework_value_blobs import (
    Encoded,
    EncodedValue,
    GrownList,
    NewElement,
    NewValue,
    StoredList,
    build_list_nodes,
    digest_element,
    patch_if_shorter,
)

T = TypeVar("T")
#: Name of the framework in errors and in the metadata of its sessions.
FRAMEWORK: Final = "LangGraph"
#: Metadata that names the channels whose values are rebuilt from the writes of earlier states.
_DELTA_KEY = "counters_since_delta_snapshot"
#: Parts of a state that are stored beside its body.
_OWN_COLUMNS = frozenset({"channel_values", "channel_versions"})
#: Parts of the body of a state that LangGraph needs.
_BODY_PARTS = frozenset({"v", "versions_seen"})
_PAGE_SIZE = 20
#: Number of states that a saver remembers as the newest ones.
_MAX_NEWEST = 10_000
#: Digits of the version of a channel.
_VERSION_WIDTH = 10
#: Field of a config by which LangGraph tells subgraphs when states are stored.
_DURABILITY_KEY = "__pregel_durability"
#: Field of the config of a task with the checkpointer of its graph.
_CHECKPOINTER_KEY = "__pregel_checkpointer"
#: Task of LangGraph that writes the input of a run.
NULL_TASK_ID = "00000000-0000-0000-0000-000000000000"
#: Number of checks, and seconds between two, for a state that another thread is about to store.
_STATE_POLLS, _STATE_POLL_SECONDS = 1_000, 0.01


class HarnessSaver(BaseCheckpointSaver[str]):
    """Checkpointer that stores the threads of graphs as sessions.

        with HarnessSaver.open("sqlite:///agent.db") as saver:
            agent = create_agent(model, tools, checkpointer=saver, middleware=[HarnessMiddleware(saver)])

    All methods of `BaseCheckpointSaver` are there, blocking and async. A write is refused with `SessionBusy` while a
    run of another client owns the session, and with `OwnershipLost` if another run has taken it from this client.
    """

    #: Whether a write is refused if the client does not own the session any more.
    _must_own = False

    def __init__(
        self,
        checkpointer: SyncCheckpointer | Checkpointer | None = None,
        *,
        serde: SerializerProtocol | None = None,
        agent: str = "langgraph",
        transcript_channel: str = "messages",
        policies: ToolPolicies | None = None,
        review_interrupts: bool = True,
    ) -> None:
        """Create a checkpointer.

        Args:
            checkpointer: Client of a database, blocking or async. None uses the `default` database of the project.
            serde: LangGraph serializer of states and values. None: LangGraph's own.
            agent: Name of the agent of new sessions, for lists and filters.
            transcript_channel: Channel of the root graph whose messages are the transcript.
            policies: Sentences, risks and deadlines of the calls that interrupts of the graph ask about, by patterns
                of tool names.
            review_interrupts: Whether these calls are in the review queue, where people decide about them.

        Raises:
            InvalidInput: The client is one of a server over HTTP.
        """
        super().__init__(serde=serde)
        self.checkpointer = SyncCheckpointer() if checkpointer is None else checkpointer
        if not isinstance(self.sync_checkpointer.backend, DatabaseBackend):
            raise InvalidInput("A checkpointer of LangGraph needs a database: a path, or a sqlite or postgresql URL.")
        self.agent = agent
        self.transcript_channel = transcript_channel
        self.policies = policies or ToolPolicies()
        self.review_interrupts = review_interrupts
        self._memory = ListMemory()
        #: States that were the newest of their thread and namespace when this saver loaded or stored them.
        self._newest: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        #: Namespaces of subgraphs that store their states here: each of them reads its newest state when it begins.
        self._used_namespaces: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._newest_lock = Lock()

    @classmethod
    @contextmanager
    def open(cls, url: str, **options: Any) -> Iterator[HarnessSaver]:
        """Open a database for a `with` block.

        Args:
            url: Path or URL of a database, as `SyncCheckpointer.open` takes it.
            options: Arguments of the class.

        Yields:
            The checkpointer. Its client is closed at the end.
        """
        with SyncCheckpointer.open(url) as checkpointer:
            yield cls(checkpointer, **options)

    @classmethod
    @asynccontextmanager
    async def aopen(cls, url: str, **options: Any) -> AsyncIterator[HarnessSaver]:
        """Open a database for an `async with` block.

        Args:
            url: Path or URL of a database, as `Checkpointer.open` takes it.
            options: Arguments of the class.

        Yields:
            The checkpointer. Its client is closed at the end.
        """
        async with Checkpointer.open(url) as checkpointer:
            yield cls(checkpointer, **options)

    @property
    def sync_checkpointer(self) -> SyncCheckpointer:
        """Blocking client of the same store."""
        return get_sync_client(self.checkpointer)

    @property
    def _session_claims(self) -> SessionClaims:
        return SessionClaims.get_for_client(self.sync_checkpointer)

    async def _run_blocking(self, work: Callable[[], T]) -> T:
        return await run_on_thread(self.checkpointer, work)

    # ---- reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the state of a config, or the newest one of its thread and namespace; None if there is none."""
        thread_id, namespace = _get_thread_and_namespace(config)
        self._remember_used_namespace(thread_id, namespace)
        store = self.sync_checkpointer.store
        known = self._memory.map_saved_lists_by_digest(thread_id, namespace)
        loaded = state_store.load_state(
            store, thread_id, namespace, get_checkpoint_id(config) or None, known=known.keys()
        )
        if loaded is None:
            return None
        if loaded.state_id == opaque_line_log.STATE_ID:  # of the Claude Agent SDK
            mark_or_require_session_framework.require_no_session_of_other_framework(store, thread_id, FRAMEWORK)
        self._remember_or_forget_newest_state(
            thread_id, namespace, loaded.state_id, is_newest=not get_checkpoint_id(config)
        )
        with pause_garbage_collection():
            found = self._build_checkpoint_tuple(loaded)
            values = found.checkpoint["channel_values"]
            for name, value in loaded.values.items():
                if isinstance(value, StoredList):
                    fields = message_list_cache.copy_message_fields(values[name])
                    stored = message_list_cache.build_messages_to_copy_for_loads(values[name], fields)
                    saved = _build_saved_list(values[name], fields, value.digests, stored)
                    self._memory.remember_or_forget_list((thread_id, namespace, name), saved)
            for name, root in loaded.known.items():
                copied = known[root].copy_with_own_messages()
                values[name] = list(copied.elements)
                self._memory.remember_or_forget_list((thread_id, namespace, name), copied)
        return found

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Iterate over states, newest first, whose metadata have all values of `filter`."""
        configurable = {} if config is None else config["configurable"]
        if config is not None:
            self._remember_used_namespace(*_get_thread_and_namespace(config))
        loaded = state_store.iterate_states(
            self.sync_checkpointer.store,
            None if config is None else str(configurable["thread_id"]),
            configurable.get("checkpoint_ns"),
            state_id=configurable.get("checkpoint_id") or None,
            before=None if before is None else get_checkpoint_id(before),
            matches=partial(self._matches_metadata, filter) if filter else None,
            limit=limit,
        )
        return map(self._build_checkpoint_tuple, loaded)

    def _matches_metadata(self, wanted: Mapping[str, Any], metadata: Encoded) -> bool:
        try:
            stored = self._decode_mapping_with_required_keys(metadata, "", "its metadata")
        except CheckpointCorrupted:
            return True  # building this state raises the error again, with its name
        return all(stored.get(key) == value for key, value in wanted.items())

    def _build_checkpoint_tuple(self, loaded: LoadedState) -> CheckpointTuple:
        values = {name: self._decode_value(value) for name, value in loaded.values.items()}
        name = f"the body of the state {loaded.state_id!r}"
        stored = self._decode_mapping_with_required_keys(loaded.body, loaded.session_id, name, _BODY_PARTS)
        if stored.get("id", loaded.state_id) != loaded.state_id:
            raise CheckpointCorrupted(loaded.session_id, name, f"it is that of the state {stored['id']!r}")
        checkpoint: Checkpoint = {
            **stored,
            "id": loaded.state_id,
            "channel_values": values,
            "channel_versions": loaded.versions,
        }
        parent = (
            _build_checkpoint_config(loaded.session_id, loaded.namespace, loaded.parent_id)
            if loaded.parent_id
            else None
        )
        return CheckpointTuple(
            _build_checkpoint_config(loaded.session_id, loaded.namespace, loaded.state_id),
            checkpoint,
            self._decode_mapping_with_required_keys(
                loaded.metadata, loaded.session_id, f"the metadata of the state {loaded.state_id!r}"
            ),
            parent,
            [(write.task_id, write.channel, self._decode_value(write.value)) for write in loaded.writes],
        )

    def _decode_mapping_with_required_keys(
        self, encoded: Encoded, session_id: str, name: str, required_keys: Collection[str] = ()
    ) -> Any:
        """Decode a mapping that has to have certain keys.

        Without a key of seals, nothing but this notices that somebody has changed it.
        """
        try:
            value = self.serde.loads_typed(encoded)
        except Exception as error:
            why = f"the serializer cannot read it: {type(error).__name__}: {error}"
            raise CheckpointCorrupted(session_id, name, why) from error
        if not isinstance(value, dict) or not value.keys() >= set(required_keys):
            raise CheckpointCorrupted(session_id, name, "the serializer reads something else")
        return value

    def _decode_value(self, value: EncodedValue) -> Any:
        if isinstance(value, tuple):
            return self.serde.loads_typed(value)
        return [self.serde.loads_typed(item) for item in value]

    def _encode_write_and_remember_messages(self, thread_id: str, namespace: str, value: Any) -> NewValue:
        """Encode what a task wrote, and remember the messages in it for the state that will have them."""
        if type(value) is not list:
            return self.serde.dumps_typed(value)
        elements = list(value)
        encoded = [self.serde.dumps_typed(item) for item in elements]
        written = self._memory.map_written_messages_by_identity(thread_id, namespace)
        self._memory.remember_encoded_values_of_messages(thread_id, namespace, zip(elements, encoded, strict=True))
        return _replace_already_written_messages_by_patches(elements, encoded, written)

    # ---- writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a state, and the version that shows its messages if they have changed.

        The calls of interrupts that the graph has left without an answer, by another input or a new state, are
        withdrawn. A session that was ready to resume is active again once a state of the root graph is stored that
        follows all of its interrupts.
        """
        try:
            self._store_state_and_version(config, checkpoint, metadata, new_versions)
        except GrownListNotStored:  # another process has removed the state before it
            for name in new_versions:
                self._memory.remember_or_forget_list((*_get_thread_and_namespace(config), name), None)
            self._store_state_and_version(config, checkpoint, metadata, new_versions)
        place = (*_get_thread_and_namespace(config), checkpoint["id"])
        self._remember_or_forget_newest_state(*place, is_newest=True)
        return _build_checkpoint_config(*place)

    def _store_state_and_version(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, versions: ChannelVersions
    ) -> None:
        thread_id, namespace = _get_thread_and_namespace(config)
        body = {name: value for name, value in checkpoint.items() if name not in _OWN_COLUMNS}
        values = checkpoint["channel_values"]
        stored_metadata = get_serializable_checkpoint_metadata(config, metadata)
        changed_values = {name: values[name] for name in versions if name in values}
        encoded = self._encode_values_and_remember_messages(thread_id, namespace, changed_values)
        new = NewState(
            namespace,
            checkpoint["id"],
            get_checkpoint_id(config) or "",
            str(stored_metadata.get("run_id") or ""),
            self.serde.dumps_typed(body),
            self.serde.dumps_typed(stored_metadata),
            checkpoint["channel_versions"],
            {name: value for name, (value, _) in encoded.items()},
            list(versions),
            list(stored_metadata.get(_DELTA_KEY) or ()),
        )
        known = {name: saved for name, (_, saved) in encoded.items() if saved is not None}
        transcript_list = known.get(self.transcript_channel) if not namespace else None

        def build_version_content(row: Session) -> VersionContent | None:
            return self._build_version_content(
                namespace,
                values,
                stored_metadata,
                checkpoint["id"],
                self._count_leading_messages_already_saved(row, transcript_list),
            )

        def discard_earlier_interrupts_or_activate_session(row: Session) -> None:
            # The tasks of subgraphs work on states that are later than that of the root graph.
            find_decisions_or_discard_interrupt_calls.discard_interrupts_before_state_or_activate_session(
                self.sync_checkpointer.store, row, checkpoint["id"], INTERRUPT, self._list_interrupt_key_prefixes
            )

        is_shown = self.transcript_channel in versions
        with self._session_claims.lock_session_claims(thread_id):
            chain = state_store.save_state_and_transcript_version(
                self.sync_checkpointer.store,
                thread_id,
                new,
                build_content=build_version_content if is_shown else None,
                description=self._build_session_description(values),
                must_own=self._must_own,
                discard_interrupts=None if namespace else discard_earlier_interrupts_or_activate_session,
            )
        for name, saved in known.items():
            self._memory.remember_or_forget_list((thread_id, namespace, name), saved)
        if is_shown and transcript_list is not None:
            self._memory.remember_transcript_digests(thread_id, chain, transcript_list.digests)

    def _encode_values_and_remember_messages(
        self, thread_id: str, namespace: str, values: Mapping[str, Any]
    ) -> dict[str, tuple[NewValue, SavedList | None]]:
        """Encode the values of channels as `_encode_new_elements_and_describe_list` does, and remember the messages."""
        written = self._memory.take_written_messages(thread_id, namespace)
        encoded = {
            name: self._encode_new_elements_and_describe_list((thread_id, namespace, name), value, written)
            for name, value in values.items()
        }
        for name, (value, _) in encoded.items():
            if isinstance(value, tuple):
                self._memory.remember_encoded_values_of_messages(
                    thread_id, namespace, _iterate_elements_with_encoded_input(values[name], value)
                )
        return encoded

    def _encode_new_elements_and_describe_list(
        self, channel_key: ChannelKey, value: Any, written: Mapping[int, tuple[Any, Encoded]]
    ) -> tuple[NewValue, SavedList | None]:
        """Encode a value, of a list that begins as a saved one only what is new; and describe the new list."""
        if type(value) is not list:
            return self.serde.dumps_typed(value), None
        elements = list(value)
        known = self._memory.find_saved_list_of_channel(channel_key)
        kept = 0 if known is None else known.count_unchanged_first_elements(elements)
        fields = message_list_cache.copy_message_fields(elements[kept:])
        encoded = [self.serde.dumps_typed(item) for item in elements[kept:]]
        decoded = [self.serde.loads_typed(item) for item in encoded]
        stored = message_list_cache.build_messages_to_copy_for_loads(
            decoded, message_list_cache.copy_message_fields(decoded)
        )
        added = _replace_already_written_messages_by_patches(elements[kept:], encoded, written)
        added_digests = list(map(digest_element, added))
        if known is None or not kept:
            return added, _build_saved_list(elements, fields, added_digests, stored)
        grown = GrownList(known.nodes.digest, known.get_nodes_of_first_elements(kept), added)
        nodes = grown.kept.build_extended_nodes_and_blobs(added_digests)[0]
        return grown, known.build_extended_list(kept, elements, fields, stored, added_digests, nodes)

    def _count_leading_messages_already_saved(self, row: Session, transcript_list: SavedList | None) -> int:
        """Return the number of messages that the newest version has, if the transcript of a list begins with it."""
        saved = self._memory.find_transcript_digests(row.session_id) if transcript_list is not None else None
        if saved is None or transcript_list is None or saved[0] != bytes(row.head_chain):
            return 0
        count = len(saved[1])
        return count if list(transcript_list.digests[:count]) == list(saved[1]) else 0

    def _build_session_description(self, values: Mapping[str, Any]) -> NewSessionFields:
        return NewSessionFields(
            langchain_messages_to_transcript.find_first_prompt_or_empty(values, self.transcript_channel),
            self.agent,
            framework=FRAMEWORK,
        )

    def _build_version_content(
        self,
        namespace: str,
        values: Mapping[str, Any],
        metadata: Mapping[str, Any],
        checkpoint_id: str,
        saved: int = 0,
    ) -> VersionContent | None:
        """Build the content of a version. The newest version has the first `saved` messages already."""
        said = values.get(self.transcript_channel)
        about = {"checkpoint_id": checkpoint_id, "source": metadata.get("source"), "step": metadata.get("step")}
        payload = {
            "langgraph": langchain_messages_to_transcript.convert_to_json_value(
                {**about, "namespace": namespace} if namespace else about
            )
        }
        if namespace:  # a subgraph has a transcript of its own; what it answers counts all the same
            answers = langchain_messages_to_transcript.filter_and_convert_tool_messages(said)
            return VersionContent(None, answers, payload) if answers else None
        transcript = langchain_messages_to_transcript.convert_to_transcript(
            said[saved:] if saved and isinstance(said, list) else said
        )
        if transcript is None:
            return None
        return (
            VersionContent(None, added=transcript, payload=payload)
            if saved
            else VersionContent(transcript, payload=payload)
        )

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote, and log the calls that an interrupt asks about in the review queue.

        The calls of interrupts that the program has answered are withdrawn: those of this task, or all by a new input.
        A session that pauses for a person, or one of whose tasks has failed, is released, unless one of its calls runs.
        """
        store = self.sync_checkpointer.store
        thread_id, namespace = _get_thread_and_namespace(config)
        checkpoint_id = str(config["configurable"]["checkpoint_id"])
        encoded = [
            NewWrite(
                WRITES_IDX_MAP.get(channel, position),
                channel,
                self._encode_write_and_remember_messages(thread_id, namespace, value),
            )
            for position, (channel, value) in enumerate(writes)
        ]
        channels = {channel for channel, _ in writes}
        requests = (
            self._wait_and_build_approval_intents_of_interrupts(config, dict(writes)[INTERRUPT])
            if INTERRUPT in channels
            else []
        )

        def discard_answered_calls(row: Session) -> None:
            if task_id == NULL_TASK_ID and RESUME in channels:  # a new input answers them all
                framework_interrupt_calls.discard_undecided_interrupt_calls(store, row)
            else:
                find_decisions_or_discard_interrupt_calls.discard_undecided_calls_of_task(
                    store,
                    row,
                    (namespace, checkpoint_id, task_id),
                    WRITES_IDX_MAP[INTERRUPT],
                    self._list_interrupt_key_prefixes,
                )

        with self._session_claims.lock_session_claims(thread_id):
            state_store.save_task_writes_and_interrupt_calls(
                store,
                thread_id,
                namespace,
                checkpoint_id,
                task_id,
                task_path,
                encoded,
                description=self._build_session_description(dict(writes)),
                requests=requests,
                must_own=self._must_own,
                withdraw_calls=None if channels & {INTERRUPT, ERROR} else discard_answered_calls,
            )
        if channels & {INTERRUPT, ERROR}:
            self._session_claims.release_session_now_or_when_idle(thread_id)

    def _wait_and_build_approval_intents_of_interrupts(
        self, config: RunnableConfig, value: object
    ) -> Sequence[CallIntent]:
        found = interrupt_and_decision_conversion.list_interrupts_not_by_guard(value) if self.review_interrupts else []
        if not found or _is_asked_again_by_root_graph(config):
            return []
        asked = (
            self._wait_for_state_and_get_messages_or_none(config)
            if any(map(interrupt_and_decision_conversion.identifies_calls_by_name_and_arguments, found))
            else None
        )
        version = self._wait_for_root_state_and_find_version_or_none(config)
        return [
            interrupt_and_decision_conversion.build_approval_intent(request, self.policies, version)
            for each in found
            for request in interrupt_and_decision_conversion.list_call_requests(each, asked)
        ]

    def _wait_for_root_state_and_find_version_or_none(self, config: RunnableConfig) -> int | None:
        """Return the version with the messages of the root graph when a task asked, as another thread may be about to
        store it.

        None if the state is unknown, or still not stored after the last poll.
        """
        thread_id, namespace = _get_thread_and_namespace(config)
        states = {**(config["configurable"].get("checkpoint_map") or {}), namespace: get_checkpoint_id(config)}
        for _ in range(_STATE_POLLS if states.get("") else 0):
            version = state_store.find_version_showing_state(
                self.sync_checkpointer.store, thread_id, "", str(states[""]), _read_root_graph_state_id_or_empty
            )
            if version is not None:
                return version
            time.sleep(_STATE_POLL_SECONDS)
        return None

    def _wait_for_state_and_get_messages_or_none(self, config: RunnableConfig) -> object:
        """Return the messages of the state that a task worked on, which another thread may be about to store.

        None if the state is still not stored after the last poll.
        """
        for _ in range(_STATE_POLLS):
            state = self.get_tuple(config)
            if state is not None:
                return state.checkpoint["channel_values"].get(self.transcript_channel)
            time.sleep(_STATE_POLL_SECONDS)
        return None

    def _list_interrupt_key_prefixes(self, values: Sequence[EncodedValue]) -> Collection[str]:
        """List the beginnings of the keys of the calls that writes to the channel of interrupts ask about."""
        found = [
            each
            for value in values
            for each in interrupt_and_decision_conversion.list_interrupts_not_by_guard(self._decode_value(value))
        ]
        return list(map(interrupt_and_decision_conversion.get_idempotency_key_prefix, found))

    def build_resume(self, config: RunnableConfig) -> Command[Any] | None:
        """Build the command that resumes a thread as people have decided, for the process that runs the graph.

            command = saver.build_resume(config)
            if command is not None:
                agent.invoke(command, config)

        Args:
            config: Config with the `thread_id`.

        Returns:
            The command; None while a person has to decide, or if the thread is not interrupted.

        Raises:
            InvalidInput: The graph does not accept the decision about a call.
            IntegrityError: A call or a decision is not one that this library wrote.
        """
        state = self.get_tuple(config)
        pending = [] if state is None else [value for _, name, value in state.pending_writes or () if name == INTERRUPT]
        found = [each for value in pending for each in value if isinstance(each, Interrupt)]
        asked = {
            each.id: interrupt_and_decision_conversion.list_call_requests(each)
            for each in found
            if not interrupt_and_decision_conversion.is_guard_interrupt(each)
        }
        keys = [request.key for requests in asked.values() for request in requests]
        decided = (
            find_decisions_or_discard_interrupt_calls.find_decisions_if_all_decided(
                self.sync_checkpointer.store, _get_thread_and_namespace(config)[0], keys
            )
            if found
            else None
        )
        if decided is None or not all(key in decided for key in keys):
            return None
        answers = {
            each.id: interrupt_and_decision_conversion.build_resume_value_of_interrupt(each, decided)
            if each.id in asked
            else True
            for each in found
        }
        return Command(resume=answers)

    def get_next_version(self, current: str | int | float | None, channel: None) -> str:
        """Return a version above `current`: a number, and a random part that keeps branches of a thread apart.

        Each state repeats the versions of all channels several times, so they are shorter than those of LangGraph.
        """
        number = 0 if current is None else int(str(current).split(".", maxsplit=1)[0])
        width = _VERSION_WIDTH if current is None else len(str(current).split(".", maxsplit=1)[0])
        return f"{number + 1:0{width}}.{random.getrandbits(32):08x}"

    # ---- removing and copying

    def delete_thread(self, thread_id: str) -> None:
        """Delete the session of a thread. Raises `StillNeeded` while a person has to decide about a guarded call."""
        with self._session_claims.lock_session_claims(str(thread_id)):
            find_decisions_or_discard_interrupt_calls.discard_all_undecided_calls(
                self.sync_checkpointer.store, str(thread_id)
            )
            remove_and_copy_states.release_and_delete_session(self.sync_checkpointer.store, str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the states of runs with their writes. Transcripts and calls stay."""
        store, wanted = self.sync_checkpointer.store, {str(run_id) for run_id in run_ids}

        def select_states_of_runs(states: Sequence[FrameworkState]) -> Collection[FrameworkState]:
            return [state for state in states if state.run_key in wanted]

        for session_id in remove_and_copy_states.find_session_ids_of_framework_runs(store, wanted):
            with self._session_claims.lock_session_claims(session_id):
                remove_and_copy_states.delete_selected_states(store, session_id, select_states_of_runs)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all states of a thread into another one. Calls are not copied: `fork_session` does that.

        Raises `SessionNotFound` without the source, and `SessionExists` if the target has states.
        """
        store, target = self.sync_checkpointer.store, str(target_thread_id)

        def build_version_content_of_copy() -> VersionContent | None:
            newest = self.get_tuple(_build_checkpoint_config(target, "", ""))
            if newest is None:
                return None
            return self._build_version_content(
                "", newest.checkpoint["channel_values"], newest.metadata, newest.checkpoint["id"]
            )

        with self._session_claims.lock_session_claims(target):
            remove_and_copy_states.copy_states_to_session(
                store, str(source_thread_id), target, build_version_content_of_copy
            )

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete the states of threads: all with `delete`; with `keep_latest` all but those a resume needs.

        A resume needs the newest state of each namespace, and those before it from which the values of its delta
        channels are rebuilt. Transcripts and calls stay.
        """
        if strategy not in {"keep_latest", "delete"}:
            raise InvalidInput(f"{strategy!r} is not a strategy. Use 'keep_latest' or 'delete'.")
        if strategy == "keep_latest":
            delete: Callable[[Store, str], int] = remove_and_copy_states.delete_superseded_states
        else:
            delete = remove_and_copy_states.delete_selected_states
        for thread_id in map(str, thread_ids):
            with self._session_claims.lock_session_claims(thread_id):
                delete(self.sync_checkpointer.store, thread_id)

    # ---- ownership

    def _remember_or_forget_newest_state(
        self, thread_id: str, namespace: str, state_id: str, *, is_newest: bool
    ) -> None:
        """Note that a state was the newest one; or that a run goes back to it, behind which newer ones may be."""
        with self._newest_lock:
            self._newest.pop((thread_id, namespace, state_id), None)
            if is_newest:
                self._newest[thread_id, namespace, state_id] = None
            while len(self._newest) > _MAX_NEWEST:
                self._newest.popitem(last=False)

    def _remember_used_namespace(self, thread_id: str, namespace: str) -> None:
        if not namespace:
            return
        with self._newest_lock:
            self._used_namespaces[thread_id, namespace] = None
            while len(self._used_namespaces) > _MAX_NEWEST:
                self._used_namespaces.popitem(last=False)

    def iterate_pauses_until_states_are_stored(self, config: RunnableConfig) -> Iterator[float]:
        """Wait until the states in which a task runs are stored, as another thread may be about to do.

        With `durability="async"` a task starts before. With `"exit"` the states are stored at the end, and nothing is
        waited for. A state that is not stored after the last poll is not waited for any longer.

        Args:
            config: Config of the task.

        Yields:
            Seconds to wait before the next poll.
        """
        for _ in range(_STATE_POLLS):
            if not self.is_about_to_store_state_of_task(config):
                return
            yield _STATE_POLL_SECONDS

    def is_about_to_store_state_of_task(self, config: RunnableConfig) -> bool:
        """Return whether a state in which a task runs will be stored and is not yet.

        Args:
            config: Config of the task.

        Returns:
            False with `durability="exit"` too, and if the graph has another checkpointer.
        """
        configurable = config["configurable"]
        is_of_saver = isinstance(configurable.get(_CHECKPOINTER_KEY), HarnessSaver)
        if not is_of_saver or configurable.get(_DURABILITY_KEY) == "exit":
            return False
        thread_id = str(configurable["thread_id"])
        for namespace, state_id in (configurable.get("checkpoint_map") or {}).items():
            with self._newest_lock:
                is_known = (thread_id, namespace, state_id) in self._newest
                # A subgraph may have no checkpointer; the root graph has that of its tasks.
                is_of_graph_with_saver = not namespace or (thread_id, namespace) in self._used_namespaces
            if is_known or not is_of_graph_with_saver:
                continue
            if not state_store.has_state(self.sync_checkpointer.store, thread_id, namespace, state_id):
                return True
        return False

    def require_no_newer_state(self, thread_id: str, states: Mapping[str, str]) -> None:
        """Require that nobody else has continued a thread from the states in which a task runs.

        Args:
            thread_id: Identifier of the thread.
            states: Identifiers of the states of the root graph and its subgraphs, by namespace.

        Raises:
            OwnershipLost: Another run has continued from one of them.
        """
        store = self.sync_checkpointer.store
        for namespace, state_id in states.items():
            with self._newest_lock:
                is_known = (thread_id, namespace, state_id) in self._newest
            if is_known and state_store.has_newer_state(store, thread_id, namespace, state_id):
                raise OwnershipLost(thread_id)

    def claim_write_ownership(self, thread_id: str) -> OwnedThreadSaver:
        """Become the only writer of a thread. The one before it gets `OwnershipLost` from then on.

        Args:
            thread_id: Identifier of the thread.

        Returns:
            A saver whose writes to the thread are accepted while it is the owner. Its client is one of its own.

        Raises:
            ReviewRequired: A person has to decide about interrupted calls first.
            ApprovalRequired: A person has to approve calls first.
            SessionFinished: The session has ended.
        """
        return OwnedThreadSaver(self, str(thread_id))

    async def aclaim_write_ownership(self, thread_id: str) -> OwnedThreadSaver:
        """Become the only writer of a thread, async. The rest is as in `claim_write_ownership`."""
        return await self._run_blocking(partial(self.claim_write_ownership, thread_id))

    # ---- async twins

    async def abuild_resume(self, config: RunnableConfig) -> Command[Any] | None:
        """Build the command that resumes a thread, async. Argument, result and errors are those of `build_resume`."""
        return await self._run_blocking(partial(self.build_resume, config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._run_blocking(partial(self.get_tuple, config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        tuples = self.list(config, filter=filter, before=before, limit=limit)
        while page := await self._run_blocking(lambda: [*islice(tuples, _PAGE_SIZE)]):
            for each in page:
                yield each

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await self._run_blocking(partial(self.put, config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self._run_blocking(partial(self.put_writes, config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._run_blocking(partial(self.delete_thread, thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._run_blocking(partial(self.delete_for_runs, run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._run_blocking(partial(self.copy_thread, source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._run_blocking(partial(self.prune, thread_ids, strategy=strategy))


class OwnedThreadSaver(HarnessSaver):
    """Saver that owns one thread, as its only writer, until another one claims the thread or `release` ends that."""

    _must_own = True

    def __init__(self, saver: HarnessSaver, thread_id: str) -> None:
        """Claim a thread; `HarnessSaver.claim_write_ownership` does that.

        Args:
            saver: Saver of the same database.
            thread_id: Identifier of the thread.
        """
        store = saver.sync_checkpointer.store
        super().__init__(
            type(saver.checkpointer)(
                using=store.using, workspace=store.workspace, lease_seconds=store.lease.total_seconds()
            ),
            serde=saver.serde,
            agent=saver.agent,
            transcript_channel=saver.transcript_channel,
            policies=saver.policies,
            review_interrupts=saver.review_interrupts,
        )
        self.thread_id = thread_id
        self._session_claims.claim_session_permanently(
            thread_id,
            NewSessionFields(agent=self.agent, framework=FRAMEWORK),
            takeover="another writer claimed the thread",
        )

    def check_write_ownership(self) -> None:
        """Check that no other writer has claimed the thread. Raises `OwnershipLost`."""
        store = self.sync_checkpointer.store
        owned_session = store.find_owned_session(self.thread_id)
        if owned_session is None or not take_and_release_ownership.touch_session_if_still_owner(store, owned_session):
            raise OwnershipLost(self.thread_id)

    async def acheck_write_ownership(self) -> None:
        """Check that no other writer has claimed the thread, async. Raises `OwnershipLost`."""
        await self._run_blocking(self.check_write_ownership)

    def release(self) -> None:
        """Release the thread, so that any process may write to it."""
        self._session_claims.end_permanent_claim(self.thread_id)

    async def arelease(self) -> None:
        """Release the thread, async."""
        await self._run_blocking(self.release)


def _iterate_elements_with_encoded_input(value: Any, encoded: Encoded) -> Iterator[tuple[Any, Encoded]]:
    """Iterate over the lists' elements of an input, each with the encoded input."""
    for items in value.values() if isinstance(value, dict) else ():
        for item in items if isinstance(items, list) else ():
            yield item, encoded


def _replace_already_written_messages_by_patches(
    elements: Sequence[Any], encoded: Sequence[Encoded], written: Mapping[int, tuple[Any, Encoded]]
) -> list[NewElement]:
    """Return encoded elements, those that were written before as patches.

    A reducer gives a message its identifier, so a task's write and the state differ in that.
    """
    return [
        patch_if_shorter(value, written[id(element)][1]) if id(element) in written else value
        for element, value in zip(elements, encoded, strict=True)
    ]


def _build_saved_list(
    elements: Sequence[Any],
    fields: MessageFields | None,
    element_digests: Sequence[str],
    stored: CachedMessages | None,
) -> SavedList | None:
    """Describe a list with the digests of its elements, and with what a load gives of them."""
    nodes = build_list_nodes(element_digests)
    return EMPTY_LIST.build_extended_list(0, elements, fields, stored, element_digests, nodes)


def _is_asked_again_by_root_graph(config: RunnableConfig) -> bool:
    """Return whether a subgraph asks, and the root graph stores the state before it at the end, with the question."""
    return bool(_get_thread_and_namespace(config)[1]) and config["configurable"].get(_DURABILITY_KEY) == "exit"


def _read_root_graph_state_id_or_empty(payload: str) -> str:
    """Read which state of the root graph a version shows; empty if it is of another program or of a subgraph."""
    value = parse_json(payload)
    about = value.get("langgraph") if isinstance(value, dict) else None
    if not isinstance(about, dict) or about.get("namespace"):
        return ""
    return str(about.get("checkpoint_id") or "")


def _get_thread_and_namespace(config: RunnableConfig) -> tuple[str, str]:
    configurable = config["configurable"]
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns") or ""


def _build_checkpoint_config(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    place = {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}
    return {"configurable": place}
