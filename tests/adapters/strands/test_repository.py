"""What Strands asks of any repository: the same records as its own files, and no message that is overwritten."""

import asyncio
import itertools
import json
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strands.session.file_session_manager import FileSessionManager
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from checkpoints import Checkpointer, SyncCheckpointer
from checkpoints.adapters.strands import HarnessSessionRepository, SessionConflict
from checkpoints.adapters.strands.message_conversion import decode_message, encode_message
from checkpoints.exceptions import (
    CheckpointCorrupted,
    InvalidIdentifier,
    InvalidInput,
    NotRepresentable,
    SessionBusy,
    SessionFinished,
)
from checkpoints.models import Checkpoint, FrameworkState
from checkpoints.models import Session as SessionRow
from tests.adapters import other_processes
from tests.adapters.strands.agents import append_in_turns, say
from tests.conftest import Open, StartChild
from tests.support.processes import database_url

numbers = itertools.count()
CREATED = "2026-11-24T10:00:00+00:00"


def build_agent_record(agent_id: str = "default", **state: Any) -> SessionAgent:
    return SessionAgent(agent_id, state, {"removed_message_count": 0}, created_at=CREATED, updated_at=CREATED)


@pytest.fixture
def repository(cp: SyncCheckpointer) -> HarnessSessionRepository:
    made = HarnessSessionRepository(cp)
    made.create_session(Session("s", SessionType.AGENT))
    made.create_agent("s", build_agent_record())
    return made


# records are those of Strands' own files

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
blocks = st.one_of(
    st.fixed_dictionaries({"text": texts}),
    st.builds(
        lambda text, given: {"toolUse": {"toolUseId": text, "name": "tool", "input": given}},
        texts,
        st.dictionaries(texts, st.integers(0, 9), max_size=2),
    ),
    st.builds(
        lambda text: {"toolResult": {"toolUseId": text, "status": "success", "content": [{"text": text}]}}, texts
    ),
    st.builds(lambda raw: {"image": {"format": "png", "source": {"bytes": raw}}}, st.binary(max_size=9)),
    st.builds(lambda text: {"blockOfNextYear": {"text": text}}, texts),
)
messages = st.builds(
    lambda role, content, extra: {"role": role, "content": content, **extra},
    st.sampled_from(["user", "assistant"]),
    st.lists(blocks, max_size=3),
    st.sampled_from([{}, {"tracking_id": "t1"}, {"metadata": {"usage": {"totalTokens": 7}}}]),
)
states = st.dictionaries(texts, st.integers() | texts | st.binary(max_size=3), max_size=3)
agent_ids = st.sampled_from(["one", "two"])
programs = st.lists(
    st.one_of(
        st.tuples(st.just("create_agent"), agent_ids, states),
        st.tuples(st.just("update_agent"), agent_ids, states),
        st.tuples(st.just("create_message"), agent_ids, messages),
        st.tuples(st.just("update_message"), agent_ids, st.tuples(st.integers(0, 3), messages, st.none() | messages)),
        st.tuples(st.just("list_messages"), agent_ids, st.tuples(st.none() | st.integers(0, 3), st.integers(0, 3))),
    ),
    max_size=12,
)


def _play(repository: Any, session_id: str, step: tuple[str, str, Any]) -> Any:
    """Carry out one step. Returns the records that it reads, or that it was refused."""
    kind, agent_id, given = step
    try:
        if kind in {"create_agent", "update_agent"}:
            if kind == "create_agent" and repository.read_agent(session_id, agent_id) is not None:
                return "exists"
            getattr(repository, kind)(session_id, build_agent_record(agent_id, **given))
            return repository.read_agent(session_id, agent_id)
        if kind == "create_message":
            number = len(repository.list_messages(session_id, agent_id))
            record = SessionMessage(given, number, created_at=CREATED, updated_at=CREATED)
            repository.create_message(session_id, agent_id, record)
            return repository.read_message(session_id, agent_id, number)
        if kind == "update_message":
            number, message, redacted = given
            record = SessionMessage(message, number, redacted, created_at="later", updated_at=CREATED)
            repository.update_message(session_id, agent_id, record)
            return repository.read_message(session_id, agent_id, number)
        return repository.list_messages(session_id, agent_id, *given)
    except SessionException:
        return "refused"


@given(programs)
@settings(max_examples=25)
def test_random_programs_read_what_files_would(cp: SyncCheckpointer, program: list[tuple[str, str, Any]]) -> None:
    ours, session_id = HarnessSessionRepository(cp), f"s{next(numbers)}"
    with tempfile.TemporaryDirectory() as folder:
        theirs = FileSessionManager(session_id, folder)
        ours.create_session(theirs.session)
        for step in program:
            assert _play(ours, session_id, step) == _play(theirs, session_id, step)
        assert HarnessSessionRepository(cp).read_session(session_id) == theirs.read_session(session_id)
        for agent_id in ("one", "two"):
            assert ours.read_agent(session_id, agent_id) == theirs.read_agent(session_id, agent_id)
            listing = ("list_messages", agent_id, (None, 0))
            assert _play(ours, session_id, listing) == _play(theirs, session_id, listing)


