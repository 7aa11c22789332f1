"""The fork page: preview, permissions and result."""

import csv
import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import models
from django.test import Client

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.decisions.actors import Actor
from checkpoints.enums import IMPORTED_MARK, ActorKind, CallStatus, CostBasis, KeyScope, Role, RunStatus, SessionStatus
from checkpoints.exceptions import NotPermitted
from checkpoints.models import AuditEvent, Checkpoint, Decision, Run, Session, ToolCall, Workflow
from checkpoints.seals.witness_file import FileWitness
from checkpoints.sessions.new_session_fields import TITLE_LENGTH
from harness_site.sessions.selectors import (
    call_records,
    fork_list_and_preview,
    tool_success_rates,
    version_lookup,
    workspace_call_log,
)
from harness_site.sessions.selectors.workspace_call_log import CallLogFilter, LoggedCall
from harness_site.sessions.timeline.selectors import run_lanes
from tests.conftest import Open
from tests.support.audit_entries import list_entries
from tests.support.factories import (
    THEN,
    make_call,
    make_checkpoint,
    make_message,
    make_messages,
    make_run,
    make_session,
    make_user,
)
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]
SCRIPT = "<script>alert(1)</script>"
#: Pages that name the original of a fork, or the forks of a session.
PAGES_OF_FORKS = ("", "versions/", "calls/", "plan/", "timeline/", "history/")


@pytest.fixture
def session() -> Session:
    session = make_session(session_id="origin")
    make_run(session=session)
    make_messages(session=session, texts=["The lamp is broken.", "I am sorry."])
    make_checkpoint(session=session, length=1)
    make_checkpoint(session=session)
    return session


@pytest.fixture
def approver(client: Client) -> Client:
    client.force_login(make_user())
    return client


@pytest.fixture
def auditor() -> Client:
    client = Client()
    client.force_login(make_user(name="carol", role=Role.AUDITOR))
    return client


def path(session: Session) -> str:
    return f"/sessions/{session.pk}/fork/"


def call(session: Session, status: CallStatus, count: int = 1, **fields: object) -> None:
    for number in range(count):
        make_call(session=session, call_id=f"{status}-{number}", status=status, **fields)  # type: ignore[arg-type]


def send_note(text: str) -> str:
    return f"sent {text}"


def fork_by_form(session: Session, approver: Client, name: str = "origin-fork") -> Session:
    approver.post(path(session), {"version": 2, "session_id": name})
    return Session.objects.get(session_id=name)


def test_only_members_who_may_fork_are_offered_forks(session: Session, approver: Client, auditor: Client) -> None:
    link = f"/sessions/{session.pk}/fork/?v=1"
    assert link in approver.get(f"/sessions/{session.pk}/versions/").content.decode()
    assert link not in auditor.get(f"/sessions/{session.pk}/versions/").content.decode()


def test_page_without_a_plan_shows_code_to_admins_only(session: Session, approver: Client, client: Client) -> None:
    assert "session.append" not in visible_text(approver.get(f"/sessions/{session.pk}/plan/"))
    client.force_login(make_user(name="dora", role=Role.ADMIN))
    assert "session.append" in visible_text(client.get(f"/sessions/{session.pk}/plan/"))


def test_page_lists_what_the_fork_copies(session: Session, approver: Client) -> None:
    call(session, CallStatus.COMPLETED, 2)
    call(session, CallStatus.FAILED)
    call(session, CallStatus.AWAITING_APPROVAL, 3)
    make_call(session=session, call_id="w", status=CallStatus.COMPLETED, key_scope=KeyScope.WORKSPACE)
    Workflow.objects.create(session=session, workflow_id="w")
    words = visible_text(approver.get(path(session), {"v": 1}))
    assert "Fork from version 1" in words
    assert re.search(r"1 message (the plan )?the cost of \$0\.031", words)
    status = f'href="/sessions/{session.pk}/calls/?status=failed"'
    assert status in approver.get(path(session), {"v": 1}).content.decode()
    assert "2 completed calls: if the agent asks for them again, the recorded results are returned" in words
    assert "1 call of an operation that the whole workspace shares" in words
    assert "1 workflow with its journal" in words
    assert "3 calls: Awaiting approval" in words
    assert "1 call: Failed" in words
    assert "undecided" not in words.replace("Paused — 3 calls await approval", "")


def test_page_says_that_undecided_calls_stay_undecided(session: Session, approver: Client) -> None:
    call(session, CallStatus.INTERRUPTED)
    call(session, CallStatus.ISSUED)
    words = visible_text(approver.get(path(session)))
    assert "2 calls are undecided, and stay undecided in the fork." in words
    assert "approve one more run in at most one of the two sessions, otherwise the call runs twice." in words
    assert words.count("Refund card: amount 40.00, currency EUR, order 17") == 2
    assert "A process works on this session: the calls that it runs now are among them." in words
    Run.objects.update(status=RunStatus.WAITING)
    assert "A process works on this session" not in visible_text(approver.get(path(session)))


def test_review_masks_secrets_in_the_id_of_a_session_with_the_same_call(session: Session, approver: Client) -> None:
    call(session, CallStatus.INTERRUPTED, step=2)
    original = ToolCall.objects.get()
    fork = ToolCall.objects.get(session=fork_by_form(session, approver)).session
    Session.objects.filter(pk=fork.pk).update(session_id="fork-Xk7fooBarQz9")
    page = f"/review/calls/{original.pk}/"
    assert "fork-Xk7fooBarQz9" in visible_text(approver.get(page))
    make_call(session=fork, tool="log_in", args={"password": "Xk7fooBarQz9"})
    assert "Xk7fooBarQz9" not in approver.get(page).content.decode()
    assert "A fork has copied this call" in visible_text(approver.get(page))


