"""The session service: what the services of ADK promise, in one transaction, on the sessions of this library."""

import asyncio
import json
from collections.abc import Awaitable
from datetime import UTC, datetime
from random import Random
from typing import Any, TypeVar

import pytest
from django.core.management import call_command
from django.db import connection
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from checkpoints import SyncCheckpointer
from checkpoints.adapters.google_adk import HarnessSessionService
from checkpoints.adapters.google_adk.event_conversion import decode_messages, encode_event
from checkpoints.exceptions import CheckpointsError, IntegrityError, InvalidInput, NotRepresentable, SessionBusy
from checkpoints.models import Checkpoint, FrameworkState
from checkpoints.models import Session as SessionRow
from tests.adapters.google_adk import agents
from tests.adapters.google_adk.agents import say
from tests.conftest import Open, StartChild
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.processes import database_url

T = TypeVar("T")
PLACE: Any = {"app_name": "refunds", "user_id": "ann"}


@pytest.fixture
def service(cp: SyncCheckpointer) -> HarnessSessionService:
    return HarnessSessionService(cp)


def do(work: Awaitable[T]) -> T:
    async def wait() -> T:
        return await work

    return asyncio.run(wait())


def create(service: HarnessSessionService, session_id: str = "s", **state: Any) -> Session:
    return do(service.create_session(**PLACE, session_id=session_id, state=state))


def load(service: HarnessSessionService, session_id: str = "s", **config: Any) -> Session:
    session = do(service.get_session(**PLACE, session_id=session_id, config=GetSessionConfig(**config)))
    assert session is not None
    return session


def append(service: HarnessSessionService, session: Session, *events: Event) -> None:
    for event in events:
        do(service.append_event(session, event))


# ---- events


def _result(call_id: str, name: str, response: dict[str, Any]) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=call_id, name=name, response=response))


EVENTS = {
    "text": say("Where is my refund?"),
    "thought with a signature": Event(
        author="desk",
        model_version="gemini-9",
        content=types.Content(
            role="model", parts=[types.Part(text="Hm.", thought=True, thought_signature=b"\xff\xfe\xfd")]
        ),
    ),
    "calls": Event(
        author="desk",
        long_running_tool_ids={"c2"},
        content=types.Content(
            role="model",
            parts=[
                types.Part(
                    function_call=types.FunctionCall(id="c1", name="refund", args={"order": 17, "at": 1.0, "é": None}),
                    thought_signature=b"\x00\xff",
                ),
                types.Part(function_call=types.FunctionCall(id="c2", name="wait", args={})),
                types.Part(function_call=types.FunctionCall(name="without_id")),
            ],
        ),
    ),
    "results": Event(
        author="desk",
        content=types.Content(
            role="user",
            parts=[
                _result("c1", "refund", {"result": "ok"}),
                types.Part(
                    function_response=types.FunctionResponse(id="c2", name="wait", response={"b": [1.5], "a": 0})
                ),
                _result("c3", "wait", {"result": 3}),
                types.Part(
                    function_response=types.FunctionResponse(
                        id="c4",
                        name="draw",
                        response={"error": "no"},
                        parts=[types.FunctionResponsePart.from_bytes(data=b"\xfb\xff", mime_type="image/png")],
                    )
                ),
            ],
        ),
    ),
    "media": Event(
        author="user",
        content=types.Content(
            role="user",
            parts=[
                types.Part(inline_data=types.Blob(data=b"\xfb\xff\xfe", mime_type="image/png", display_name="a.png")),
                types.Part(inline_data=types.Blob(data=b"\xfb\xff", mime_type="application/pdf")),
                types.Part(file_data=types.FileData(file_uri="gs://b/a.mp4", mime_type="video/mp4")),
                types.Part(executable_code=types.ExecutableCode(code="1 + 1", language=types.Language.PYTHON)),
                types.Part(),
            ],
        ),
    ),
    "no content": Event(author="desk", actions=EventActions(state_delta={"step": 2}, end_of_agent=True)),
    "no parts": Event(author="desk", content=types.Content(role="model")),
    "empty parts": Event(author="desk", content=types.Content(role="model", parts=[])),
    "all else": Event(
        author="user",
        invocation_id="run",
        branch="a.b",
        partial=False,
        turn_complete=True,
        error_code="429",
        error_message="Too many requests",
        interrupted=True,
        timestamp=1_700_000_000.123,
        grounding_metadata=types.GroundingMetadata(search_entry_point=types.SearchEntryPoint(sdk_blob=b"\xff")),
        usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=1, total_token_count=2),
        custom_metadata={"key": [1, {"deep": True}]},
        input_transcription=types.Transcription(text="said", finished=True),
        actions=EventActions(artifact_delta={"file": 0}, transfer_to_agent="other", escalate=True),
    ),
}


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_event_is_loaded_as_it_was_appended(service: HarnessSessionService, event: Event) -> None:
    session = create(service)
    append(service, session, event.model_copy(deep=True))
    assert load(service).events == [event]
    assert load(service) == session


