"""The store of conversations: equal to the one in memory, atomic, and readable as a session."""

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent, BinaryImage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, SystemPromptPart, ThinkingPart, UserPromptPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage, RunUsage

from checkpoints import Checkpointer, SyncCheckpointer
from checkpoints.adapters.pydantic_ai import HarnessConversationStore
from checkpoints.exceptions import CheckpointCorrupted, InvalidInput, NotRepresentable, SessionBusy
from checkpoints.formats import parse_json, to_canonical_json
from checkpoints.models import FrameworkState, Message, Segment, Session
from tests.adapters import other_processes
from tests.conftest import StartChild
from tests.support.database_cleanup import delete_test_rows
from tests.support.processes import database_url

Open = Callable[..., SyncCheckpointer]
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


def _ask(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text, timestamp=NOON)])


def _answer(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)], timestamp=NOON)


def _save(store: ConversationStore, conversation_id: str, messages: list[ModelMessage], **options: Any) -> Conversation:
    conversation = Conversation(conversation_id=conversation_id, messages=messages)
    asyncio.run(store.save(conversation, **options))
    return conversation


def _load_transcript(cp: SyncCheckpointer, session_id: str) -> list[dict[str, Any]]:
    latest = cp.load_latest(session_id)
    assert latest is not None
    return latest["transcript"]


# the same as in memory

TEXTS = st.text(max_size=12)
MESSAGES = st.one_of(
    st.builds(_ask, TEXTS),
    st.builds(_answer, TEXTS),
    st.builds(
        lambda call_id, args: ModelResponse(parts=[ToolCallPart("refund", args, call_id)], timestamp=NOON),
        st.sampled_from(["a", "b"]),
        st.one_of(
            st.none(),
            st.just("{oh"),
            st.dictionaries(TEXTS, st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS),
        ),
    ),
    st.builds(
        lambda call_id, content: ModelRequest(parts=[ToolReturnPart("refund", content, call_id, timestamp=NOON)]),
        st.sampled_from(["a", "b"]),
        st.one_of(TEXTS, st.lists(st.integers()), st.dictionaries(TEXTS, st.booleans())),
    ),
)
NAMES, SCOPES, NUMBERS = st.sampled_from(["one", "two", "three"]), st.sampled_from([None, "x", "y"]), st.integers(0, 5)
STEPS = st.one_of(
    st.tuples(st.just("append"), NAMES, st.lists(MESSAGES, max_size=3), SCOPES, st.booleans()),
    st.tuples(st.just("rewrite"), NAMES, NUMBERS, MESSAGES, SCOPES),
    st.tuples(st.just("save_again"), NAMES, NUMBERS),
    st.tuples(st.just("branch"), NAMES, NUMBERS, st.booleans(), SCOPES),
    st.tuples(st.just("fork"), NAMES, NUMBERS, st.booleans(), NAMES, SCOPES),
    st.tuples(st.just("delete"), NAMES, SCOPES),
    st.tuples(st.just("load"), NAMES, st.none() | st.integers(-1, 4), SCOPES),
    st.tuples(st.just("list_all"), SCOPES, st.none() | st.integers(-1, 2)),
)