def test_review_says_that_an_undecided_call_and_its_copy_are_one(session: Session, approver: Client) -> None:
    call(session, CallStatus.INTERRUPTED, step=2)
    original = ToolCall.objects.get()
    alone = approver.get(f"/review/calls/{original.pk}/").content.decode()
    assert "same-calls" not in alone
    assert "Approve it in one session only." not in alone
    copy = ToolCall.objects.get(session=fork_by_form(session, approver))
    for one, other, heading in ((original, copy, "A fork has copied this call"), (copy, original, "This is a copy")):
        page = approver.get(f"/review/calls/{one.pk}/")
        shown = visible_text(page)
        assert heading in shown
        assert f"{other.session.session_id} (Outcome unknown) Each session needs its own decision." in shown
        assert f'<a href="/review/calls/{other.pk}/">' in page.content.decode()
        assert "Approve it in one session only." in shown
        is_copy = one == copy
        assert ("Run 1 on" in shown) is not is_copy
        assert ("A run of the original session logged the call before the tool started" in shown) is is_copy
        assert ("That run was lost: its process ended without reporting" in shown) is is_copy
        assert ("last sign of life" in shown) is not is_copy
    queue = visible_text(approver.get("/review/"))
    assert queue.count("copy of the call in") == 1
    assert f"copy of the call in {session.session_id}" in queue
    assert "interrupted within" not in queue


def test_review_of_a_copied_call_has_the_decision_about_its_original(
    session: Session, approver: Client, settings: Any
) -> None:
    call(session, CallStatus.INTERRUPTED, step=2)
    settings.HARNESS_SEAL_KEY = "5e" * 32
    call_command("seal_sessions", verbosity=0)
    original = ToolCall.objects.get()
    copy = ToolCall.objects.get(session=fork_by_form(session, approver))
    form = {"kind": "confirm_landed", "reason": "The processor lists rf-17.", "revision": original.revision}
    assert approver.post(f"/review/calls/{original.pk}/", form).status_code == 302
    page = f"/review/calls/{copy.pk}/"
    shown = visible_text(approver.get(page))
    decided = (
        r"origin \(Completed\): alice \(you\) confirmed at [:0-9]+ that it happened — “The processor lists rf-17.”"
    )
    assert re.search(decided, shown)
    assert "Another session records that it happened: with one more run, it happens twice." in shown
    models.QuerySet(Decision).update(reason="Nothing was refunded.")
    altered = visible_text(approver.get(page))
    assert "a record that is not as it was written" in altered
    assert "Nothing was refunded" not in altered


def test_fork_gets_the_entered_title_or_that_of_its_original(session: Session, approver: Client) -> None:
    for number, (entered, title) in enumerate(
        (("With a voucher", "With a voucher"), (session.title, session.title), ("", session.title))
    ):
        approver.post(path(session), {"version": 2, "session_id": f"fork-{number}", "title": entered})
        assert Session.objects.get(session_id=f"fork-{number}").title == title


def test_suggested_title_says_that_it_is_a_fork_and_keeps_what_is_masked(session: Session, approver: Client) -> None:
    Session.objects.filter(pk=session.pk).update(title=f"Call with sk-ant-{'a1B2' * 12}")
    fields = approver.get(path(session), {"v": "2"}).context["form"].initial
    assert fields["title"] == fields["suggested_title"] == "Call with ‹masked› (fork of v2)"
    approver.post(path(session), {key: fields[key] for key in ("version", "session_id", "title", "suggested_title")})
    session.refresh_from_db()
    assert Session.objects.get(session_id=fields["session_id"]).title == f"{session.title} (fork of v2)"


def test_suggested_title_is_no_longer_than_a_title_may_be(session: Session, approver: Client) -> None:
    for title, suggested in (("", ""), ("x" * TITLE_LENGTH, f"{'x' * (TITLE_LENGTH - 14)}… (fork of v1)")):
        Session.objects.filter(pk=session.pk).update(title=title)
        assert approver.get(path(session), {"v": "1"}).context["form"].initial["title"] == suggested


def test_id_with_spaces_or_slashes_has_a_hint_and_is_accepted(session: Session, approver: Client) -> None:
    html = approver.get(path(session)).content.decode()
    pattern = re.search(r'name="session_id"[^>]* pattern="([^"]+)"', html)
    assert pattern is not None
    assert [bool(re.fullmatch(pattern[1], name)) for name in ("a-b.c_1", "a b", "a/b", "a\\b")] == [True] + [False] * 3
    assert "An id may have spaces and slashes" in html
    assert approver.post(path(session), {"version": 1, "session_id": "a b/c"}).status_code == 302
    assert Session.objects.filter(session_id="a b/c").exists()


def test_calls_after_the_version_are_counted(session: Session, approver: Client) -> None:
    call(session, CallStatus.COMPLETED, 2, issued_at="2999-01-01T00:00Z")
    words = visible_text(approver.get(path(session)))
    sentence = "2 completed calls started after this version, and their side effects are not undone."
    assert words.index(sentence) < words.index("Copied to the fork")


def test_undecided_call_names_the_later_version_that_made_it(session: Session, approver: Client) -> None:
    call(session, CallStatus.INTERRUPTED, step=2)
    assert "order 17 made in v2, after this version" in visible_text(approver.get(path(session), {"v": 1}))
    assert "made in v2" not in visible_text(approver.get(path(session), {"v": 2}))