def test_tokens_of_an_event_are_a_field_of_its_message_alone() -> None:
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=3)
    event = Event(author="desk", content=types.Content(parts=[types.Part(text="Done.")]), usage_metadata=usage)
    message = encode_event(event)
    assert message["usage"] == {"promptTokenCount": 3}
    assert "usageMetadata" not in message["source"]["adk"]
    assert decode_messages([message]) == [event]


def test_event_whose_usage_somebody_else_has_added_can_be_read() -> None:
    event = Event(author="desk", content=types.Content(parts=[types.Part(text="Done.")]))
    assert decode_messages([{**encode_event(event), "usage": {"input_tokens": 3}}]) == [event]


def test_versions_carry_the_tokens_of_the_events(service: HarnessSessionService) -> None:
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=9, cached_content_token_count=4, candidates_token_count=2, thoughts_token_count=1
    )
    answer = Event(author="desk", model_version="gemini", usage_metadata=usage)
    append(service, create(service), answer, answer.model_copy(update={"id": "another"}))
    sums = {"input_tokens": 10, "output_tokens": 6, "cache_read_input_tokens": 8, "total_tokens": 24}
    assert json.loads(Checkpoint.objects.latest("version").usage or "") == {**sums, "by_model": {"gemini": sums}}


def test_partial_event_is_not_stored(service: HarnessSessionService) -> None:
    session = create(service)
    append(service, session, Event(author="desk", partial=True))
    assert session.events == load(service).events == []


def test_newest_events_and_those_after_a_time_are_loaded(service: HarnessSessionService) -> None:
    session = create(service)
    append(service, session, *(Event(author="user", timestamp=float(number)) for number in range(1, 6)))

    def times(**config: Any) -> list[float]:
        return [event.timestamp for event in load(service, **config).events]

    assert times() == [1, 2, 3, 4, 5]
    assert times(num_recent_events=0) == []
    assert times(num_recent_events=3) == [3, 4, 5]
    assert times(num_recent_events=9) == [1, 2, 3, 4, 5]
    assert times(after_timestamp=4.0) == [4, 5]
    assert times(after_timestamp=2.0, num_recent_events=3) == [3, 4, 5]
    assert times(after_timestamp=50.0) == []
    assert load(service).last_update_time == 5


def test_event_that_was_stored_although_the_write_seemed_to_fail_is_not_appended_again(
    service: HarnessSessionService,
) -> None:
    session = create(service)
    unaware = session.model_copy(deep=True)
    event = say("Once.", **{"app:count": 1})
    append(service, session, event)
    append(service, session, event)  # the same object
    append(service, unaware, event)  # as after a lost answer of the database
    append(service, unaware, say("Next."))
    texts = [event.content.parts[0].text for event in load(service).events if event.content and event.content.parts]
    assert texts == ["Once.", "Next."]


# ---- sessions


def test_session_is_created_once_and_deleted(service: HarnessSessionService) -> None:
    named = create(service, " s ", key="value", **{"temp:k": 1})
    assert (named.id, named.state) == ("s", {"key": "value"})
    assert named.last_update_time <= datetime.now(UTC).timestamp()
    with pytest.raises(AlreadyExistsError):
        create(service, "s", **{"user:k": 1})
    assert do(service.get_user_state(**PLACE)) == {}
    other = do(service.create_session(**PLACE))
    assert other.id
    do(service.delete_session(**PLACE, session_id="s"))
    do(service.delete_session(**PLACE, session_id="s"))
    assert do(service.get_session(**PLACE, session_id="s")) is None
    with pytest.raises(SessionNotFoundError):
        append(service, named, say("Too late."))


def test_sessions_are_those_of_a_user_and_listed_by_their_last_event(service: HarnessSessionService) -> None:
    first, second = create(service, "first", a=1), create(service, "second", b=2)
    of_bob = do(service.create_session(app_name="refunds", user_id="bob", session_id="first"))
    do(service.create_session(app_name="refunds2", user_id="ann", session_id="first"))
    append(service, of_bob, Event(author="user", timestamp=3.0))
    append(service, second, Event(author="user", timestamp=1.0, actions=EventActions(state_delta={"app:all": True})))
    append(service, first, Event(author="user", timestamp=2.0))
    listed = do(service.list_sessions(**PLACE)).sessions
    assert [session.id for session in listed] == ["second", "first"]
    assert [session.state for session in listed] == [{"b": 2, "app:all": True}, {"a": 1, "app:all": True}]
    assert not any(session.events for session in listed)
    everybody = do(service.list_sessions(app_name="refunds")).sessions
    assert [(session.user_id, session.id) for session in everybody] == [
        ("ann", "second"),
        ("ann", "first"),
        ("bob", "first"),
    ]
    assert do(service.list_sessions(app_name="unknown")).sessions == []