def test_versions_carry_the_tokens_of_the_answers(cp: SyncCheckpointer) -> None:
    repository = HarnessSessionRepository(cp)
    with tempfile.TemporaryDirectory() as folder:
        repository.create_session(FileSessionManager("s", folder).session)
    repository.create_agent("s", build_agent_record("one"))
    usage = {"inputTokens": 5, "outputTokens": 3, "totalTokens": 12, "cacheReadInputTokens": 4}
    for number in range(2):
        message: Any = {"role": "assistant", "content": [{"text": "yes"}], "metadata": {"usage": usage}}
        repository.create_message("s", "one", SessionMessage(message, number))
    sums = {"input_tokens": 10, "output_tokens": 6, "cache_read_input_tokens": 8, "total_tokens": 24}
    assert json.loads(Checkpoint.objects.latest("version").usage or "") == sums


@pytest.mark.parametrize("metadata", [None, {}, {"custom": 1}, "text"], ids=repr)
def test_usage_that_somebody_else_has_added_does_not_make_a_message_unreadable(metadata: Any) -> None:
    message: Any = {"role": "assistant", "content": [{"text": "yes"}], "metadata": metadata}
    encoded = encode_message(SessionMessage(message, 3))
    added = {"usage": {"inputTokens": 5}}
    decoded: Any = decode_message({**encoded, **added}, 3).message
    assert decoded["metadata"] == (metadata if metadata == "text" else {**(metadata or {}), **added})


class _Graph:
    """What Strands stores of a graph."""

    id = "graph"

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    def serialize_state(self) -> dict[str, Any]:
        return self.state


def test_states_of_graphs_are_kept(repository: HarnessSessionRepository) -> None:
    with pytest.raises(SessionException):
        repository.update_multi_agent("s", _Graph({}))
    assert repository.read_multi_agent("s", "graph") is None
    repository.create_multi_agent("s", _Graph({"status": "pending"}))
    repository.update_multi_agent("s", _Graph({"status": "completed", "next": ["a"]}))
    assert repository.read_multi_agent("s", "graph") == {"status": "completed", "next": ["a"]}
    with pytest.raises(SessionException):
        repository.create_multi_agent("unknown", _Graph({}))


# sessions


def test_each_agent_is_a_session_of_the_site(cp: SyncCheckpointer, repository: HarnessSessionRepository) -> None:
    repository.create_agent("s", build_agent_record("helper"))
    repository.create_message("s", "default", say("Refund order 17.", 0))
    repository.create_message("s", "helper", say("Look up order 17.", 0))
    rows = SessionRow.objects.order_by("pk").values_list("session_id", "parent_session_id", "title")
    assert list(rows) == [("s", "", "Refund order 17."), ("s/helper", "s", "Look up order 17.")]
    latest = cp.load_latest("s/helper")
    assert latest is not None
    assert latest["transcript"][0]["content"] == [{"text": "Look up order 17."}]
    repository.delete_session("s")
    assert not SessionRow.objects.exists()
    with pytest.raises(SessionException):
        repository.delete_session("s")


def test_redacted_message_is_replaced_and_stays_in_earlier_versions(
    cp: SyncCheckpointer, repository: HarnessSessionRepository
) -> None:
    for number in range(3):
        repository.create_message("s", "default", say(f"message {number}", number))
    redacted = say("message 1", 1)
    redacted.redact_message = {"role": "user", "content": [{"text": "[redacted]"}]}
    repository.update_message("s", "default", redacted)
    read = repository.list_messages("s", "default")
    assert [record.to_message()["content"][0]["text"] for record in read] == ["message 0", "[redacted]", "message 2"]
    latest = cp.load_latest("s")
    assert latest is not None
    assert latest["transcript"][1]["content"] == [{"text": "[redacted]"}]
    assert cp.load("s", latest["version"] - 1)["transcript"][1]["content"] == [{"text": "message 1"}]


def test_message_of_somebody_else_is_one_of_the_conversation(
    cp: SyncCheckpointer, repository: HarnessSessionRepository
) -> None:
    repository.create_message("s", "default", say("Where is my refund?", 0))
    cp.append_checkpoint("s", [{"role": "user", "content": "Ask a person, please."}], expected_version=1)
    repository.create_message("s", "default", say("And now?", 2))
    read = [record.to_message() for record in repository.list_messages("s", "default")]
    assert read[1] == {"role": "user", "content": [{"text": "Ask a person, please."}]}