def test_unanswered_imported_call_of_the_version_needs_no_decision(session: Session, approver: Client) -> None:
    for step, status in ((1, CallStatus.DISCARDED), (2, CallStatus.ISSUED)):
        call(session, status, step=step, side_effects=IMPORTED_MARK)
    call(session, CallStatus.COMPLETED, step=1, side_effects=IMPORTED_MARK)
    first, second = (visible_text(approver.get(path(session), {"v": version})) for version in (1, 2))
    assert "The transcript has no result for 1 call. Nobody has to decide about it, but the agent" in first
    assert "1 completed call of the transcript, to be read: if the agent asks for it again, the tool runs" in first
    assert "The transcript has no results for 2 calls." in second
    assert "2 calls without a result in the transcript" in second
    assert "undecided" not in first + second
    assert fork_by_form(session, approver).status == SessionStatus.ACTIVE


def test_page_names_nothing_that_the_session_lacks(session: Session, approver: Client) -> None:
    first, newest = (visible_text(approver.get(path(session), {"v": version})) for version in (1, 2))
    assert "the messages after version 1, and all other versions" in first
    assert "Not copied the earlier versions" in newest
    assert "completed call" not in first
    assert "the agent, labels and metadata" in first
    Session.objects.update(scratchpad_root="/srv/pad")
    response = approver.get(path(session), {"v": 1})
    words = visible_text(response)
    assert "the path of the scratchpad folder" in words
    assert "Both sessions write to the same scratchpad folder: /srv/pad" in words
    assert "scratchpad" not in first
    choice = response.content.decode().partition('name="v">')[2].partition("</select>")[0]
    assert choice == '<option value="2">2</option><option value="1" selected>1</option>'


def test_fork_matches_the_preview(session: Session, approver: Client) -> None:
    call(session, CallStatus.COMPLETED, 2)
    call(session, CallStatus.INTERRUPTED)
    call(session, CallStatus.FAILED)
    second = version_lookup.load_version(session.pk, 2)
    assert second is not None
    found = fork_list_and_preview.load_fork_preview(session.pk, second)
    approver.post(path(session), {"version": 2, "session_id": "copy"})
    carried = ToolCall.objects.filter(session__session_id="copy")
    statuses = sorted(carried.values_list("status", flat=True))
    assert statuses == ["completed"] * found.settled + ["interrupted"] * found.open
    assert found.left == ((CallStatus.FAILED, 1),)
    copy = Session.objects.get(session_id="copy")
    assert "Paused — 1 call needs a decision" in visible_text(approver.get(f"/sessions/{copy.pk}/"))


def test_fork_is_created_and_recorded_with_its_author(session: Session, approver: Client) -> None:
    answer = approver.post(path(session), {"version": 1, "session_id": "copy"})
    copy = Session.objects.get(session_id="copy")
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/sessions/{copy.pk}/")
    assert (copy.forked_from_id, copy.forked_version, copy.message_count) == (session.pk, 1, 1)
    told = AuditEvent.objects.filter(kind="session_forked").order_by("pk")
    assert [(event.session_id, event.actor, event.actor_kind) for event in told] == [
        (session.pk, "alice", "person"),
        (copy.pk, "alice", "person"),
    ]
    assert all(json.loads(event.details)["address"] == "127.0.0.1" for event in told)
    assert "alice forked origin at v1 into copy" in visible_text(approver.get(f"/sessions/{session.pk}/history/"))


def test_form_that_a_script_has_sent_is_answered_with_the_address_of_the_fork(
    session: Session, approver: Client
) -> None:
    sent = {"version": 1, "session_id": "copy"}
    response = approver.post(path(session), sent, headers={"HX-Request": "true"})
    copy = Session.objects.get(session_id="copy")
    assert (response.status_code, response.headers["HX-Redirect"]) == (200, f"/sessions/{copy.pk}/")
    assert approver.post(path(session), sent, headers={"HX-Request": "true"}).status_code == 422


def test_another_version_keeps_what_was_typed_and_renames_a_suggested_id(session: Session, approver: Client) -> None:
    typed = {"v": "2", "session_id": "my own", "suggested_id": "origin-fork-v1", "title": "What if"}
    fields = approver.get(path(session), typed).context["form"].initial
    assert (fields["version"], fields["session_id"], fields["title"]) == (2, "my own", "What if")
    suggested = typed | {"session_id": "origin-fork-v1"}
    answer = approver.get(path(session), suggested, headers={"HX-Request": "true"})
    assert answer.context["form"].initial["session_id"] == "origin-fork-v2"
    suggested = typed | {"title": "Refund (fork of v1)", "suggested_title": "Refund (fork of v1)"}
    assert approver.get(path(session), suggested).context["form"].initial["title"].endswith("(fork of v2)")
    assert answer.headers["HX-Push-Url"] == f"{path(session)}?v=2"


def test_both_sessions_show_the_fork(session: Session, approver: Client) -> None:
    approver.post(path(session), {"version": 1, "session_id": "copy"})
    copy = Session.objects.get(session_id="copy")
    here = approver.get(f"/sessions/{session.pk}/plan/")
    assert "Forks: copy from version 1" in visible_text(here)
    assert f'href="/sessions/{copy.pk}/"' in here.content.decode()
    there = approver.get(f"/sessions/{copy.pk}/plan/")
    assert "Forked from version 1 of origin" in visible_text(there)
    assert f'href="/sessions/{session.pk}/?v=1"' in there.content.decode()