def test_names_with_slashes_do_not_meet(service: HarnessSessionService) -> None:
    for app, user, session in (("a/b", "c", "d"), ("a", "b/c", "d"), ("a", "b", "c/d"), ("a%2Fb", "c", "d")):
        do(service.create_session(app_name=app, user_id=user, session_id=session))
    assert SessionRow.objects.count() == 4
    assert [each.id for each in do(service.list_sessions(app_name="a", user_id="b")).sessions] == ["c/d"]


@pytest.mark.parametrize("name", ["", "a" * 300, "line\x00"])
def test_unusable_name_is_refused(service: HarnessSessionService, name: str) -> None:
    with pytest.raises(CheckpointsError):
        do(service.create_session(app_name="refunds", user_id=name, session_id="s"))
    assert not SessionRow.objects.exists()


def test_session_of_somebody_else_is_not_overwritten(service: HarnessSessionService, cp: SyncCheckpointer) -> None:
    cp.start_session("refunds/ann/s")
    cp.save_checkpoint("refunds/ann/s", [{"role": "user", "content": "Mine."}], {}, 0)
    cp.release_session("refunds/ann/s")
    with pytest.raises(InvalidInput, match="none of Google ADK"):
        create(service)


# ---- state


def test_state_is_shared_as_its_prefixes_say(service: HarnessSessionService) -> None:
    given: dict[str, Any] = {"own": 1, "user:name": "Ann", "app:rate": 2}
    session = create(service, **given)
    append(service, session, say("Hello", **{"own": 2, "user:seen": 3, "app:rate": 4, "temp:x": 5}))
    assert session.state == {"own": 2, "user:name": "Ann", "user:seen": 3, "app:rate": 4, "temp:x": 5}
    assert load(service).state == {"own": 2, "user:name": "Ann", "user:seen": 3, "app:rate": 4}
    assert "temp:x" not in load(service).events[0].actions.state_delta
    assert create(service, "another").state == {"user:name": "Ann", "user:seen": 3, "app:rate": 4}
    of_bob = do(service.create_session(app_name="refunds", user_id="bob"))
    assert of_bob.state == {"app:rate": 4}
    assert do(service.get_user_state(**PLACE)) == {"name": "Ann", "seen": 3}
    assert do(service.get_user_state(app_name="other", user_id="ann")) == {}


def test_value_without_a_json_form_is_stored_as_text(service: HarnessSessionService) -> None:
    session = create(service, at=datetime(2026, 11, 28, tzinfo=UTC), function=do)
    assert session.state["at"] == "2026-11-28T00:00:00Z"
    assert "function do" in session.state["function"]


def test_event_without_an_exact_form_is_refused_and_changes_nothing(service: HarnessSessionService) -> None:
    session = create(service)
    for value in (float("nan"), float("inf")):
        with pytest.raises(NotRepresentable):
            append(service, session, say("Broken.", **{"user:value": value}))
    append(service, session, say("Whole."))
    assert len(load(service).events) == 1
    assert load(service).state == {}


@pytest.mark.parametrize("seed", mark_all_but_each(2, range(4), first=int(connection.vendor == "postgresql")))
def test_random_histories_equal_those_in_memory(service: HarnessSessionService, seed: int) -> None:
    generator, memory = Random(seed), InMemorySessionService()
    kept: dict[tuple[str, str], tuple[Session, Session]] = {}
    for number in range(40):
        user, name = generator.choice(["ann", "bob"]), generator.choice(["s", "t"])
        key = generator.choice(["own", "user:a", "app:b", "temp:c"])
        if (user, name) not in kept:
            place: Any = {"app_name": "refunds", "user_id": user, "session_id": name, "state": {key: number}}
            kept[user, name] = do(service.create_session(**place)), do(memory.create_session(**place))
            continue
        event = say(f"{number}", **{key: [number, {"deep": number / 4}]})
        for store, session in zip((service, memory), kept[user, name], strict=True):
            do(store.append_event(session, event.model_copy(deep=True)))
    for user, name in kept:
        place = {"app_name": "refunds", "user_id": user, "session_id": name}
        ours, theirs = do(service.get_session(**place)), do(memory.get_session(**place))
        assert ours is not None
        assert theirs is not None
        assert ours.events == theirs.events
        assert ours.state == theirs.state