class _Player:
    """Plays steps on one store, and describes what came of them without the identifiers that it made up."""

    def __init__(self, store: ConversationStore) -> None:
        self.store = store
        self.entry_ids: list[str] = []
        self.kept: list[Conversation] = []
        self.shown: dict[str | None, str | None] = {None: None}
        self.numbers = count(1)

    async def play(self, step: tuple[Any, ...]) -> Any:
        try:
            return await getattr(self, step[0])(*step[1:])
        except (UserError, LookupError) as error:
            return type(error).__name__

    async def append(self, name: str, new: list[ModelMessage], scope: str | None, serialized: bool) -> Any:
        conversation = await self.store.load(name, scope=scope)
        conversation = conversation or Conversation(conversation_id=name)
        conversation.messages.extend(new)
        conversation.usage.requests += len(new)
        if serialized:  # the store has to compare
            conversation.new_message_index = None
        return await self._save(conversation, scope)

    async def rewrite(self, name: str, at: int, message: ModelMessage, scope: str | None) -> Any:
        conversation = await self.store.load(name)
        if conversation is None:
            return None
        conversation.messages[at : at + 2] = [message]
        conversation.new_message_index = None
        return await self._save(conversation, scope)

    async def save_again(self, name: str, number: int) -> Any:
        """Save a conversation as it was before: it may be an old one."""
        if not self.kept:
            return None
        conversation = self.kept[number % len(self.kept)]
        conversation.messages.append(_answer(name))
        return await self._save(conversation, None)

    async def _save(self, conversation: Conversation, scope: str | None) -> Any:
        self.kept.append(conversation)
        entries = await self.store.save(conversation, scope=scope)
        self.entry_ids += [entry.id for entry in entries]
        return self._describe_entries(entries)

    async def branch(self, name: str, at: int, by_entry: bool, scope: str | None) -> Any:
        record = await self.store.read_record(name)
        place = self._choose_place(at, by_entry)
        revision = None if record is None else record.revision
        branched = await self.store.branch(name, **place, expected_revision=revision, scope=scope)
        self.kept.append(branched)
        return self._describe_conversation(branched)

    async def fork(self, name: str, at: int, by_entry: bool, new_name: str, scope: str | None) -> Any:
        place = self._choose_place(at, by_entry)
        forked = await self.store.fork(name, **place, new_conversation_id=new_name, scope=scope)
        self.kept.append(forked)
        return self._describe_conversation(forked)

    def _choose_place(self, number: int, by_entry: bool) -> dict[str, Any]:
        if by_entry and self.entry_ids:
            return {"from_entry": self.entry_ids[number % len(self.entry_ids)]}
        return {"at": number}

    async def delete(self, name: str, scope: str | None) -> None:
        await self.store.delete(name, scope=scope)

    async def load(self, name: str, limit: int | None, scope: str | None) -> Any:
        entries = await self.store.load_entries(name, limit=limit, scope=scope)
        conversation = await self.store.load(name, limit=limit, scope=scope)
        if entries is None or conversation is None:
            return None
        for entry in entries[-1:]:
            assert await self.store.read_entry(entry.id) == entry
        return self._describe_entries(entries), self._describe_conversation(conversation)

    async def list_all(self, scope: str | None, limit: int | None) -> Any:
        records = await self.store.list_conversations(scope=scope, limit=limit)
        return [self._describe_record(record) for record in records]

    def _show(self, token: str | None) -> str | None:
        if token not in self.shown:
            self.shown[token] = f"#{next(self.numbers)}"
        return self.shown[token]

    def _describe_entries(self, entries: list[ConversationEntry]) -> Any:
        return [(self._show(entry.id), self._show(entry.parent_id), entry.message) for entry in entries]

    def _describe_conversation(self, conversation: Conversation) -> Any:
        return conversation.messages, conversation.usage, self._show(conversation.revision)

    def _describe_record(self, record: ConversationRecord) -> Any:
        tokens = (record.revision, record.head_id, record.forked_at, *record.branches)
        about = (record.conversation_id, record.scope, record.usage, record.forked_from)
        return *about, [self._show(token) for token in tokens]


LAST_STEPS = [("list_all", None, None), *(("load", name, None, None) for name in ("one", "two", "three"))]


@settings(max_examples=25)
@given(program=st.lists(STEPS, max_size=10))
def test_every_program_gives_the_same_as_in_memory(workspace: object, program: list[Any]) -> None:
    delete_test_rows()

    async def play() -> None:
        ours, theirs = _Player(HarnessConversationStore()), _Player(InMemoryConversationStore())
        for step in [*program, *LAST_STEPS]:
            assert await ours.play(step) == await theirs.play(step), step

    asyncio.run(play())


# one transaction