def test_secrets_in_the_ids_of_an_original_and_its_fork_are_masked_on_the_pages_of_both(approver: Client) -> None:
    original = make_session(session_id="login-Xk7fooBarQz9")
    make_call(session=original, call_id="copied", step=1, status=CallStatus.COMPLETED, result="done")
    make_messages(session=original, texts=["The lamp is broken.", "I am sorry."])
    make_checkpoint(session=original)
    approver.post(path(original), {"version": 1, "session_id": "login-Qz9barFooXk7"})
    fork = Session.objects.get(session_id="login-Qz9barFooXk7")
    secrets = {original: "Xk7fooBarQz9", fork: "Qz9barFooXk7"}
    for each, secret in secrets.items():
        make_call(session=each, call_id=f"login-{each.pk}", args={"password": secret})
    pages = {(one, page): approver.get(f"/sessions/{one.pk}/{page}") for one in secrets for page in PAGES_OF_FORKS}
    shown = {
        (one.pk, page): [secret for secret in secrets.values() if secret in response.content.decode()]
        for (one, page), response in pages.items()
    }
    assert {place: found for place, found in shown.items() if found} == {}
    exported = b"".join(approver.get(f"/sessions/{fork.pk}/export/jsonl/").streaming_content)  # type: ignore[attr-defined]
    assert [secret.encode() in exported for secret in secrets.values()] == [False] * 2
    assert "Forks: login-‹masked›" in visible_text(pages[original, "plan/"])
    assert "Forked from version 1 of login-‹masked›" in visible_text(pages[fork, "plan/"])


def test_fork_has_no_process_and_no_duration_before_it_is_resumed(session: Session, approver: Client) -> None:
    fork = fork_by_form(session, approver)
    words = visible_text(approver.get(f"/sessions/{fork.pk}/"))
    assert "No process yet" in words
    assert "Duration" not in words
    make_run(session=fork, number=1)
    words = visible_text(approver.get(f"/sessions/{fork.pk}/"))
    assert "No process yet" not in words
    assert "Duration" in words


def test_page_of_a_new_fork_confirms_it_and_says_how_to_continue(session: Session, approver: Client) -> None:
    fork = fork_by_form(session, approver)
    words = visible_text(approver.get(f"/sessions/{fork.pk}/"))
    line = 'with cp.session("origin-fork", registry=registry) as session:'
    sentence = "No process works on it yet. A program continues it by the id of the session:"
    assert f"Created from v2 of origin. {sentence} {line}" in words
    assert "Created from" not in visible_text(approver.get(f"/sessions/{fork.pk}/plan/"))
    make_run(session=fork, number=1)
    assert "Created from" not in visible_text(approver.get(f"/sessions/{fork.pk}/"))


def test_page_of_a_new_fork_says_that_a_call_has_to_be_decided_first(session: Session, approver: Client) -> None:
    call(session, CallStatus.INTERRUPTED, 2)
    words = visible_text(approver.get(f"/sessions/{fork_by_form(session, approver).pk}/"))
    assert "It can continue when the 2 calls that were undecided in the original are decided here." in words


def test_page_of_a_new_fork_counts_the_calls_that_its_original_made_later(session: Session, approver: Client) -> None:
    make_call(session=session, call_id="before", step=1, status=CallStatus.COMPLETED, answered_version=2)
    words = visible_text(approver.get(f"/sessions/{fork_by_form(session, approver).pk}/"))
    assert "after this version" not in words
    make_call(session=session, call_id="after", step=2, status=CallStatus.COMPLETED, answered_version=3)
    make_call(session=session, call_id="unanswered", step=2, status=CallStatus.COMPLETED)
    approver.post(path(session), {"version": 2, "session_id": "later"})
    words = visible_text(approver.get(f"/sessions/{Session.objects.get(session_id='later').pk}/"))
    assert "2 calls that the original made after this version have been copied, too." in words


def test_copied_calls_name_the_runs_of_their_original(session: Session, approver: Client) -> None:
    run = make_run(session=session, number=7)
    make_call(session=session, call_id="paid", run=run, step=1, status=CallStatus.COMPLETED, settled_at=THEN)
    fork = fork_by_form(session, approver)
    copy = ToolCall.objects.get(session=fork)
    words = visible_text(approver.get(f"/sessions/{fork.pk}/calls/"))
    assert "run 7 of origin" in words
    assert "Run run 7 of origin" in visible_text(approver.get(f"/sessions/{fork.pk}/calls/{copy.pk}/"))
    approver.post(path(fork), {"version": 1, "session_id": "again"})
    again = Session.objects.get(session_id="again")
    assert "from origin-fork" in visible_text(approver.get(f"/sessions/{again.pk}/calls/"))


@pytest.mark.parametrize("page", ["", "timeline/"])
def test_copied_calls_are_drawn_apart_from_the_runs_of_the_fork(session: Session, approver: Client, page: str) -> None:
    call(session, CallStatus.COMPLETED, settled_at=THEN + timedelta(seconds=1))
    fork = fork_by_form(session, approver)
    words = visible_text(approver.get(f"/sessions/{fork.pk}/{page}"))
    assert "from origin The fork has copied 1 tool call from origin." in words
    assert "run 0" not in words
    make_run(session=fork, number=1)
    words = visible_text(approver.get(f"/sessions/{fork.pk}/{page}"))
    assert "from origin The fork" in words
    assert "run 1 " in words


