"""The timeline page: drawing, list, zoom by URL, and costs of versions."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import IMPORTED_RUN_HOST, CallStatus, CostBasis, DecisionKind, Phase, RunStatus
from checkpoints.models import Checkpoint, Message, Run, Session, ToolCall
from harness_site.sessions.timeline import list_timeline_items, views
from harness_site.sessions.timeline.selectors import timeframe_contents, turn_contents
from harness_site.sessions.timeline.selectors.run_lanes import Stretch
from tests.support.factories import (
    THEN,
    make_call,
    make_checkpoint,
    make_decision,
    make_message,
    make_messages,
    make_run,
    make_session,
)
from tests.support.page_text import Page
from tests.support.page_text import visible_text as read_visible_text

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def session() -> Session:
    session = make_session()
    make_run(session=session, started_at=THEN, heartbeat_at=THEN + timedelta(seconds=100))
    return session


def call(session: Session, second: float, **fields: object) -> int:
    begin = THEN + timedelta(seconds=second)
    given: dict[str, object] = {"call_id": f"c-{second}", "status": CallStatus.COMPLETED}
    given |= {"issued_at": begin, "settled_at": begin + timedelta(seconds=0.5)} | fields
    return make_call(session=session, **given).pk  # type: ignore[arg-type]


def page(reader: Client, session: Session, query: str = "") -> str:
    return reader.get(f"/sessions/{session.pk}/timeline/{query}").content.decode()


def visible_text(response: Page) -> str:
    """Return the visible text without the times at which versions were saved."""
    return re.sub(r" saved [\d:.]+\b", "", read_visible_text(response))


def test_drawn_items_have_links_and_titles(session: Session, reader: Client) -> None:
    make_checkpoint(session=session, phase=Phase.POST_LLM, length=3)
    Checkpoint.objects.update(created_at=THEN + timedelta(seconds=5))
    pk = call(session, 10)
    html = page(reader, session)
    address = f"/sessions/{session.pk}"
    assert f'<a href="{address}/calls/{pk}/" tabindex="-1"><title>refund_card: completed, 500 ms</title>' in html
    title = "Model answer of version 1: saved 10:42:12.118, 5.0 s"
    assert f'<a href="{address}/?v=1&amp;at=2#m-2" tabindex="-1"><title>{title}</title>' in html


@pytest.mark.parametrize(("host", "pid", "worked"), [(IMPORTED_RUN_HOST, 0, "20 s"), ("worker-3", 4127, "1 min 20 s")])
def test_turn_of_a_transcript_starts_when_the_person_asks(reader: Client, host: str, pid: int, worked: str) -> None:
    session = make_session()
    make_run(session=session, started_at=THEN, heartbeat_at=THEN + timedelta(seconds=100), host=host, pid=pid)
    messages = make_messages(session=session, texts=["Ship it.", "Shipped.", "Thanks. Mail her.", "Mailed."])
    for message, second in zip(messages, (0, 10, 70, 90), strict=True):
        Message.objects.filter(pk=message.pk).update(created_at=THEN + timedelta(seconds=second))
    for length, second in ((2, 10), (4, 90)):
        version = make_checkpoint(session=session, length=length, phase=Phase.TURN)
        Checkpoint.objects.filter(pk=version.pk).update(created_at=THEN + timedelta(seconds=second))
    turns = re.findall(r"<title>Model answer: version (\d) saved [\d:.]+, ([^<]*)</title>", page(reader, session))
    assert set(turns) == {("1", "10 s"), ("2", worked)}


@pytest.mark.parametrize(
    ("fields", "explained"),
    [({}, ["Run"]), ({"status": RunStatus.LOST, "ended_at": THEN + timedelta(seconds=90)}, ["Run that was lost"])],
)
def test_legend_explains_the_lines_of_runs(
    session: Session, reader: Client, fields: dict[str, Any], explained: list[str]
) -> None:
    Run.objects.update(**fields)
    call(session, 10)
    legend = re.findall(r'<rect class="life[^>]*></svg>([^<]*)</li>', page(reader, session))
    assert legend == explained


def test_list_has_the_same_items(session: Session, reader: Client) -> None:
    make_decision(call=make_call(session=session, status=CallStatus.COMPLETED), created_at=THEN + timedelta(seconds=9))
    call(session, 20, status=CallStatus.FAILED)
    asked = call(session, 30, status=CallStatus.AWAITING_APPROVAL, tool="drop_rows", approvals=2, settled_at=None)
    voted_at = THEN + timedelta(seconds=40)
    make_decision(call=ToolCall.objects.get(pk=asked), kind=DecisionKind.APPROVE, final=False, created_at=voted_at)
    words = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert "alice decided about refund_card Decision It happened – 1" in words
    assert "refund_card amount 40.00, currency EUR, order 17 Tool call failed 500 ms 1" in words
    assert "alice decided about drop_rows Vote Approved · one of 2 – 1" in words
    assert "Wait for a decision about drop_rows Waits for a person waiting for a person " in words


def test_decided_call_tells_what_became_of_it(session: Session, reader: Client) -> None:
    interrupted_at = THEN + timedelta(seconds=20)
    pk = call(session, 10, status=CallStatus.INTERRUPTED, interrupted_at=interrupted_at, settled_at=None)
    row = r'<tr( class="unknown")?><td class="time(?:(?!</tr>).)*chip (\w+)">Tool call</span></td><td>([^<]*)'
    assert re.findall(row, page(reader, session)) == [(' class="unknown"', "unknown", "outcome unknown after 10 s")]
    assert "outcome unknown after 10 s – 1" in visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    make_decision(
        call=ToolCall.objects.get(pk=pk), kind=DecisionKind.MARK_FAILED, created_at=THEN + timedelta(seconds=29)
    )
    ToolCall.objects.filter(pk=pk).update(status=CallStatus.FAILED, settled_at=THEN + timedelta(seconds=29))
    assert re.findall(row, page(reader, session)) == [("", "off", "unknown for 19 s, then: It did not happen")]


def test_calls_of_one_tool_are_told_apart_by_their_arguments(session: Session, reader: Client) -> None:
    call(session, 10, tool="bash", args={"command": "ls -la"})
    altered = call(session, 20, tool="bash", args={"command": "rm -r <old>"})
    listed = page(reader, session).partition("<tbody>")[2]
    assert '<small class="call-sentence" dir="auto" title="ls -la">ls -la</small>' in listed
    assert ">rm -r &lt;old&gt;</small>" in listed
    ToolCall.objects.filter(pk=altered).update(args="not JSON", args_digest="")
    assert ">ls -la</small>" in page(reader, session)


def test_running_call_of_a_transcript_has_no_duration() -> None:
    texts = list_timeline_items.get_item_texts_in_current_language()
    calls = [Stretch("running", 10, end, "Bash", 1) for end in (10, 2_000_010)]
    items = [list_timeline_items.build_timeline_item(call, 1, texts) for call in calls]
    assert [item.has_known_duration for item in items] == [False, True]
    assert [item.title for item in items] == ["Bash: running", "Bash: running, 2.0 s"]


def test_call_that_was_faster_than_the_clock_took_less_than_a_millisecond(session: Session, reader: Client) -> None:
    call(session, 10, settled_at=THEN + timedelta(seconds=10))
    assert "<title>refund_card: completed, &lt; 1 ms</title>" in page(reader, session)
    make_checkpoint(session=session)
    assert "<title>refund_card: &lt; 1 ms</title>" in reader.get(f"/sessions/{session.pk}/").content.decode()


def test_call_of_a_transcript_with_one_time_has_no_duration(session: Session, reader: Client) -> None:
    Run.objects.update(host=IMPORTED_RUN_HOST)
    call(session, 10, settled_at=THEN + timedelta(seconds=10))
    html = page(reader, session)
    assert "<title>refund_card: completed</title>" in html
    words = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert "refund_card amount 40.00, currency EUR, order 17 Tool call completed – 1" in words
    make_checkpoint(session=session)
    assert "<title>refund_card: completed</title>" in reader.get(f"/sessions/{session.pk}/").content.decode()


def test_call_without_a_result_is_not_drawn_as_done(session: Session, reader: Client) -> None:
    pk = call(session, 10, status=CallStatus.DISCARDED, settled_at=THEN + timedelta(minutes=10))
    html = page(reader, session)
    assert re.search(rf'calls/{pk}/" tabindex="-1"><title>refund_card: no result</title><rect class="unanswered"', html)
    assert re.search(r'<rect class="unanswered"[^>]*/></svg>No result</li>', html)
    words = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert "refund_card amount 40.00, currency EUR, order 17 Tool call no result – 1" in words
    assert '"ran"' not in html
    make_checkpoint(session=session)
    overview = reader.get(f"/sessions/{session.pk}/").content.decode()
    assert re.search(r'<title>refund_card: no result</title><rect class="unanswered"', overview)


def test_zoom_and_pan_are_urls(session: Session, reader: Client) -> None:
    for second in range(0, 100, 5):
        call(session, second)
    html = page(reader, session)
    assert "Zoom out" not in html
    for name in ("Zoom in", "Later ›", "Zoom out", "‹ Earlier", "Zoom in"):
        found = re.search(rf'<a class="btn" href="(\?from=[^"]*)"[^>]*>{name}</a>', html)
        assert found, name
        html = page(reader, session, found[1].replace("&amp;", "&"))
        assert "Whole session" in html


def test_period_shows_only_its_items(session: Session, reader: Client) -> None:
    first, second = call(session, 1), call(session, 50)
    html = page(reader, session, "?from=2025-03-04T10:42:50Z&to=2025-03-04T10:43:10Z")
    assert f"/calls/{second}/" in html
    assert f"/calls/{first}/" not in html
    empty = page(reader, session, "?from=2001-03-04T10:42:50Z&to=2001-03-04T10:43:10Z")
    assert "There are no events in this period." in empty


@pytest.mark.parametrize(
    "query",
    [
        "?from=x&to=y",
        "?from=2025-03-04T10:43:00Z&to=2025-03-04T10:42:00Z",
        "?from=0001-01-01T00:00:00&to=9999-12-31T23:59:59.999999",
        "?from=0001-01-01T00:00:00%2B14:00",
        "?to=2025-03-04",
        "?from=2025-03-04T10:42:00",
        "?row=99999",
        "?row=-1",
        "?from=%00",
    ],
)
def test_invalid_period_shows_the_complete_session(session: Session, reader: Client, query: str) -> None:
    call(session, 1)
    assert reader.get(f"/sessions/{session.pk}/timeline/{query}").status_code == 200


def test_list_has_several_pages(session: Session, reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "ROWS", 2)
    made = [call(session, second) for second in range(5)]
    seen: list[int] = []
    query: str | None = ""
    while query is not None:
        html = page(reader, session, query)
        seen += map(int, re.findall(r'data-row href="/sessions/\d+/calls/(\d+)/"', html))
        found = re.search(r'rel="next" href="(\?row=\d+)#listed"', html)
        query = found[1] if found else None
    assert seen == made
    assert "5–5 of 5" in visible_text(reader.get(f"/sessions/{session.pk}/timeline/?row=4"))


def test_merged_items_are_counted_and_link_to_a_zoom(session: Session, reader: Client) -> None:
    for number in range(12):
        moment = THEN + timedelta(seconds=50 + number / 1000)
        call(session, number, issued_at=moment, settled_at=moment)
    call(session, 20)
    html = page(reader, session)
    assert "events are grouped. Click a bar to zoom in." in html
    html, _narrow_drawing = html.split('<svg class="drawing narrow"')
    found = re.search(r'<a href="(\?from=[^"]*)" tabindex="-1"><title>(\d+) entries \(Tool call: \d+\)</title>', html)
    assert found
    assert sum(map(int, re.findall(r"<title>(\d+) entries", html))) == 12
    assert "A coloured edge marks a group that contains a failure." not in page(reader, session)
    last = THEN + timedelta(seconds=50)
    call(session, 12, issued_at=last, settled_at=last, status=CallStatus.FAILED)
    assert "A coloured edge marks a group that contains a failure." in page(reader, session)


def test_groups_of_many_calls_are_rows_that_lead_to_their_calls(
    session: Session, reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeframe_contents, "SINGLE_CALLS", 4)
    Session.objects.update(created_at=THEN, updated_at=THEN + timedelta(seconds=1000))
    first = [call(session, second) for second in (1, 1.5, 2)]
    failed = call(session, 2.5, status=CallStatus.FAILED)
    call(session, 900)
    html = page(reader, session)
    assert f"/calls/{failed}/" in html
    assert f"/calls/{first[0]}/" not in html
    assert "Tool call: 4" in html
    (link,) = re.findall(r'<a data-row href="(\?from=[^"]*)"><bdi>3 calls</bdi>', html)
    closer = page(reader, session, link.replace("&amp;", "&"))
    assert all(f"/calls/{pk}/" in closer for pk in (*first, failed))
    assert "3 calls" not in closer


def test_chart_has_a_table_of_its_numbers(session: Session, reader: Client) -> None:
    for number in range(3):
        make_checkpoint(session=session, budget_spent_usd=f"0.{number}", usage='{"total_tokens":1200}')
    words = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert "Version Saved Cost Tokens Messages v1" in words
    assert "$0.20 1,200 0" in words
    html = page(reader, session)
    charts = html.partition('id="growth-title"')[2].partition("</section>")[0]
    assert charts.count('aria-label="Cost: $0.00 at version 1, $0.20 at version 3, at most $0.20."') == 2
    # The times of both drawings are those of both charts.
    assert [re.findall(r">([^<]*)</text>", axis) for axis in re.findall('<g class="axis".*?</g>', charts)] == [
        re.findall(r">([^<]*)</text>", axis) for axis in re.findall('<g class="axis".*?</g>', html)[:2]
    ]


def test_unknown_cost_is_not_drawn_as_zero(session: Session, reader: Client) -> None:
    Session.objects.filter(pk=session.pk).update(cost_basis=CostBasis.UNKNOWN)
    session.refresh_from_db()
    for _ in range(2):
        make_checkpoint(session=session, budget_spent_usd="0", usage='{"total_tokens":1200}')
    words = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert "not recorded in any version: cost" in words
    assert "$0.00" not in words


def test_text_of_agents_is_escaped(session: Session, reader: Client) -> None:
    call(session, 1, tool=SCRIPT)
    html = page(reader, session)
    assert SCRIPT not in html
    assert "&lt;script&gt;alert(1)" in html


def test_page_has_no_inline_styles(session: Session, reader: Client) -> None:
    call(session, 1)
    html = page(reader, session)
    assert " style=" not in html
    assert "<style" not in html


def test_session_without_a_run_is_explained(reader: Client) -> None:
    assert "There are no events yet." in page(reader, make_session())


@pytest.mark.parametrize("count", [1, 3])
def test_query_count_is_independent_of_the_items(
    session: Session, reader: Client, count: int, django_assert_num_queries: Queries
) -> None:
    for number in range(count):
        make_run(session=session, started_at=THEN, heartbeat_at=THEN)
        make_message(session=session, role="assistant")
        make_checkpoint(session=session)
        make_decision(call=make_call(session=session, call_id=str(number)))
    with django_assert_num_queries(19):
        reader.get(f"/sessions/{session.pk}/timeline/")
    with django_assert_num_queries(21):
        reader.get(f"/sessions/{session.pk}/timeline/?from=2025-03-04T10:42:00Z&to=2025-03-04T10:43:00Z")


def test_legend_names_turns_without_a_phase(session: Session, reader: Client) -> None:
    make_checkpoint(session=session, phase=Phase.POST_LLM)
    make_checkpoint(session=session)
    Checkpoint.objects.filter(version=1).update(created_at=THEN + timedelta(seconds=5))
    Checkpoint.objects.filter(version=2).update(created_at=THEN + timedelta(seconds=9))
    address = f"/sessions/{session.pk}/timeline/"
    assert "Model answer Turn" in visible_text(reader.get(address))
    Checkpoint.objects.update(phase=Phase.TURN)
    shown = visible_text(reader.get(address))
    assert "Turn Version" in shown
    assert "Other turn" not in shown


def test_work_after_a_wait_has_the_times_of_its_version_and_of_its_bar(session: Session, reader: Client) -> None:
    """A run that waits before it does anything begins to work when a person has decided."""
    first = make_checkpoint(session=session, phase=Phase.POST_LLM)
    second = make_checkpoint(session=session, phase=Phase.POST_TOOL_BATCH)
    third = make_checkpoint(session=session, phase=Phase.POST_LLM)
    rejected = call(session, 5, status=CallStatus.REJECTED, settled_at=None)
    decided_at = THEN + timedelta(seconds=65)
    make_decision(call=ToolCall.objects.get(pk=rejected), kind=DecisionKind.REJECT, created_at=decided_at)
    for version, seconds in ((first, 5), (second, 66), (third, 70)):
        Checkpoint.objects.filter(pk=version.pk).update(created_at=THEN + timedelta(seconds=seconds))
    response = reader.get(f"/sessions/{session.pk}/timeline/")
    words = read_visible_text(response)
    assert "10:43:12.118 Tool results of version 2 Tool results saved 10:43:13.118 1.0 s 1" in words
    assert "10:43:13 Tool results" in read_visible_text(reader.get(f"/sessions/{session.pk}/versions/"))
    (drawn,) = set(re.findall(r"<title>(Tool results of [^<]*)</title>", response.content.decode()))
    assert drawn == "Tool results of version 2: saved 10:43:13.118, 1.0 s"


def save_turns_with_messages(session: Session) -> None:
    """Save a prompt, an answer that asks for two tools that only read, their results, an error, and a mixed turn."""
    ask: list[dict[str, object]] = [
        {"kind": "tool_call", "id": "c1", "name": "find_order", "args": {}},
        {"kind": "tool_call", "id": "c2", "name": "find_payment", "args": {}},
    ]
    found = [{"kind": "tool_result", "call_id": call_id, "content": "x"} for call_id in ("c1", "c2")]
    again = {"kind": "tool_call", "id": "c3", "name": "find_order", "args": {}}
    failed = {"kind": "tool_result", "call_id": "c3", "content": "no", "is_error": True}
    refund = {"kind": "tool_call", "id": "c-40", "name": "refund_card", "args": {}}
    refunded = {"kind": "tool_result", "call_id": "c-40", "content": "re_1"}
    turns: list[list[dict[str, object]]] = [
        [{"role": "user", "blocks": [{"kind": "text", "text": "Refund it."}]}],
        [{"role": "assistant", "model": "lamp-4", "blocks": ask}],
        [{"role": "tool", "blocks": [found[0]]}, {"role": "tool", "blocks": [found[1]]}],
        [{"role": "assistant", "model": "lamp-4", "blocks": [again]}],
        [{"role": "tool", "blocks": [failed]}],
        [{"role": "assistant", "model": "lamp-4", "blocks": [refund]}, {"role": "tool", "blocks": [refunded]}],
        [
            {"role": "assistant", "content": None, "tool_calls": [{"id": "c4", "name": "find_order", "args": {}}]},
            {"role": "tool", "tool_call_id": "c4", "content": "x"},
            {"role": "assistant", "content": "Done."},
        ],
    ]
    for number, bodies in enumerate(turns, 1):
        for body in bodies:
            make_message(session=session, body=body)
        version = make_checkpoint(session=session)
        Checkpoint.objects.filter(pk=version.pk).update(created_at=THEN + timedelta(seconds=10 * number))


NAMED_TURNS = [
    "Version 1 Version message of a person – 1",
    "Model answer (lamp-4) Model answer version 2 10 s 1",
    "find_order, find_payment Tool call completed, version 3 10 s 1",
    "Model answer (lamp-4) Model answer version 4 10 s 1",
    "find_order Tool call failed, version 5 10 s 1",
    "Model answer (lamp-4), refund_card Turn version 6 10 s 1",
    "2 model answers, find_order Turn version 7 10 s 1",
]


def test_turns_are_named_by_the_models_and_tools_of_their_messages(session: Session, reader: Client) -> None:
    save_turns_with_messages(session)
    call(session, 55, tool="refund_card")
    html = page(reader, session)
    words = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert [name for name in NAMED_TURNS if name not in words] == []
    address = f"/sessions/{session.pk}/?v=5&amp;at=5#m-5"
    title = "find_order: failed, version 5 saved 10:42:57.118, 10 s"
    assert f'<a href="{address}" tabindex="-1"><title>{title}</title><rect class="failed"' in html
    # Tools that only read have rows of their own in the drawing, as logged calls do.
    assert re.findall(r"<text x=\"0\"[^>]*>([^<]*)<title>", html.partition("drawing narrow")[0]) == [
        "find_order",
        "refund_card",
        "several tools",
    ]
    tested = re.findall(r'chip (\w+)">(Tool call|Turn|Model answer)<', html)
    assert tested.count(("bad", "Tool call")) == 1
    assert tested.count(("ok", "Tool call")) == 2


def test_call_that_is_not_logged_takes_as_long_as_in_the_transcript(session: Session, reader: Client) -> None:
    ask = {"kind": "tool_call", "id": "c1", "name": "find_order", "args": {}}
    found = {"kind": "tool_result", "call_id": "c1", "content": "x"}
    bodies: list[dict[str, object]] = [{"role": "assistant", "blocks": [ask]}, {"role": "tool", "blocks": [found]}]
    for body, message_at, saved_at in zip(bodies, (1.991, 2.004), (2, 2.006), strict=True):
        message = make_message(session=session, body=body)
        Message.objects.filter(pk=message.pk).update(created_at=THEN + timedelta(seconds=message_at))
        version = make_checkpoint(session=session)
        Checkpoint.objects.filter(pk=version.pk).update(created_at=THEN + timedelta(seconds=saved_at))
    transcript = reader.get(f"/sessions/{session.pk}/").content.decode()
    assert re.findall(r'title="Time from the call to its result">([^<]*)<', transcript) == ["13 ms"]
    words = read_visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert "10:42:09.109 find_order Tool call completed, version 2 saved 10:42:09.124 13 ms 1" in words


def test_only_turns_of_the_list_are_named_where_there_are_many(
    session: Session, reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_contents, "MAX_TURNS", 2)
    save_turns_with_messages(session)
    call(session, 55, tool="refund_card")
    words = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert [name for name in NAMED_TURNS if name not in words] == []
    assert "<title>Turn of version 5: saved 10:42:57.118, 10 s</title>" in page(reader, session)


def test_page_says_why_tools_have_no_bars(session: Session, reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    unlogged, many = "Calls that are not logged, such as those of tools that only read", "There are too many turns"
    save_turns_with_messages(session)
    for tool in ("refund_card", "find_order", "find_payment"):
        call(session, 55, call_id=tool, tool=tool)
    assert unlogged not in visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    ToolCall.objects.filter(tool="find_order").delete()
    words = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert unlogged in words
    assert many not in words
    monkeypatch.setattr(turn_contents, "MAX_TURNS", 2)
    words = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert unlogged not in words
    assert many in words


def test_contents_of_a_turn_after_versions_that_are_gone_are_not_guessed(session: Session, reader: Client) -> None:
    save_turns_with_messages(session)
    Checkpoint.objects.filter(version__lt=5).delete()
    words = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert "Turn of version 5 Turn" in words
    assert "Model answer (lamp-4), refund_card Turn version 6 10 s 1" in words


def test_names_of_any_length_in_a_transcript_leave_the_page_small(session: Session, reader: Client) -> None:
    """A message may name any text as its model or tool. A drawing with each beginning of it would take minutes."""
    for number, length in enumerate((150, 10_000), 1):
        call_id = f"c{number}"
        called = {"kind": "tool_call", "id": call_id, "name": "t" * length, "args": {}}
        make_message(session=session, body={"role": "assistant", "model": "m" * length, "blocks": [called]})
        make_message(session=session, body={"role": "tool", "blocks": [{"kind": "tool_result", "call_id": call_id}]})
        version = make_checkpoint(session=session)
        Checkpoint.objects.filter(pk=version.pk).update(created_at=THEN + timedelta(seconds=10 * number))
    words = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert f"Model answer ({'m' * 59}…), {'t' * 59}… Turn version 1" in words
    assert "Model answer, a tool Turn version 2" in words
    assert "t" * 60 not in page(reader, session)


@pytest.mark.parametrize(
    ("lengths", "known"),
    [
        ([3, 5, 9], [(1, 0, 3), (2, 3, 5), (3, 5, 9)]),
        ([50, 52, 55], [(2, 50, 52), (3, 52, 55)]),  # the first one alone has more than all may have
        ([8, 14, 20], [(2, 8, 14), (3, 14, 20)]),  # together they have more: the newest come first
        ([3, None, 9], [(1, 0, 3)]),  # what version 2 added is part of the difference to version 3
    ],
)
def test_messages_that_versions_added_are_known_for_the_newest_ones(
    lengths: list[int | None], known: list[tuple[int, int, int]]
) -> None:
    versions = [
        turn_contents.VersionMessages(version, length, 7, 0) for version, length in enumerate(lengths, 1) if length
    ]
    pairs = zip([None, *versions[:-1]], versions, strict=True)
    ranges = turn_contents.list_added_message_ranges(pairs, most=12)
    assert [(added.version, added.first, added.upto) for added in ranges] == known


def test_turn_that_got_a_stored_result_again_has_not_failed(session: Session, reader: Client) -> None:
    """A framework refuses the call to give the stored result to the model, so that the result is an error there."""
    logged = call(session, 12, call_id="first", tool="mcp__shop__refund", args={"order": 17}, step=0)
    ToolCall.objects.filter(pk=logged).update(replay_count=1)
    ask = {"kind": "tool_call", "id": "again", "name": "mcp__shop__refund", "args": {"order": 17}}
    result = {"kind": "tool_result", "call_id": "again", "content": "not made again: done", "is_error": True}
    turns: list[dict[str, object]] = [{"role": "assistant", "blocks": [ask]}, {"role": "tool", "blocks": [result]}]
    for number, body in enumerate(turns, 1):
        make_message(session=session, body=body)
        version = make_checkpoint(session=session)
        Checkpoint.objects.filter(pk=version.pk).update(created_at=THEN + timedelta(seconds=20 * number))
    html = page(reader, session)
    words = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert "Stored result stored result given again, version 2 – 1" in words
    assert html.count("mcp__shop__refund") == html.count("<title>mcp__shop__refund</title>") == 2
    assert "chip bad" not in html
    ToolCall.objects.filter(pk=logged).update(replay_count=0)
    words = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert "refund Tool results refund failed, version 2" in words


def save_result_of_call_before_resume(
    session: Session, *, asked_by_run: bool, given_by_run: bool, answers: bool = False, **fields: Any
) -> int:
    """Save what adapters save when a run dies in a tool, a person says that it happened, and another run resumes.

    The result keeps the id of its call. Return the key of the call.
    """
    first = Run.objects.get(session=session)
    asked = {"kind": "tool_call", "id": "refund-1", "name": "refund", "args": {"order": 17}}
    make_message(session=session, role="assistant", blocks=[asked])
    make_checkpoint(session=session, run=first)
    given: dict[str, Any] = {"status": CallStatus.COMPLETED, "replay_count": 1, "answered_version": 2} | fields
    pk = call(session, 12, call_id="refund-1", tool="refund", args={"order": 17}, step=1, **given)
    begin = THEN + timedelta(seconds=60)
    resumed = make_run(session=session, started_at=begin, heartbeat_at=begin + timedelta(seconds=30))
    result = {"kind": "tool_result", "call_id": "refund-1", "content": "refunded 40"}
    make_message(session=session, role="tool", blocks=[result])
    if answers:
        make_message(session=session, role="assistant", text="Refunded.")
    make_checkpoint(session=session, run=resumed)
    for version, by_run, second in ((1, asked_by_run, 5), (2, given_by_run, 80)):
        saved = Checkpoint.objects.filter(session=session, version=version)
        saved.update(created_at=THEN + timedelta(seconds=second))
        if not by_run:
            saved.update(run=None)
    return pk


@pytest.mark.parametrize(
    ("asked_by_run", "given_by_run", "answers"),
    [
        (True, True, False),  # the library's own client, which saves after each step
        (True, True, True),  # the same, where a version has the whole turn
        (False, True, False),  # LangGraph, OpenAI Agents, Strands, ADK
        (False, False, True),  # Pydantic AI
    ],
)
def test_stored_result_that_a_later_run_gave_is_no_work(
    session: Session, reader: Client, asked_by_run: bool, given_by_run: bool, answers: bool
) -> None:
    pk = save_result_of_call_before_resume(
        session, asked_by_run=asked_by_run, given_by_run=given_by_run, answers=answers
    )
    html = page(reader, session)
    words = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert "Stored result stored result given again, version 2 – 2" in words
    title = "<title>refund: stored result given again, version 2 saved 10:43:27.118</title>"
    mark = f'<a href="/sessions/{session.pk}/calls/{pk}/" tabindex="-1">{title}<rect class="replay"'
    assert html.count(mark) == 2  # on a wide and on a narrow screen
    assert '<rect class="replay" x="1" y="1" width="20" height="10" rx="2"/></svg>Stored result given again' in html
    assert 'class="tools"' not in html
    assert ("Model answer Model answer version 2" in words) == (given_by_run and answers)
    assert "Version 2 Version saved outside of a run" in words if not given_by_run else "Version 2 Version" not in words


@pytest.mark.parametrize(
    "fields",
    [
        {"replay_count": 0},  # the run that started it saved nothing, the next one found its result in the log
        {"status": CallStatus.FAILED},
        {"status": CallStatus.REJECTED},
    ],
)
def test_result_that_is_not_a_stored_one_is_among_the_tools_of_its_turn(
    session: Session, reader: Client, fields: dict[str, Any]
) -> None:
    save_result_of_call_before_resume(session, asked_by_run=True, given_by_run=True, **fields)
    words = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert "refund Tool results version 2" in words
    assert "given again, version" not in words


def test_result_that_the_run_of_its_call_saved_is_no_stored_one(session: Session, reader: Client) -> None:
    """The stored result was given afterwards, to a call that is not saved yet."""
    save_result_of_call_before_resume(session, asked_by_run=True, given_by_run=True)
    Checkpoint.objects.filter(version=2).update(run=Run.objects.get(number=1), created_at=THEN + timedelta(seconds=20))
    words = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert "refund Tool results version 2" in words


def test_call_that_ran_after_an_equal_one_whose_stored_result_was_given_is_work(
    session: Session, reader: Client
) -> None:
    save_result_of_call_before_resume(session, asked_by_run=True, given_by_run=True)
    call(session, 85, call_id="refund-2", tool="refund", args={"order": 17}, step=2, answered_version=3)
    again = {"kind": "tool_call", "id": "refund-2", "name": "refund", "args": {"order": 17}}
    make_message(session=session, role="assistant", blocks=[again])
    make_message(
        session=session, role="tool", blocks=[{"kind": "tool_result", "call_id": "refund-2", "content": "refunded"}]
    )
    make_checkpoint(session=session)
    Checkpoint.objects.filter(version=3).update(created_at=THEN + timedelta(seconds=90))
    words = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert "Model answer, refund Turn version 3" in words
    assert words.count("Stored result stored result given again") == 1