def test_repository_works_on_the_thread_of_an_event_loop(workspace: object) -> None:
    async def use() -> list[SessionMessage]:
        async with Checkpointer.open(database_url()) as checkpointer:
            made = HarnessSessionRepository(checkpointer)
            made.create_session(Session("s", SessionType.AGENT))
            made.create_agent("s", build_agent_record())
            made.create_message("s", "default", say("Hello.", 0))
            return made.list_messages("s", "default")

    assert len(asyncio.run(use())) == 1


# writers at the same time


def test_eight_processes_lose_and_overwrite_nothing(
    repository: HarnessSessionRepository, start_child: StartChild
) -> None:
    repository.create_session(Session("shared", SessionType.AGENT))
    repository.create_agent("shared", build_agent_record())
    writers, turns = 8, 2
    url = database_url()
    children = [start_child(append_in_turns, url=url, writer=writer, turns=turns) for writer in range(writers)]
    for child in children:
        child.result()
    read = [record.message["content"][0]["text"] for record in repository.list_messages("shared", "default")]
    assert sorted(read) == sorted(f"{writer}.{turn}" for writer in range(writers) for turn in range(turns))
    for writer in range(writers):
        assert [text for text in read if text.startswith(f"{writer}.")] == [f"{writer}.{turn}" for turn in range(turns)]


def test_second_writer_is_refused_and_leaves_nothing(
    cp: SyncCheckpointer, repository: HarnessSessionRepository
) -> None:
    other = HarnessSessionRepository(cp)
    assert other.read_agent("s", "default") is not None
    repository.create_message("s", "default", say("first", 0))
    repository.update_agent("s", build_agent_record(count=1))
    with pytest.raises(SessionConflict):
        other.create_message("s", "default", say("second", 0))
    with pytest.raises(SessionConflict):
        other.update_agent("s", build_agent_record(count=2))
    with pytest.raises(SessionConflict):
        other.create_agent("s", build_agent_record())
    stored = other.read_agent("s", "default")
    assert stored is not None
    assert stored.state == {"count": 1}
    other.update_agent("s", build_agent_record(count=2))
    assert Checkpoint.objects.count() == 1


def test_message_of_agent_that_another_process_has_removed_is_refused(
    repository: HarnessSessionRepository, start_child: StartChild
) -> None:
    for number in range(2):  # the agent is known from then on
        repository.create_message("s", "default", say("Hello.", number))
    assert start_child(other_processes.delete_all_states, url=database_url(), session_id="s").result()
    with pytest.raises(SessionException):
        repository.create_message("s", "default", say("late", 2))
    assert Checkpoint.objects.count() == 2


def test_changes_beside_a_live_run_and_after_the_end_are_refused(
    repository: HarnessSessionRepository, open_checkpointer: Open
) -> None:
    other = open_checkpointer()
    other.start_session("s")
    changes: list[Callable[[], Any]] = [
        lambda: repository.create_message("s", "default", say("x", 0)),
        lambda: repository.update_agent("s", build_agent_record()),
        lambda: repository.create_multi_agent("s", _Graph({})),
    ]
    for change in changes:
        with pytest.raises(SessionBusy):
            change()
    other.finish_session("s", "completed")
    for change in changes:
        with pytest.raises(SessionFinished):
            change()


# bad input


def test_bad_input_is_refused_with_typed_errors(cp: SyncCheckpointer, repository: HarnessSessionRepository) -> None:
    with pytest.raises(InvalidInput, match="slash"):
        repository.read_session("a/b")
    with pytest.raises(InvalidIdentifier):
        repository.create_agent("s", build_agent_record("a\0b"))
    with pytest.raises(NotRepresentable):
        repository.create_agent("s", build_agent_record("n", number=float("nan")))
    for number in (-1, 1):
        with pytest.raises(SessionConflict):
            repository.create_message("s", "default", say("x", number))
    with pytest.raises(SessionException):
        repository.create_session(Session("s", SessionType.AGENT))
    with pytest.raises(SessionException):
        repository.create_message("unknown", "default", say("x", 0))
    cp.start_session("native")
    cp.append_checkpoint("native", [{"role": "user", "content": "x"}], expected_version=0)
    with pytest.raises(InvalidInput, match="none of Strands"):
        repository.create_session(Session("native", SessionType.AGENT))
    with SyncCheckpointer("http://127.0.0.1:9", token="x") as remote, pytest.raises(InvalidInput):
        HarnessSessionRepository(remote)
    assert repository.list_messages("s", "default") == []


def test_damaged_state_is_reported(repository: HarnessSessionRepository) -> None:
    FrameworkState.objects.filter(namespace="strands/agent/default").update(body=b"no json")
    with pytest.raises(CheckpointCorrupted):
        repository.read_agent("s", "default")