@pytest.mark.parametrize("page", ["", "timeline/"])
def test_first_version_of_a_fork_is_drawn_in_the_lane_of_the_fork(
    session: Session, approver: Client, page: str
) -> None:
    call(session, CallStatus.COMPLETED, settled_at=THEN + timedelta(seconds=1))
    fork = fork_by_form(session, approver)
    drawing = approver.get(f"/sessions/{fork.pk}/{page}").content.decode().partition('<svg class="drawing')[2]
    copied, _, rest = drawing.partition(">fork<title>This is where the fork began.</title>")
    assert "refund_card: " in copied
    assert "Version 1" not in copied
    assert "Version 1" in rest.partition("</svg>")[0]


def test_fork_without_copied_calls_has_no_lane_of_its_original(session: Session, approver: Client) -> None:
    fork = fork_by_form(session, approver)
    words = visible_text(approver.get(f"/sessions/{fork.pk}/timeline/"))
    assert "copied from origin" not in words
    assert "Version 1 Version beginning of the fork – fork" in words


def test_timeline_of_a_fork_says_what_is_drawn_in_that_of_its_original(session: Session, approver: Client) -> None:
    fork = fork_by_form(session, approver)
    page = approver.get(f"/sessions/{fork.pk}/timeline/")
    assert "Of what happened before the fork, only logged calls are drawn" in visible_text(page)
    assert f'href="/sessions/{session.pk}/timeline/">Open the timeline of the original</a>' in page.content.decode()
    assert "before the fork" not in visible_text(approver.get(f"/sessions/{session.pk}/timeline/"))


def test_wait_of_a_fork_begins_with_the_fork(session: Session, approver: Client) -> None:
    call(session, CallStatus.INTERRUPTED)
    fork = fork_by_form(session, approver)
    timeline = run_lanes.load_timeline_of_newest_runs(fork.pk)
    copied, own = timeline.lanes
    assert [stretch.kind for stretch in copied.stretches] == ["lost"]
    assert [(stretch.kind, stretch.start) for stretch in own.stretches] == [("wait", own.start)]
    rows = visible_text(approver.get(f"/sessions/{fork.pk}/timeline/")).partition("As a list")[2]
    assert "outcome unknown after 3.4 s – copied from origin" in rows
    assert re.search(r"Waits for a person waiting for a person [^–]+ fork", rows)


def test_version_that_a_fork_has_copied_names_the_original(session: Session, approver: Client) -> None:
    fork = fork_by_form(session, approver)
    words = visible_text(approver.get(f"/sessions/{fork.pk}/versions/"))
    assert "Forked the fork copied from origin" in words  # and not the phase of the version that it has copied


def test_transcript_of_a_fork_has_no_handover_from_what_was_copied(session: Session, approver: Client) -> None:
    fork = fork_by_form(session, approver)
    make_messages(session=fork, texts=["More."])
    make_checkpoint(session=fork, run=make_run(session=fork, number=1), length=3)
    assert "took over" not in visible_text(approver.get(f"/sessions/{fork.pk}/"))


@pytest.mark.parametrize(
    ("stored", "named"),
    [
        ({"plan": None, "payload": None}, "2 messages the cost"),
        ({"plan": '{"steps":[]}', "payload": None}, "2 messages the plan the cost"),
        ({"plan": None, "payload": '{"step":3}'}, "2 messages the payload: what the agent’s program saved beside"),
    ],
)
def test_plan_and_payload_are_named_if_the_version_has_them(
    session: Session, approver: Client, stored: dict[str, str | None], named: str
) -> None:
    Checkpoint.objects.filter(session=session, version=2).update(**stored)
    assert named in visible_text(approver.get(path(session)))


def test_tokens_are_not_named_if_their_number_is_unknown(session: Session, approver: Client) -> None:
    Session.objects.filter(pk=session.pk).update(cost_basis=CostBasis.UNKNOWN)
    assert "tokens" not in visible_text(approver.get(path(session))).partition("Copied to the fork")[2]


def test_newest_of_many_forks_are_listed_and_all_counted(session: Session, approver: Client) -> None:
    for number in range(fork_list_and_preview.NAMED + 2):
        approver.post(path(session), {"version": 1, "session_id": f"copy-{number}"})
    words = visible_text(approver.get(f"/sessions/{session.pk}/plan/"))
    assert "Forks: copy-5 from version 1 · compare with the fork copy-5, copy-4 from version 1" in words
    assert "copy-1 from" not in words
    assert "(6 in all, see the history)" in words


def test_missing_permission_is_explained(session: Session, approver: Client, auditor: Client) -> None:
    words = visible_text(auditor.get(path(session)))
    assert "Your role, auditor, does not allow you to create a fork. These members can: alice." in words
    assert "Create the fork" not in words
    assert auditor.post(path(session), {"version": 1, "session_id": "copy"}).status_code == 403
    assert not Session.objects.filter(session_id="copy").exists()
    assert list_entries("session_forked") == []


def test_library_refuses_a_missing_permission(session: Session) -> None:
    with pytest.raises(NotPermitted):
        SyncCheckpointer().fork_session("origin", "copy", actor=Actor(ActorKind.PERSON, "carol", Role.AUDITOR))
    assert not Session.objects.filter(session_id="copy").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("origin", "There already is a session 'origin'. Choose an id that is not taken. Nothing was written."),
        ("", "Enter an id for the new session."),
        ("   ", "is no valid session id: it is empty."),
        ("x" * 256, "Ensure this value has at most 255 characters"),
    ],
)
def test_invalid_id_is_refused_with_a_message(session: Session, approver: Client, name: str, words: str) -> None:
    answer = approver.post(path(session), {"version": 1, "session_id": name})
    assert answer.status_code == 422
    assert words in visible_text(answer)
    assert Session.objects.count() == 1