# ---- several writers


def test_event_after_that_of_somebody_else_is_refused(service: HarnessSessionService, open_checkpointer: Open) -> None:
    other = HarnessSessionService(open_checkpointer())
    old = create(service)
    append(service, old, say("First."))
    newer = load(other)
    append(other, newer, say("Second.", step=2))
    with pytest.raises(StaleSessionError, match="load the session again"):
        append(service, old, say("Third.", step=3))
    assert load(service).state == {"step": 2}
    built = Session(id="s", **PLACE, events=load(service).events, last_update_time=1.0)
    append(service, built, say("Fourth."))  # a session that a program has built itself
    stale = Session(id="s", **PLACE, events=newer.events[:1], last_update_time=9e9)
    with pytest.raises(StaleSessionError):
        append(service, stale, say("Fifth."))
    assert len(load(service).events) == 3


def test_writers_in_processes_lose_nothing(service: HarnessSessionService, start_child: StartChild) -> None:
    create(service, "shared")
    children = [start_child(agents.append_in_turns, url=database_url(), writer=number, turns=8) for number in range(3)]
    assert all(isinstance(child.result(), int) for child in children)
    shared = load(service, "shared")
    said = [event.content.parts[0].text for event in shared.events if event.content and event.content.parts]
    assert sorted(filter(None, said)) == sorted(f"{writer}.{turn}" for writer in range(3) for turn in range(8))
    assert shared.state["user:turns"] == said


def test_event_waits_while_a_run_owns_the_session(service: HarnessSessionService, open_checkpointer: Open) -> None:
    session = create(service)
    owner = open_checkpointer()
    owner.start_session("refunds/ann/s")
    with pytest.raises(SessionBusy):
        append(service, session, say("Not now."))
    owner.release_session("refunds/ann/s")
    append(service, session, say("Now."))
    assert len(load(service).events) == 1


def test_message_of_somebody_else_is_part_of_the_conversation(
    service: HarnessSessionService, cp: SyncCheckpointer
) -> None:
    session = create(service)
    append(service, session, say("Hello."))
    cp.start_session("refunds/ann/s")
    latest = cp.load_latest("refunds/ann/s")
    assert latest is not None
    said = {"role": "user", "content": "Call me back, please."}
    cp.save_checkpoint("refunds/ann/s", [*latest["transcript"], said], {}, 0)
    cp.release_session("refunds/ann/s")
    loaded = load(service)
    assert [event.content.parts[0].text for event in loaded.events if event.content and event.content.parts] == [
        "Hello.",
        "Call me back, please.",
    ]
    append(service, loaded, say("I did."))
    assert [event.author for event in load(service).events] == ["user", "user", "user"]


def test_fork_with_the_name_of_a_session_is_one(service: HarnessSessionService, cp: SyncCheckpointer) -> None:
    session = create(service)
    append(service, session, say("One.", step=1), say("Two.", step=2))
    cp.fork_session("refunds/ann/s", "refunds/ann/fork", version=1)
    assert [len(load(service, "fork", num_recent_events=number).events) for number in (0, 1, 9)] == [0, 1, 1]
    fork = load(service, "fork")
    assert (len(fork.events), fork.state) == (1, {"step": 1})
    listed = asyncio.run(service.list_sessions(app_name="refunds", user_id="ann")).sessions
    assert {session.id: session.state for session in listed} == {"s": {"step": 2}, "fork": {"step": 1}}
    append(service, fork, say("Another two.", other=True))
    assert load(service, "fork").state == {"step": 1, "other": True}
    assert load(service).state == {"step": 2}


def test_sealed_sessions_verify_and_an_altered_state_is_refused(settings: Any, open_checkpointer: Open) -> None:
    settings.HARNESS_SEAL_KEY = "5e" * 32
    settings.HARNESS_SEAL_REQUIRED = True
    service = HarnessSessionService(open_checkpointer())
    given: dict[str, Any] = {"own": 1, "user:a": 1, "app:b": 2}
    session = create(service, **given)
    append(service, session, say("One.", **{"user:a": 3, "app:b": 4}), say("Two.", own=2))
    call_command("verify_integrity", "--all")
    shared = FrameworkState.objects.get(namespace="google-adk/shared_state", session__session_id="refunds/ann/")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE checkpoints_frameworkstate SET body = %s WHERE id = %s", [b'{"a":99}', shared.pk])
    with pytest.raises(IntegrityError):
        load(service)
