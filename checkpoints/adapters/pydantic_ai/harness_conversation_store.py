"""Store for the conversations of Pydantic AI: a conversation is a session, an entry is a message of its transcript."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from decimal import Decimal
from functools import partial
from typing import Any, Final, TypeVar

from pydantic_ai.agent import AgentRunResult
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

from checkpoints.adapters.pydantic_ai import message_and_record_codec
from checkpoints.adapters.session_claims import SessionClaims
from checkpoints.adapters.sync_or_async_client import get_sync_client, run_on_thread
from checkpoints.async_client import Checkpointer
from checkpoints.database_backend.database_client_backend import DatabaseBackend
from checkpoints.exceptions import InvalidInput
from checkpoints.framework_states import conversation_log
from checkpoints.framework_states.conversation_log import LogConflict, NewRecord, StoredRecord
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store.version_state_types import UNCHANGED, Unchanged
from checkpoints.sync_client import SyncCheckpointer

T = TypeVar("T")
#: Name of the framework in errors and in the metadata of its sessions.
FRAMEWORK_NAME: Final = "Pydantic AI"
#: Namespace of the records.
_FRAMEWORK = "pydantic_ai"
#: Number of conversations whose records are kept, so that the next save of one need not read it.
_MAX_RECORDS: Final = 256
#: Revision of the conversation that the current task saves.
_saved_revision: ContextVar[str | None] = ContextVar("saved_revision", default=None)


class HarnessConversationStore(ConversationStore):
    """Store that keeps conversations as sessions.

        store = HarnessConversationStore(checkpointer)
        conversation = await store.load("order-17") or Conversation(conversation_id="order-17")
        result = await agent.run("Please refund order 17.", conversation=conversation)
        await store.save(result)

    A save is one transaction, so that a conflict leaves nothing. It is refused with `SessionBusy` while a run of
    another client owns the session. A deleted conversation takes with it all messages that no fork has in its history.
    """

    def __init__(
        self, checkpointer: SyncCheckpointer | Checkpointer | None = None, *, agent: str = "pydantic-ai"
    ) -> None:
        """Create a store.

        Args:
            checkpointer: Client of a database, blocking or async. None uses the `default` database of the project.
            agent: Name of the agent of new sessions, for lists and filters.

        Raises:
            InvalidInput: The client is one of a server over HTTP.
        """
        self.checkpointer = SyncCheckpointer() if checkpointer is None else checkpointer
        if not isinstance(self.sync_checkpointer.backend, DatabaseBackend):
            raise InvalidInput("A store of conversations needs a database: a path, or a sqlite or postgresql URL.")
        self.agent = agent
        #: Records as this store has written them last, by conversation.
        self._written: OrderedDict[str, StoredRecord] = OrderedDict()

    @classmethod
    @contextmanager
    def open(cls, url: str, **options: Any) -> Iterator[HarnessConversationStore]:
        """Open a database for a `with` block.

        Args:
            url: Path or URL of a database, as `SyncCheckpointer.open` takes it.
            options: Arguments of the class.

        Yields:
            The store. Its client is closed at the end.
        """
        with SyncCheckpointer.open(url) as checkpointer:
            yield cls(checkpointer, **options)

    @classmethod
    @asynccontextmanager
    async def aopen(cls, url: str, **options: Any) -> AsyncIterator[HarnessConversationStore]:
        """Open a database for an `async with` block. Arguments and result are those of `open`."""
        async with Checkpointer.open(url) as checkpointer:
            yield cls(checkpointer, **options)

    @property
    def sync_checkpointer(self) -> SyncCheckpointer:
        """Blocking client of the database."""
        return get_sync_client(self.checkpointer)

    async def save(
        self, conversation: Conversation | AgentRunResult[Any], *, scope: str | None = None
    ) -> list[ConversationEntry]:
        saved = conversation.conversation if isinstance(conversation, AgentRunResult) else conversation
        token = _saved_revision.set(saved.revision)
        try:
            return await super().save(conversation, scope=scope)
        finally:
            _saved_revision.reset(token)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        store = self.sync_checkpointer.store
        stored = self._take_cached_record_of_saved_revision(conversation_id)
        if stored is None:
            stored = await self._run_blocking(
                partial(conversation_log.read_conversation_record, store, _FRAMEWORK, conversation_id)
            )
        return None if stored is None else message_and_record_codec.decode_conversation_record(stored)

    def _take_cached_record_of_saved_revision(self, conversation_id: str) -> StoredRecord | None:
        """Return the record that this store has written last, for the first read of a save of its revision.

        A record of one revision never changes, and the write at the end of the save refuses another revision.
        """
        revision = _saved_revision.get()
        if revision is None:
            return None
        record, store = self._written.pop(conversation_id, None), self.sync_checkpointer.store
        if record is None or record.revision != revision:
            return None
        is_known = conversation_log.is_cached_record_writable_at_revision(store, _FRAMEWORK, conversation_id, revision)
        return record if is_known else None

    async def find_revision(self, conversation_id: str) -> str | None:
        """Return the revision of a conversation, which each save changes; None if it was never saved."""
        stored = await self._run_blocking(
            partial(
                conversation_log.read_conversation_record, self.sync_checkpointer.store, _FRAMEWORK, conversation_id
            )
        )
        return None if stored is None else stored.revision

    def find_revision_written_by_this_store(self, conversation_id: str) -> str | None:
        """Return the revision that this store has written last."""
        written = self._written.get(conversation_id)
        return None if written is None else written.revision

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        stored = await self._run_blocking(
            partial(conversation_log.read_workspace_conversation_records, self.sync_checkpointer.store, _FRAMEWORK)
        )
        records = [message_and_record_codec.decode_conversation_record(record) for record in stored]
        chosen = [record for record in records if scope is None or record.scope == scope]
        chosen.sort(key=lambda record: record.updated_at, reverse=True)
        return chosen[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        new = NewRecord(
            _FRAMEWORK,
            record.revision,
            message_and_record_codec.encode_record(record),
            record.head_id,
            _convert_usage_to_dict(record),
            _get_cost_or_unchanged(record),
            [call.tool_call_id for call in requests.calls] if (requests := record.deferred_tool_requests) else (),
        )
        entries = message_and_record_codec.encode_entries(new_entries)
        title = message_and_record_codec.find_first_prompt_or_empty(entry.message for entry in new_entries)
        description = NewSessionFields(title, self.agent, framework=FRAMEWORK_NAME)

        def write_record_under_lock() -> None:
            claims = SessionClaims.get_for_client(self.sync_checkpointer)
            with claims.lock_session_claims(record.conversation_id):
                conversation_log.write_record_and_entries(
                    self.sync_checkpointer.store,
                    record.conversation_id,
                    new,
                    entries,
                    expected_revision=expected_revision,
                    description=description,
                    pairings=claims.find_call_pairings_and_mark_for_reload(record.conversation_id),
                )
                claims.forget_call_pairings(record.conversation_id)

        try:
            await self._run_blocking(write_record_under_lock)
        except LogConflict as error:
            raise ConversationConflict(record.conversation_id) from error
        self._written[record.conversation_id] = StoredRecord(record.conversation_id, record.revision, new.content)
        while len(self._written) > _MAX_RECORDS:
            self._written.popitem(last=False)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        def delete_conversation_under_lock() -> None:
            with SessionClaims.get_for_client(self.sync_checkpointer).lock_session_claims(conversation_id):
                conversation_log.delete_conversation_and_session(
                    self.sync_checkpointer.store, _FRAMEWORK, conversation_id, expected_revision=expected_revision
                )

        try:
            await self._run_blocking(delete_conversation_under_lock)
        except LogConflict as error:
            raise ConversationConflict(conversation_id) from error

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        stored = await self._run_blocking(partial(conversation_log.read_entry, self.sync_checkpointer.store, entry_id))
        return message_and_record_codec.decode_entries([stored])[0]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        if head_id is None or limit == 0:
            return []
        store = self.sync_checkpointer.store
        stored = await self._run_blocking(partial(conversation_log.read_entries_up_to, store, head_id, limit=limit))
        return message_and_record_codec.decode_entries(stored)

    async def _run_blocking(self, work: Callable[[], T]) -> T:
        return await run_on_thread(self.checkpointer, work)


def _convert_usage_to_dict(record: ConversationRecord) -> dict[str, Any]:
    usage = record.usage
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "requests", "tool_calls")
    return {name: getattr(usage, name) for name in names if name.endswith("put_tokens") or getattr(usage, name)}


def _get_cost_or_unchanged(record: ConversationRecord) -> Decimal | Unchanged:
    return UNCHANGED if record.usage.cost is None else record.usage.cost