@pytest.mark.parametrize("version", ["99", "0", "abc", "9" * 30])
def test_unknown_version_is_reported(session: Session, approver: Client, version: str) -> None:
    assert approver.get(path(session), {"v": version}).status_code == 404
    posted = approver.post(path(session), {"version": version, "session_id": "copy"})
    assert posted.status_code in {404, 422}
    assert Session.objects.count() == 1


def test_session_without_versions_cannot_be_forked(approver: Client) -> None:
    answer = approver.get(path(make_session()))
    assert answer.status_code == 404
    assert "This session has no version to continue from." in visible_text(answer)


def test_suggested_id_is_free(session: Session, approver: Client) -> None:
    for expected in ("origin-fork-v2", "origin-fork-v2-2", "origin-fork-v2-3"):
        found = re.search(r'name="session_id" value="([^"]*)"', approver.get(path(session)).content.decode())
        assert found
        assert found[1] == expected
        approver.post(path(session), {"version": 2, "session_id": expected})


def test_every_version_links_to_the_fork_page(session: Session, approver: Client) -> None:
    html = approver.get(f"/sessions/{session.pk}/versions/").content.decode()
    assert re.findall(r"/fork/\?v=(\d+)", html) == ["2", "1"]


def test_versions_show_the_number_of_calls(session: Session, approver: Client) -> None:
    call(session, CallStatus.COMPLETED, 2, step=1)
    make_call(session=session, step=2)
    words = visible_text(approver.get(f"/sessions/{session.pk}/versions/"))
    assert "2 logged calls: refund_card ×2" in words
    assert "1 logged call: refund_card" in words


def test_text_of_agents_is_escaped(approver: Client) -> None:
    session = make_session(session_id=SCRIPT, title=SCRIPT)
    make_run(session=session)
    make_checkpoint(session=session)
    make_call(session=session, tool=SCRIPT, sentence=SCRIPT)
    approver.post(path(session), {"version": 1, "session_id": f"{SCRIPT}2"})
    for page in ("fork/", "plan/"):
        html = approver.get(f"/sessions/{session.pk}/{page}").content.decode()
        assert SCRIPT not in html
        assert "&lt;script&gt;alert(1)" in html


@pytest.mark.unsealed("its number of statements is that without seals")
@pytest.mark.parametrize("count", [1, 3])
def test_query_count_is_independent_of_the_calls(
    session: Session, approver: Client, count: int, django_assert_num_queries: Queries
) -> None:
    call(session, CallStatus.INTERRUPTED, count)
    call(session, CallStatus.COMPLETED, count)
    call(session, CallStatus.FAILED, count)
    with django_assert_num_queries(18):
        approver.get(path(session))


def test_name_of_a_session_that_only_the_witness_knows_is_refused(
    open_checkpointer: Open, client: Client, tmp_path: Path, settings: Any
) -> None:
    FileWitness.create_storage(tmp_path / "witness")
    settings.HARNESS_SEAL_KEY, settings.HARNESS_WITNESS = "5e" * 32, str(tmp_path / "witness")
    cp = open_checkpointer()
    for name in ("origin", "copy"):
        cp.start_session(name)
        cp.save_checkpoint(name, [{"id": "m", "role": "user", "blocks": []}], {}, 0)
        cp.release_session(name)
    models.QuerySet(Session).filter(session_id="copy").update(session_id="hidden")
    client.force_login(make_user())
    response = client.post(path(Session.objects.get(session_id="origin")), {"version": 1, "session_id": "copy"})
    assert response.status_code == 409
    assert "The session “copy” was not created: the witness knows a session of this name" in visible_text(response)
    hidden = Session.objects.get(session_id="hidden")
    assert f"/sessions/{hidden.pk}/quarantine/" in response.content.decode()


def test_copied_calls_name_the_version_of_the_original(session: Session, approver: Client) -> None:
    make_call(session=session, call_id="c1", step=1, status=CallStatus.COMPLETED)
    fork = fork_by_form(session, approver)
    copied = ToolCall.objects.get(session=fork)
    assert copied.step < 0
    words = approver.get(f"/sessions/{fork.pk}/calls/").content.decode()
    assert (
        f'data-label="logged at"><a href="/sessions/{session.pk}/?v=1" title="origin">v1 in the original</a>' in words
    )
    assert "v-" not in visible_text(approver.get(f"/sessions/{fork.pk}/calls/"))
    assert "v-" not in visible_text(approver.get(f"/sessions/{fork.pk}/calls/{copied.pk}/"))
    assert "v-" not in visible_text(approver.get(f"/review/calls/{copied.pk}/"))


def test_copied_calls_of_a_deleted_original_have_no_version(session: Session, approver: Client) -> None:
    make_call(session=session, call_id="c1", step=1, status=CallStatus.COMPLETED)
    fork = fork_by_form(session, approver)
    Session.objects.filter(pk=fork.pk).update(forked_from=None, forked_version=None)
    assert 'data-label="logged">in the original</td>' in approver.get(f"/sessions/{fork.pk}/calls/").content.decode()


