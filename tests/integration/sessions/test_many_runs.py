"""Pages of a session that a web application drives: a run for each request, most of them short, and versions that no
run wrote."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from checkpoints import SyncCheckpointer
from checkpoints.models import Run, Session
from harness_site.sessions.selectors import conversation_window
from harness_site.sessions.selectors.conversation_window import NAMED_RUNS, Handover
from harness_site.sessions.timeline.selectors import run_lanes, timeframe_contents
from tests.integration.checkpoints.session_setups import text_message
from tests.support.factories import make_user
from tests.support.page_text import visible_text

TURNS = 40
SILENT = 30


@pytest.fixture
def session(cp: SyncCheckpointer) -> Session:
    """Session with 40 one-turn runs, 30 runs without a version, a version without a run, and one more turn."""
    for turn in range(TURNS):
        with cp.session("s", agent="desk") as handle:
            handle.append([text_message(f"question {turn}"), text_message(f"answer {turn}", "assistant")])
    for _ in range(SILENT):
        with cp.session("s"):
            pass
    cp.append_checkpoint("s", [text_message("from outside")], expected_version=TURNS)
    with cp.session("s") as handle:
        handle.append([text_message("the last one")])
    return Session.objects.get()


def test_pages_list_a_readable_number_of_runs(session: Session, client: Client) -> None:
    client.force_login(make_user())
    pages = {
        name: client.get(reverse(name, args=[session.pk]))
        for name in ("harness_sessions:session", "harness_sessions:session-timeline", "harness_sessions:versions")
    }
    assert {name: page.status_code for name, page in pages.items()} == dict.fromkeys(pages, 200)

    boundaries = re.findall(
        r'<div class="boundary.*?</div>', pages["harness_sessions:session"].content.decode(), re.DOTALL
    )
    many = re.sub(r"<[^>]+>", "", boundaries[-1])
    assert f"run {TURNS} released" in many
    assert f"run {TURNS + SILENT} released" in many
    assert f"{SILENT - 1} more runs between them ended · run {TURNS + SILENT + 1} took over" in many
    assert "from outside" in visible_text(pages["harness_sessions:session"])
    assert f"Version {TURNS + 1}: saved outside of a run" in visible_text(pages["harness_sessions:session-timeline"])
    row = re.search(rf'<tr id="v-{TURNS + 1}">.*?</tr>', pages["harness_sessions:versions"].content.decode(), re.DOTALL)
    assert row is not None
    assert '<span class="muted">outside of a run</span>' in row[0]


def test_head_of_a_session_that_goes_on_without_a_run_names_the_last_one(cp: SyncCheckpointer, client: Client) -> None:
    with cp.session("s") as handle:
        handle.append([text_message("question")])
    cp.append_checkpoint("s", [text_message("from outside")], expected_version=1)
    client.force_login(make_user())
    words = visible_text(client.get(reverse("harness_sessions:session", args=[Session.objects.get().pk])))
    assert "No run works on the session; the last one was run 1" in words


def test_timeline_draws_the_newest_runs(session: Session) -> None:
    drawn = run_lanes.load_timeline_of_newest_runs(session.pk)
    assert (len(drawn.lanes), drawn.complete_since) == (run_lanes.LANES, drawn.lanes[0].start)

    frame = timeframe_contents.load_timeframe(session.pk)
    assert frame is not None
    assert (len(frame.courses), frame.cut is not None) == (timeframe_contents.LANES, True)
    assert [(mark.version, mark.by_run) for course in frame.courses for mark in course.lane.marks] == [
        (TURNS + 1, False),
        (TURNS + 2, True),
    ]


def test_lost_runs_among_many_are_named(session: Session) -> None:
    Run.objects.filter(number__in=[TURNS + 10, TURNS + 15, TURNS + 20]).update(status="lost")
    shown = conversation_window.load_conversation_window(
        session, conversation_window.get_newest_transcript_version(session)
    )
    handovers = [item for item in shown.items if isinstance(item, Handover)]

    assert [run.number for run in handovers[-1].ended_runs_to_name] == [
        TURNS,
        TURNS + 15,
        TURNS + 20,
        TURNS + SILENT,
    ]
    assert (len(handovers[-1].ended_runs_to_name), handovers[-1].unnamed_run_count) == (
        NAMED_RUNS,
        SILENT + 1 - NAMED_RUNS,
    )
    assert all(handover.unnamed_run_count == 0 for handover in handovers[:-1])