def test_one_of_eight_savers_wins_and_leaves_no_entry_of_the_others(open_checkpointer: Open) -> None:
    first = HarnessConversationStore(open_checkpointer())
    _save(first, "c", [_ask("Hello")])
    loaded = [asyncio.run(first.load("c")) for _ in range(8)]
    start = threading.Barrier(8)
    results: list[list[str] | None] = []

    def save(number: int) -> None:
        store = HarnessConversationStore(open_checkpointer())
        conversation = loaded[number]
        assert conversation is not None
        conversation.messages += [_answer(f"{number}a"), _ask(f"{number}b")]
        start.wait()
        try:
            results.append([entry.id for entry in asyncio.run(store.save(conversation))])
        except ConversationConflict:
            results.append(None)

    threads = [threading.Thread(target=save, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won = [result for result in results if result is not None]
    assert (len(results), len(won)) == (8, 1)
    assert list(Message.objects.order_by("position").values_list("message_id", flat=True))[1:] == won[0]
    assert Message.objects.count() == 3


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (other_processes.save_conversation_without_new_messages, "conversation_id"),
        (other_processes.delete_all_states, "session_id"),
    ],
)
def test_a_record_that_another_process_has_replaced_or_removed_is_a_conflict(
    cp: SyncCheckpointer, start_child: StartChild, change: Callable[..., object], place: str
) -> None:
    store = HarnessConversationStore(cp)
    conversation = _save(store, "c", [_ask("Hello")])
    conversation.messages.append(_answer("Yes?"))
    asyncio.run(store.save(conversation))  # the store knows the conversation from then on
    start_child(change, url=database_url(), **{place: "c"}).result()
    after = asyncio.run(store.read_record("c"))

    conversation.messages.append(_ask("late"))
    with pytest.raises(ConversationConflict):
        asyncio.run(store.save(conversation))

    assert asyncio.run(store.read_record("c")) == after
    assert Message.objects.count() == 2


def test_a_conversation_that_another_client_has_deleted_is_a_conflict(
    cp: SyncCheckpointer, open_checkpointer: Open
) -> None:
    store, other = HarnessConversationStore(cp), HarnessConversationStore(open_checkpointer())
    conversation = _save(store, "c", [_ask("Hello")])
    conversation.messages.append(_answer("Yes?"))
    asyncio.run(store.save(conversation))
    asyncio.run(other.delete("c"))
    conversation.messages.append(_ask("late"))
    conversation.new_message_index = None  # the whole history is compared
    with pytest.raises(ConversationConflict):
        asyncio.run(store.save(conversation))
    assert Session.objects.count() == 0


def test_a_conflict_of_a_new_conversation_leaves_no_session(cp: SyncCheckpointer) -> None:
    store = HarnessConversationStore(cp)
    record = ConversationRecord(conversation_id="new", head_id="gone")
    entry = ConversationEntry(parent_id=None, message=_ask("Hello"))
    with pytest.raises(ConversationConflict):
        asyncio.run(store.write_record(record, new_entries=[entry], expected_revision=None))
    with pytest.raises(ConversationConflict):
        asyncio.run(store.write_record(record, expected_revision="old"))
    assert (Session.objects.count(), Message.objects.count(), Segment.objects.count()) == (0, 0, 0)


def test_entries_that_do_not_follow_each_other_are_all_found(cp: SyncCheckpointer) -> None:
    store = HarnessConversationStore(cp)
    first = ConversationEntry(parent_id=None, message=_ask("first"))
    left, right = (ConversationEntry(parent_id=first.id, message=_answer(side)) for side in ("left", "right"))
    record = ConversationRecord(conversation_id="c", head_id=left.id)
    asyncio.run(store.write_record(record, new_entries=[first, left, right], expected_revision=None))
    assert asyncio.run(store.read_history(left.id)) == [first, left]
    assert asyncio.run(store.read_history(right.id)) == [first, right]
    assert [message["id"] for message in _load_transcript(cp, "c")] == [first.id, left.id]


def test_a_turn_after_thousands_of_messages_writes_and_reads_no_more(cp: SyncCheckpointer) -> None:
    store = HarnessConversationStore(cp)

    def count_queries(length: int) -> tuple[int, int]:
        name = f"of {length}"
        _save(store, name, [_ask("Hello") for _ in range(length)])
        conversation = asyncio.run(store.load(name, limit=4))
        assert conversation is not None
        conversation.messages += [_ask("And now?"), _answer("Now it is done.")]
        before = Message.objects.count()
        with CaptureQueriesContext(connection) as queries:
            _save_in_this_thread(store, conversation)
        return len(queries), Message.objects.count() - before

    short = count_queries(10)
    assert count_queries(2_000) == short
    assert short[1] == 2
    assert len(asyncio.run(store.load("of 2000")).messages) == 2_002


def _save_in_this_thread(store: HarnessConversationStore, conversation: Conversation) -> None:
    """Drive the save without a loop, so that its queries are made on this thread's connection."""

    async def work_here(work: Callable[[], Any]) -> Any:
        return work()

    store._run_blocking = work_here  # type: ignore[method-assign]
    try:
        store.save(conversation).send(None)
    except StopIteration:
        return
    finally:
        del store._run_blocking


# what is shared, and what goes