def test_calls_that_the_original_made_after_the_forked_version_are_listed_apart(
    session: Session, approver: Client
) -> None:
    completed: dict[str, Any] = {"session": session, "status": CallStatus.COMPLETED}
    make_call(call_id="before", tool="pay", step=1, answered_version=2, **completed)
    make_call(call_id="later", tool="mail", step=2, answered_version=3, **completed)
    output = '{"output":"no","metadata":{"exit_code":1}}'
    make_call(call_id="command", tool="Bash", step=2, answered_version=4, result=output, **completed)
    fork = fork_by_form(session, approver)
    make_call(session=fork, run=make_run(session=fork), call_id="own", tool="pay", step=1, status=CallStatus.COMPLETED)
    page = f"/sessions/{fork.pk}/calls/"

    def list_calls(query: str) -> tuple[list[str], list[str]]:
        context = approver.get(f"{page}{query}").context
        rows = (context["rows"], context["rows_after_fork"])
        own, after_fork = ([line.record.call_id for line in lines] for lines in rows)
        return own, after_fork

    assert list_calls("") == (["own", "before"], ["command", "later"])
    assert list_calls("?status=completed") == (["own", "before"], [])
    assert list_calls("?status=failed") == ([], [])
    assert list_calls("?tool=mail") == ([], ["later"])
    assert list_calls("?key=before") == (["before"], [])
    words = visible_text(approver.get(page))
    assert "Logged calls 2Files" in words
    own, _heading, after_fork = words.partition("Made by the original after version 2")
    assert own.count("Completed") == 3  # of which one is a choice of the filter
    assert "2 calls of the original have not happened in this fork" in after_fork
    assert "In the original: completed" in after_fork
    assert "In the original: exit 1" in after_fork
    assert "Completed" not in after_fork
    assert '<span class="chip off">In the original: completed</span>' in approver.get(page).content.decode()
    later = ToolCall.objects.get(session=fork, call_id="later")
    assert "In the original: completed" in visible_text(approver.get(f"{page}{later.pk}/"))
    assert "No call of this fork matches the filters." in visible_text(approver.get(f"{page}?tool=mail"))


