"""The list of calls and the list of versions agree about the version at which each call was logged."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from checkpoints import SyncCheckpointer, ToolRegistry, guard
from checkpoints.importers import import_transcripts
from checkpoints.models import Session
from tests.support.factories import make_call, make_checkpoint, make_messages, make_run, make_session
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def send_note(text: str) -> str:
    return f"sent {text}"


def start_registry() -> ToolRegistry:
    registry = ToolRegistry()
    registry.tool(side_effects={"write"})(send_note)
    return registry


def say(content: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


def make_session_of_the_library(cp: SyncCheckpointer, name: str = "library") -> str:
    with cp.session(name, "", registry=start_registry()) as session:
        session.dispatch("send_note", {"text": "before the first version"}, call_id="c0")
        for number, calls in ((1, 2), (2, 0), (3, 1)):
            session.append(say(f"message {number}"))
            for call in range(calls):
                session.dispatch("send_note", {"text": f"{number} {call}"}, call_id=f"c{number}{call}")
    return name


def make_fork(cp: SyncCheckpointer) -> str:
    make_session_of_the_library(cp, "origin")
    cp.fork_session("origin", "fork", version=2)
    with cp.session("fork", "", registry=start_registry()) as session:
        session.dispatch("send_note", {"text": "at the copied version"}, call_id="f1")
        session.append(say("otherwise"))
        for number in (2, 3):
            session.dispatch("send_note", {"text": f"in the fork {number}"}, call_id=f"f{number}")
    return "fork"


def make_session_of_a_framework(cp: SyncCheckpointer) -> str:
    cp.start_session("framework")
    for number in (1, 2):
        cp.append_checkpoint("framework", say(f"message {number}"), expected_version=number - 1)
        for call in range(number):
            guard(
                cp, "framework", "send_note", {"text": f"{number} {call}"}, f"g{number}{call}", lambda args: str(args)
            )
    cp.release_session("framework")
    return "framework"


def make_import(cp: SyncCheckpointer) -> str:
    def call(number: int) -> list[dict[str, Any]]:
        function = {"name": "send_note", "arguments": '{"text": "a"}'}
        return [
            {"role": "user", "content": f"message {number}"},
            {"role": "assistant", "tool_calls": [{"id": f"i{number}", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": f"i{number}", "content": "sent"},
        ]

    import_transcripts(cp, [*call(1), *call(2)], session_id="import", format="openai-chat")
    return "import"


def make_session_without_early_versions(cp: SyncCheckpointer) -> str:
    make_session_of_the_library(cp, "pruned")
    cp.prune("pruned", keep_last=1)
    return "pruned"


MAKERS = (
    make_session_of_the_library,
    make_fork,
    make_session_of_a_framework,
    make_import,
    make_session_without_early_versions,
)


@pytest.mark.parametrize("make", MAKERS)
def test_versions_count_the_calls_that_the_list_of_calls_has_at_them(
    cp: SyncCheckpointer, reader: Client, make: Callable[[SyncCheckpointer], str]
) -> None:
    pk = Session.objects.get(session_id=make(cp)).pk
    page = reader.get(f"/sessions/{pk}/versions/").content.decode()
    counted = {
        int(number): sum(map(int, re.findall(r"(\d+) logged calls?:", row)))
        for number, row in re.findall(r'<tr id="v-(\d+)">(.*?)</tr>', page, re.DOTALL)
    }
    calls = reader.get(f"/sessions/{pk}/calls/")
    cells = re.findall(r'<td class="number in-version[^>]*>(.*?)</td>', calls.content.decode())
    # A call of before the first version, or of the original, is in the first one that is stored.
    logged = [int(cell[1:]) if re.fullmatch(r"v\d+", cell) else 0 for cell in cells]
    listed = Counter(min(version for version in counted if version >= number) for number in logged)
    if after_fork := calls.context["calls_after_fork"]:
        listed[min(counted)] -= after_fork
        assert f"+{after_fork} stored result" in visible_text(reader.get(f"/sessions/{pk}/versions/"))
    assert {version: number for version, number in counted.items() if number} == {
        version: number for version, number in listed.items() if number
    }
    assert sum(counted.values()) >= 2
    assert f"Logged calls {sum(counted.values())}Files" in visible_text(calls)


def test_call_at_the_time_of_a_version_counts_by_the_version_at_which_it_was_logged(reader: Client) -> None:
    session = make_session()
    make_run(session=session)
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    version = make_checkpoint(session=session)
    make_call(session=session, call_id="early", step=0, issued_at=version.created_at)
    make_call(session=session, call_id="late", step=2, issued_at=version.created_at)
    words = visible_text(reader.get(f"/sessions/{session.pk}/versions/"))
    assert words.count("1 logged call: refund_card") == 2
    page = reader.get(f"/sessions/{session.pk}/calls/").content.decode()
    assert 'data-label="logged">before v1</td>' in page
    assert 'data-label="logged at">v2</td>' in page