def test_a_fork_shares_messages_and_inherits_them(cp: SyncCheckpointer) -> None:
    store = HarnessConversationStore(cp)
    _save(store, "origin", [_ask("1"), _answer("2"), _ask("3"), _answer("4")])
    fork = asyncio.run(store.fork("origin", at=2, new_conversation_id="fork"))
    fork.messages.append(_ask("other"))
    asyncio.run(store.save(fork))
    assert Message.objects.count() == 5
    asyncio.run(store.delete("origin"))
    assert asyncio.run(store.load("origin")) is None
    back = asyncio.run(store.load("fork"))
    assert back is not None
    assert back.messages == [_ask("1"), _answer("2"), _ask("other")]
    assert Message.objects.count() == 3
    asyncio.run(store.delete("fork"))
    assert (Message.objects.count(), Session.objects.count(), FrameworkState.objects.count()) == (0, 0, 0)


def test_pruning_keeps_the_whole_history(cp: SyncCheckpointer) -> None:
    store = HarnessConversationStore(cp)
    conversation = _save(store, "c", [_ask("1")])
    for number in range(4):
        conversation.messages.append(_answer(str(number)))
        asyncio.run(store.save(conversation))
    cp.prune("c", keep_last=1)
    assert asyncio.run(store.load("c")) == conversation


def test_a_save_waits_for_nobody_who_owns_the_session(open_checkpointer: Open) -> None:
    owner, store = open_checkpointer(), HarnessConversationStore(open_checkpointer())
    conversation = _save(store, "c", [_ask("1")])
    owner.start_session("c")
    conversation.messages.append(_answer("2"))
    with pytest.raises(SessionBusy):
        asyncio.run(store.save(conversation))
    assert len(asyncio.run(HarnessConversationStore(owner).save(conversation))) == 1
    owner.release_session("c")


def test_an_async_client_is_the_same(workspace: object) -> None:
    async def play() -> Any:
        async with Checkpointer() as client:
            store = HarnessConversationStore(client)
            result = await Agent(TestModel(custom_output_text="Done.")).run("Do it.", conversation_id="c")
            await store.save(result)
            loaded = await store.load("c")
            return loaded, result.conversation

    loaded, saved = asyncio.run(play())
    assert loaded == saved


# what it looks like


def test_a_conversation_reads_like_a_native_session(cp: SyncCheckpointer) -> None:
    store = HarnessConversationStore(cp, agent="refunds")
    agent = Agent(TestModel(custom_output_text="Done."), system_prompt="Be kind.")

    @agent.tool_plain
    def look_up(order: int) -> str:
        return f"order {order}"

    async def play() -> None:
        await store.save(await agent.run("Where is it?", conversation_id="c"), scope="alice")

    asyncio.run(play())
    latest = cp.load_latest("c")
    assert latest is not None
    assert [message["role"] for message in latest["transcript"]] == ["user", "assistant", "tool", "assistant"]
    assert (latest["usage"]["requests"], latest["usage"]["tool_calls"]) == (2, 1)
    session = Session.objects.get()
    assert (session.agent, session.title) == ("refunds", "Where is it?")
    assert session.total_tokens == latest["usage"]["input_tokens"] + latest["usage"]["output_tokens"] > 0


@pytest.mark.parametrize("content", [object(), "\ud800"], ids=["object", "surrogate"])
def test_what_has_no_json_form_is_refused_before_anything_is_written(cp: SyncCheckpointer, content: Any) -> None:
    store = HarnessConversationStore(cp)
    with pytest.raises(NotRepresentable):
        _save(store, "c", [ModelRequest(parts=[ToolReturnPart("x", content, "1")])])
    assert Session.objects.count() == 0


def test_files_and_thoughts_come_back_equal(cp: SyncCheckpointer) -> None:
    store = HarnessConversationStore(cp)
    image = BinaryImage(b"\xff\xfe\xfb", media_type="image/png")
    messages = [
        ModelRequest(
            parts=[SystemPromptPart("Be kind.", timestamp=NOON), UserPromptPart(["See:", image], timestamp=NOON)]
        ),
        ModelResponse(parts=[ThinkingPart("Hm.", signature="s"), TextPart("I see.")], timestamp=NOON),
    ]
    conversation = Conversation(conversation_id="c", messages=messages, usage=RunUsage(input_tokens=3))
    asyncio.run(store.save(conversation))
    assert asyncio.run(store.load("c")) == conversation