def test_calls_that_the_original_made_later_have_pages_of_their_own(
    session: Session, approver: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        make_call(session=session, call_id=f"later{number}", step=2, status=CallStatus.COMPLETED)
    fork = fork_by_form(session, approver)
    page = f"/sessions/{fork.pk}/calls/"
    load = call_records.load_page_of_calls_copied_after_fork
    monkeypatch.setattr(call_records, "load_page_of_calls_copied_after_fork", partial(load, size=2))
    first = approver.get(page)
    assert "This fork has no logged call yet." in visible_text(first)
    assert "3 calls of the original have not happened" in visible_text(first)
    link = re.search(r'href="(\?original_before=[^"]+)">Older calls of the original<', first.content.decode())
    assert link is not None
    second = approver.get(page + unescape(link[1]))
    assert [line.record.call_id for line in second.context["rows_after_fork"]] == ["later0"]
    assert "This fork has no logged call yet." not in visible_text(second)
    assert "Clear" in visible_text(second)


def test_export_of_a_fork_has_its_calls_and_says_which_have_not_happened(session: Session, approver: Client) -> None:
    make_call(session=session, call_id="before", step=1, status=CallStatus.COMPLETED, answered_version=2)
    make_call(session=session, call_id="later", step=2, status=CallStatus.COMPLETED)
    fork = fork_by_form(session, approver)
    make_call(session=fork, run=make_run(session=fork), call_id="own", step=1, status=CallStatus.COMPLETED)

    def export(query: str) -> set[tuple[str, str, str, str]]:
        html = approver.get(f"/sessions/{fork.pk}/calls/{query}").content.decode()
        link = re.search(r'href="(/calls/export/[^"]+)" download', html)
        assert link is not None
        lines = b"".join(approver.get(unescape(link[1]))).decode().splitlines()
        return {(row["call"], row["status"], row["recorded_status"], row["copied"]) for row in csv.DictReader(lines)}

    in_fork = {("own", "completed", "completed", ""), ("before", "completed", "completed", "yes")}
    assert export("") == in_fork | {("later", "in_original", "completed", "yes")}
    assert export("?status=completed") == in_fork


def test_copied_calls_name_the_version_of_the_original_that_a_library_has_saved(
    cp: SyncCheckpointer, reader: Client
) -> None:
    """SQLite has the times of the library with other numbers of digits than those of Django."""
    registry = ToolRegistry()
    registry.tool(side_effects={"write"})(send_note)
    with cp.session("origin", "", registry=registry) as run:
        run.append([{"role": "user", "content": "hello"}])
        run.dispatch("send_note", {"text": "a"}, call_id="c1")
    cp.fork_session("origin", "copy")
    fork = Session.objects.get(session_id="copy")
    assert "v1 in the original" in visible_text(reader.get(f"/sessions/{fork.pk}/calls/"))


def test_call_of_a_fork_is_listed_and_rated_once_among_all_calls(session: Session, approver: Client) -> None:
    make_call(session=session, call_id="c1", step=1, status=CallStatus.COMPLETED)
    fork = fork_by_form(session, approver)
    page = workspace_call_log.load_call_log_page(session.workspace_id, CallLogFilter())
    assert [row.session_pk for row in page.rows if isinstance(row, LoggedCall)] == [session.pk]
    assert tool_success_rates.load_tool_success_rates(session.workspace_id, CallLogFilter()).counted == 1
    rerun = ToolCall.objects.get(session=fork)
    make_call(session=fork, call_id="c1", step=rerun.step, attempt=2, supersedes=rerun, status=CallStatus.FAILED)
    assert tool_success_rates.load_tool_success_rates(session.workspace_id, CallLogFilter()).counted == 2


def test_history_of_both_sessions_has_one_sentence_about_a_fork(session: Session, approver: Client) -> None:
    fork = fork_by_form(session, approver)
    for shown in (session, fork):
        page = approver.get(f"/sessions/{shown.pk}/history/")
        words = visible_text(page)
        assert "alice forked origin at v2 into origin-fork" in words
        assert "· other" not in words
        assert f'href="/sessions/{fork.pk}/"' in page.content.decode()


def test_list_marks_a_fork_and_keeps_the_place_of_its_original(session: Session, approver: Client) -> None:
    Session.objects.filter(pk=session.pk).update(updated_at=THEN)
    revision = Session.objects.get(pk=session.pk).revision
    fork_by_form(session, approver, name="e8db3c60-6a0e-4d6c-9d3c-9aea5629a7e5-fork-v2")
    stored = Session.objects.get(pk=session.pk)
    assert stored.updated_at == THEN
    assert stored.revision > revision
    words = visible_text(approver.get("/sessions/"))
    assert "fork of v2" in words
    assert words.count("1 fork ") == 1  # at the original
    assert "9aea5629a7e5-fork-v2" in words
    assert "e8db3c60-6a0e-4d6c-9d3c-9aea5629a7e5-fork-v2" not in words


@pytest.fixture
def fork_at_a_call(session: Session, approver: Client) -> Session:
    """A fork whose last message asks for a call, of which the original saved the result in the next version."""
    settled_at = THEN + timedelta(seconds=1)
    values: dict[str, Any] = {"session": session, "status": CallStatus.COMPLETED, "settled_at": settled_at}
    blocks: list[dict[str, Any]] = [
        {"kind": "tool_call", "id": name, "name": name, "args": {}} for name in ("read", "write")
    ]
    make_message(session=session, role="assistant", blocks=blocks)
    make_message(session=session, role="tool", blocks=[{"kind": "tool_result", "call_id": "read", "content": "text"}])
    for _saved in range(3):
        make_checkpoint(session=session)
    make_call(call_id="read", tool="read", step=2, answered_version=3, **values)
    make_call(call_id="write", tool="write", step=3, answered_version=4, result='"done"', **values)
    make_call(call_id="mail", tool="mail", step=4, answered_version=5, **values)
    approver.post(path(session), {"version": 3, "session_id": "at-a-call"})
    return Session.objects.get(session_id="at-a-call")


def test_pages_of_a_fork_agree_which_calls_have_not_happened(fork_at_a_call: Session, approver: Client) -> None:
    """A call that the transcript of the fork asks for stands with its own, wherever its result was saved."""
    address = f"/sessions/{fork_at_a_call.pk}/"
    pages = {name: approver.get(f"{address}{name}") for name in ("", "calls/", "timeline/", "versions/", "files/")}
    words = {name: visible_text(page) for name, page in pages.items()}
    rows = pages["calls/"].context
    assert [line.record.call_id for line in rows["rows"]] == ["write", "read"]
    assert [line.record.call_id for line in rows["rows_after_fork"]] == ["mail"]
    assert all("Logged calls 2" in text for text in words.values())
    asked = ToolCall.objects.get(session=fork_at_a_call, call_id="write")
    assert f'id="call-{asked.pk}"' in pages[""].content.decode()
    assert "Asked before the fork. The original saved the result after it." in words[""]
    sentence = "asked before the fork, the original saved the result after it"
    assert words["calls/"].count(sentence) == 1
    assert "1 call of the original has not happened in this fork" in words["calls/"]
    assert "1 call that the original made after this version" in words[""]
    assert "2 logged calls: read, write" in words["versions/"]
    assert "+1 stored result" in words["versions/"]
    drawn = {item.call_pk for item in pages["timeline/"].context["rows"].items if item.call_pk}
    assert drawn == {line.record.pk for line in rows["rows"]}
    assert "1 call that only the original has made is not drawn" in words["timeline/"]
    assert "mail" not in words["timeline/"].partition("As a list")[2]
    assert "mail" not in words[""].partition("Open the timeline")[0]


def test_filter_and_export_of_a_fork_have_a_call_asked_before_it(fork_at_a_call: Session, approver: Client) -> None:
    page = approver.get(f"/sessions/{fork_at_a_call.pk}/calls/?status=completed")
    assert [line.record.call_id for line in page.context["rows"]] == ["write", "read"]
    for query, expected in (
        ("", {"read": "completed", "write": "completed", "mail": "in_original"}),
        ("?status=completed", {"read": "completed", "write": "completed"}),
    ):
        html = approver.get(f"/sessions/{fork_at_a_call.pk}/calls/{query}").content.decode()
        link = re.search(r'href="(/calls/export/[^"]+)" download', html)
        assert link is not None
        lines = b"".join(approver.get(unescape(link[1]))).decode().splitlines()
        assert {row["call"]: row["status"] for row in csv.DictReader(lines)} == expected


def test_later_call_with_the_id_of_one_asked_before_the_fork_has_not_happened(
    fork_at_a_call: Session, approver: Client
) -> None:
    run = Run.objects.get(session=fork_at_a_call)
    make_call(session=fork_at_a_call, run=run, call_id="write", tool="again", step=-1, status=CallStatus.COMPLETED)
    rows = approver.get(f"/sessions/{fork_at_a_call.pk}/calls/").context
    assert [line.record.tool for line in rows["rows_after_fork"]] == ["again", "mail"]