# bad input


def test_empty_fields_are_not_stored_and_come_back_equal(cp: SyncCheckpointer) -> None:
    store = HarnessConversationStore(cp)
    call, result = ToolCallPart("look", None, "c1"), ToolReturnPart("look", None, "c1", timestamp=NOON)
    said: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart("", timestamp=NOON)], instructions="", metadata={}),
        ModelResponse(parts=[TextPart("", id="")], timestamp=NOON, usage=RequestUsage(input_tokens=7)),
        ModelResponse(parts=[call], timestamp=NOON, metadata={"seen": None, "count": 0}),
        ModelRequest(parts=[result]),
    ]
    _save(store, "s", said)
    assert asyncio.run(store.load("s")).messages == said
    stored = _load_transcript(cp, "s")
    assert stored[1]["usage"] == {"input_tokens": 7}
    assert (stored[0]["instructions"], stored[0]["metadata"]) == ("", {})
    assert stored[2]["metadata"] == {"seen": None, "count": 0}
    assert stored[3]["parts"][0]["content"] is None
    assert [key for message in stored for key, value in message.items() if value is None] == []


def test_a_session_that_is_no_conversation_is_not_taken_over(cp: SyncCheckpointer) -> None:
    cp.start_session("native")
    cp.append_checkpoint("native", [{"role": "user", "content": "Hello"}], expected_version=0)
    cp.release_session("native")
    store = HarnessConversationStore(cp)
    assert asyncio.run(store.load("native")) is None
    with pytest.raises(InvalidInput, match="no record of a conversation"):
        _save(store, "native", [_ask("1")])
    assert len(_load_transcript(cp, "native")) == 1


def test_a_message_of_another_writer_is_no_entry(cp: SyncCheckpointer) -> None:
    store = HarnessConversationStore(cp)
    conversation = _save(store, "c", [_ask("1"), _answer("2")])
    cp.append_checkpoint("c", [{"role": "user", "content": "from somewhere else"}], expected_version=1)
    assert asyncio.run(store.load("c")) == conversation
    conversation.messages += [_ask("3"), _answer("4")]
    asyncio.run(store.save(conversation))
    assert asyncio.run(store.load("c")) == conversation


@pytest.mark.parametrize("change", [("user-prompt", "hologram"), ("request", "seance")])
def test_a_message_of_a_newer_version_is_refused_and_shown(cp: SyncCheckpointer, change: tuple[str, str]) -> None:
    store = HarnessConversationStore(cp)
    entry = ConversationEntry(parent_id=None, message=_ask("Hello"))
    record = ConversationRecord(conversation_id="c", head_id=entry.id)
    with pytest.MonkeyPatch.context() as patch:
        dump = ModelMessagesTypeAdapter.dump_python

        def dump_newer(messages: Any, **options: Any) -> Any:
            return parse_json(to_canonical_json(dump(messages, **options)).replace(*change))

        patch.setattr(ModelMessagesTypeAdapter, "dump_python", dump_newer)
        asyncio.run(store.write_record(record, new_entries=[entry], expected_revision=None))
    with pytest.raises(InvalidInput, match="does not know a stored message"):
        asyncio.run(store.load("c"))
    assert change[1] in Message.objects.get().body


def test_a_record_of_a_newer_format_is_refused(cp: SyncCheckpointer) -> None:
    store = HarnessConversationStore(cp)
    record = ConversationRecord(conversation_id="c", head_id=None, format_version=2)  # type: ignore[arg-type]
    asyncio.run(store.write_record(record, expected_revision=None))
    with pytest.raises(InvalidInput, match="does not know the record of 'c'"):
        asyncio.run(store.load("c"))


@pytest.mark.unsealed("with seals, the chain of the message is wrong before its text is read")
def test_an_altered_message_is_found(cp: SyncCheckpointer) -> None:
    store = HarnessConversationStore(cp)
    _save(store, "c", [_ask("1"), _answer("2"), _ask("3")])
    altered = Message.objects.get(position=1)
    Message.objects.filter(pk=altered.pk).update(body=altered.body.replace('"2"', '"5"'))
    with pytest.raises(CheckpointCorrupted):
        asyncio.run(store.load("c"))


def test_an_unknown_entry_is_a_lookup_error(cp: SyncCheckpointer) -> None:
    with pytest.raises(LookupError):
        asyncio.run(HarnessConversationStore(cp).read_entry("none"))
