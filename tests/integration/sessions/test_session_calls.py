"""Pages with tool calls, plan and history of a session."""

import csv
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from html import unescape
from typing import Any, cast

import pytest
from django.test import Client
from django.utils.html import escape
from pytest_django.fixtures import Settings

from checkpoints import audit
from checkpoints.enums import ActorKind, AuditKind, CallStatus, DecisionKind, InterruptReason, Role, SessionStatus
from checkpoints.formats import to_canonical_json
from checkpoints.models import AuditEvent, Run, Session, ToolCall
from checkpoints.models.tool_calls_and_results import INTERRUPT_KEY_PREFIX, INTERRUPT_TOOL
from harness_site.sessions.selectors import call_records, session_history
from tests.integration.sessions.conversation_samples import answers, asks, logged
from tests.support.factories import (
    THEN,
    make_call,
    make_checkpoint,
    make_decision,
    make_late_result,
    make_run,
    make_session,
    make_user,
)
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]


@pytest.fixture
def session() -> Session:
    session = make_session()
    make_run(session=session)
    return session


def event(session: Session, kind: AuditKind, **fields: object) -> AuditEvent:
    return AuditEvent.objects.create(
        workspace=session.workspace,
        session=session,
        kind=kind,
        actor_kind=ActorKind.MACHINE,
        actor="run 1",
        **fields,
    )


def test_arguments_and_sentence_have_one_form_on_the_pages_of_a_session_on_paper_and_on_the_decision_page(
    session: Session, reader: Client
) -> None:
    items = [
        {"sku": "E27", "quantity": 400, "unit_price": 1649.0},
        {"sku": "SHD", "quantity": 60, "unit_price": "11.40"},
    ]
    args = {"total_amount": "2309.60", "items": items, "address": {"postcode": "5011"}, "express": False}
    asks(session, args=args, tool="order_goods")
    make_checkpoint(session=session)
    call = logged(session, step=1, args=args, tool="order_goods", sentence="Order goods for 2309.60 EUR")
    lists = []
    for address in ("", "export/print/", f"calls/{call.pk}/", None):
        page = reader.get(f"/review/calls/{call.pk}/" if address is None else f"/sessions/{session.pk}/{address}")
        content = b"".join(page).decode() if page.streaming else page.content.decode()
        assert "Order goods for 2,309.60 EUR" in re.sub("<[^>]*>", "", content), address
        lists += [
            set(
                re.findall(
                    r'<dl class="kv"><dt><bdi>total_amount</bdi></dt>.*?</table></div></dd>.*?</dl></dd>.*?</dl>',
                    content,
                )
            )
        ]
    [shown] = set.union(*lists)
    assert all(len(each) == 1 for each in lists)
    text = " ".join(re.sub("<[^>]*>", " ", shown).split())
    rows = "sku quantity unit_price 1 E27 400 1,649.00 2 SHD 60 11.40"
    assert text == f"total_amount 2,309.60 items {rows} address postcode 5011 express no"


def test_call_list_shows_all_fields(session: Session, reader: Client) -> None:
    call = make_call(
        session=session, status=CallStatus.COMPLETED, settled_at=THEN + timedelta(milliseconds=210), replay_count=2
    )
    make_decision(call=call)
    page = visible_text(reader.get(f"/sessions/{session.pk}/calls/"))
    assert "Refund card: amount 40.00, currency EUR, order 17 refund_card call_9 Completed" in page
    assert re.search(
        r"run 1 stored result given 2 times, the tool did not run again alice: It happened just now v4 210 ms", page
    )
    record = visible_text(reader.get(f"/sessions/{session.pk}/calls/{call.pk}/"))
    assert "stored result given 2 times, the tool did not run again" in record
    assert "Times are in UTC." in page


def test_shell_command_is_shown_without_the_folder_that_it_changes_to(session: Session, reader: Client) -> None:
    command = (
        "cd /srv/work/platform/services/billing/src/main && git add apps/labs/src/app/teams/hooks/useTeamMembers.ts"
    )
    make_call(session=session, tool="Bash", args={"command": command})
    for address in (f"/sessions/{session.pk}/calls/", "/calls/"):
        page = reader.get(address)
        assert "git add …/src/app/teams/hooks/useTeamMembers.ts Bash in …/services/billing/src/main" in visible_text(
            page
        )
        shown = page.content.decode()
        assert f'title="{escape(command)}"' in shown
        assert 'title="/srv/work/platform/services/billing/src/main"' in shown


def _add_call_and_its_message(session: Session, call_id: str, result: str) -> ToolCall:
    """Add a call that the log has with an empty result, and its messages, with this result."""
    args = {"command": "kubectl get pods"}
    step = session.latest_version + 1
    call: ToolCall = logged(session, call_id, tool="Bash", args=args, step=step)
    ToolCall.objects.filter(pk=call.pk).update(result=to_canonical_json(""), answered_version=step + 1)
    asks(session, call_id, args=args, tool="Bash")
    make_checkpoint(session=session)
    answers(session, call_id, result)
    make_checkpoint(session=session)
    return call


def test_call_whose_logged_result_is_empty_shows_the_result_of_the_transcript(session: Session, reader: Client) -> None:
    silent = _add_call_and_its_message(session, "c1", "")
    call = _add_call_and_its_message(session, "c2", "accounts-6c9f 1/1 Running")
    response = reader.get(f"/sessions/{session.pk}/calls/{call.pk}/")
    words = visible_text(response)
    assert "$ kubectl get pods accounts-6c9f 1/1 Running" in words
    assert "No output." not in words
    assert "The result in the log is empty. The one above is in the transcript: v4, message 4" in words
    assert f'href="/sessions/{session.pk}/?v=4&amp;at=3#m-3"' in response.content.decode()

    words = visible_text(reader.get(f"/sessions/{session.pk}/calls/{silent.pk}/"))
    assert "No output." in words
    assert "The result in the log is empty." not in words


def test_exit_code_of_a_failed_command_is_the_status_of_its_call(session: Session, reader: Client) -> None:
    results = {
        "c1": ("shell", '{"output":"fatal","metadata":{"exit_code":128}}'),
        "c2": ("shell", '{"output":"a","metadata":{"exit_code":0}}'),
        "c3": ("Bash", "Exit code 2\nbash: syntax error"),
        "c4": ("ask", "Exit code 3"),
        "c5": ("Bash", "x" * 100_000 + "\nExit code 4"),
    }
    for call_id, (tool, result) in results.items():
        make_call(
            session=session,
            call_id=call_id,
            tool=tool,
            args={"command": "run it"},
            status=CallStatus.COMPLETED,
            result=result,
            settled_at=THEN,
        )
    between = r"(?:fatal |bash: syntax error )?(?:Refund for a broken lamp refund-desk )?"
    for address in (f"/sessions/{session.pk}/calls/", "/calls/"):
        words = visible_text(reader.get(address))
        assert re.findall(rf" (c\d) {between}(Completed|exit \d+)", words) == [
            ("c5", "exit 4"),
            ("c4", "Completed"),
            ("c3", "exit 2"),
            ("c2", "Completed"),
            ("c1", "exit 128"),
        ]
        for status, calls in (("failed", ["c5", "c3", "c1"]), ("completed", ["c4", "c2"])):
            words = visible_text(reader.get(f"{address}?status={status}"))
            assert re.findall(rf" (c\d) {between}(?:Completed|exit)", words) == calls
    page = reader.get(f"/sessions/{session.pk}/timeline/")
    assert re.findall(r"Tool call (exit \d+|completed)", visible_text(page)) == [
        *("exit 128", "completed", "exit 2", "completed", "exit 4"),
    ]
    rates = visible_text(reader.get("/calls/"))
    assert "shell 2 1 (50 %) 1 (50 %)" in rates
    exported = b"".join(reader.get("/calls/export/")).decode()
    assert [(line["call"], line["exit_code"]) for line in csv.DictReader(exported.splitlines()) if line["tool"]] == [
        *(("c5", "4"), ("c4", ""), ("c3", "2"), ("c2", "0"), ("c1", "128")),
    ]


def test_calls_that_change_a_file_say_how_many_lines(session: Session, reader: Client) -> None:
    for tool, args in (
        ("write_file", {"path": "notes.md", "content": "a\nb\nc\n"}),
        ("edit_file", {"path": "notes.md", "old_string": "a\nb", "new_string": "a\nc\nd"}),
        ("read_file", {"path": "notes.md"}),
        ("write_file", {"path": "notes.md", "content": "word" * 6_000}),
    ):
        make_call(
            session=session, call_id=f"c{ToolCall.objects.count()}", tool=tool, args=args, sentence="Use notes.md"
        )
    for address in (f"/sessions/{session.pk}/calls/", "/calls/"):
        words = visible_text(reader.get(address))
        assert "write_file +3 −0 c0" in words
        assert "edit_file +2 −1 c1" in words
        assert "read_file c2" in words
        assert "write_file c3" in words


def test_decision_stands_below_the_status_and_its_link_beside_it(session: Session, client: Client) -> None:
    client.force_login(make_user(role=Role.APPROVER))
    call = make_call(session=session, status=CallStatus.AWAITING_APPROVAL, approvals=2)
    make_decision(call=call, kind=DecisionKind.APPROVE, actor="bob", final=False)
    for address in (f"/sessions/{session.pk}/calls/", "/calls/"):
        words = visible_text(client.get(address))
        assert re.search(r"Awaiting approval Decide requested .{10,40} bob: Approved \(one of 2 approvals\)", words)


def test_call_list_is_filtered_by_tool_and_status(session: Session, reader: Client) -> None:
    make_call(session=session, call_id="a", tool="pay")
    make_call(session=session, call_id="b", tool="pay", status=CallStatus.COMPLETED)
    make_call(session=session, call_id="c", tool="mail", status=CallStatus.COMPLETED)
    count = [
        reader.get(f"/sessions/{session.pk}/calls/{query}").content.decode().count("data-row")
        for query in ("", "?tool=pay", "?status=completed", "?tool=pay&status=completed", "?tool=none", "?status=none")
    ]
    assert count == [3, 2, 2, 1, 0, 3]


def test_pages_of_calls_are_consecutive(session: Session) -> None:
    made = [make_call(session=session, call_id=str(number)).pk for number in range(3)]
    first = call_records.load_session_call_page(session.pk, call_records.CallFilter(), size=2)
    assert ([row.pk for row in first.rows], first.before) == ([made[2], made[1]], made[1])
    second = call_records.load_session_call_page(session.pk, call_records.CallFilter(), before=first.before, size=2)
    assert ([row.pk for row in second.rows], second.before) == ([made[0]], None)


@pytest.mark.parametrize("count", [1, 3])
def test_query_count_is_independent_of_the_calls(
    session: Session, reader: Client, count: int, django_assert_num_queries: Queries
) -> None:
    for number in range(count):
        make_decision(call=make_call(session=session, call_id=str(number)))
    with django_assert_num_queries(13):
        reader.get(f"/sessions/{session.pk}/calls/")


def test_call_of_a_lost_run_is_not_shown_as_running(session: Session, reader: Client) -> None:
    make_call(session=session, call_id="alive", status=CallStatus.ISSUED)
    gone = make_run(session=session, lease=timedelta(seconds=-1))
    make_call(session=session, call_id="gone", run=gone, status=CallStatus.ISSUED)
    page = visible_text(reader.get(f"/sessions/{session.pk}/calls/"))
    assert page.index("gone") < page.index("No sign of life") < page.index("alive")
    assert page.count("No sign of life") == 1


def test_lists_of_calls_say_why_a_call_failed_and_its_page_shows_the_whole_error(
    session: Session, reader: Client
) -> None:
    error = (
        "<tool_use_error>\x1b[31mExit code 1\x1b[0m\n\x1b[2KFAILED test_cart.py, password=hunter2hunter2\n"
        + "line\n" * 60
    )
    edit = {"file_path": "a.py", "old_string": "b = 1", "new_string": "b = 2"}
    imported = make_call(
        session=session,
        call_id="edit",
        tool="Edit",
        args=edit,
        status=CallStatus.FAILED,
        side_effects="imported",
        result=f"{error}</tool_use_error>",
        settled_at=THEN + timedelta(seconds=1),
    )
    make_call(session=session, call_id="ok", status=CallStatus.COMPLETED, result="It was paid.")
    raised: dict[str, Any] = {"error_type": "ConnectionError", "error_message": "\x1b[1mbank\x1b[0m: reset\a"}
    paid = make_call(session=session, call_id="pay", reason=InterruptReason.AMBIGUOUS_ERROR, **raised)
    make_call(session=session, call_id="decided", status=CallStatus.COMPLETED, result="paid", **raised)
    make_call(session=session, call_id="long", status=CallStatus.FAILED, result="too long" * 20_000)
    output = to_canonical_json({"output": "sed: no file\n", "metadata": {"exit_code": 2}})
    make_call(session=session, call_id="sed", tool="shell", status=CallStatus.COMPLETED, result=output)
    for address in (f"/sessions/{session.pk}/calls/", "/calls/"):
        page = reader.get(address).content.decode()
        errors = re.findall(r'<small class="error" dir="auto" title="([^"]*)">\1</small>', page)
        assert [error[:60] for error in errors] == [
            "sed: no file",
            "ConnectionError: bank: reset",
            "Exit code 1 FAILED test_cart.py, password=‹masked› line line",
        ]
        assert len(errors[2]) == 140
    page = reader.get(f"/sessions/{session.pk}/calls/{imported.pk}/").content.decode()
    assert '<span class="small muted">+1 −1</span>' in page
    assert re.search(r'<div class="res failed"><div class="tool-output"[^>]*>Exit code 1\nFAILED', page)
    assert "Answer of the tool" not in page
    for address in (f"/sessions/{session.pk}/calls/{paid.pk}/", f"/review/calls/{paid.pk}/"):
        words = visible_text(reader.get(address))
        assert "bank: reset" in words
        assert "␛" not in words
    paid.refresh_from_db()
    assert paid.error_message == raised["error_message"]


def test_record_of_a_call_has_the_times_of_its_decisions(session: Session, reader: Client) -> None:
    call = make_call(session=session, status=CallStatus.COMPLETED, settled_at=THEN + timedelta(hours=2), approvals=2)
    make_decision(call=call, kind=DecisionKind.APPROVE, actor="bob", final=False, revision=1, created_at=THEN)
    later = THEN + timedelta(hours=1, milliseconds=57)
    make_decision(call=call, kind=DecisionKind.APPROVE, revision=2, created_at=later)
    page = visible_text(reader.get(f"/sessions/{session.pk}/calls/{call.pk}/"))
    assert (
        "Decision 2025-03-04 10:42:07.118 — bob: Approved (one of 2 approvals) "
        "Decision 2025-03-04 11:42:07.175 — alice: Approved Result recorded 2025-03-04 12:42:07.118"
    ) in page
    ToolCall.objects.filter(pk=call.pk).update(settled_at=THEN - timedelta(seconds=1))
    words = visible_text(reader.get(f"/sessions/{session.pk}/calls/{call.pk}/"))
    assert words.index("Result recorded") < words.index("Decision 2025-03-04 10:42:07.118")


def test_call_page_shows_all_attempts(session: Session, reader: Client) -> None:
    first = make_call(session=session, status=CallStatus.SUPERSEDED)
    make_decision(call=first, kind=DecisionKind.APPROVE_RERUN, reason="The bank says no.")
    make_late_result(call=first)
    second = make_call(
        session=session, attempt=2, supersedes=first, status=CallStatus.COMPLETED, result="refund re_9", run=first.run
    )
    page = visible_text(reader.get(f"/sessions/{session.pk}/calls/{first.pk}/"))
    assert "One more run approved alice — The bank says no." in page
    assert "Late result Run 1 reported success too late: refund re_81f3 settled" in page
    assert "Attempt 1 Run again" in page
    assert "Attempt 2 Completed" in page
    assert "refund re_9" in visible_text(reader.get(f"/sessions/{session.pk}/calls/{second.pk}/"))


def test_call_page_compares_changed_arguments_with_those_that_were_asked_for(session: Session, reader: Client) -> None:
    call = make_call(session=session, args={"amount": 5}, status=CallStatus.COMPLETED, asked_args_digest="a" * 64)
    for revision, amount in enumerate((51, 50)):
        evidence = to_canonical_json({"args_before": to_canonical_json({"amount": amount})})
        make_decision(call=call, kind=DecisionKind.EDIT, evidence=evidence, revision=revision)
    page = visible_text(reader.get(f"/sessions/{session.pk}/calls/{call.pk}/"))
    assert "The arguments were changed. Compared with what the model asked for: amount before 51 → now 5 " in page


def test_evidence_is_linked_only_for_web_addresses(session: Session, reader: Client) -> None:
    call = make_call(session=session, status=CallStatus.COMPLETED)
    make_decision(call=call, evidence='{"link":"https://bank.example/#1"}', revision=1)
    make_decision(call=call, evidence='{"link":"javascript:alert(1)","text":"export"}', revision=2)
    html = reader.get(f"/sessions/{session.pk}/calls/{call.pk}/").content.decode()
    assert '<a href="https://bank.example/#1" rel="noopener noreferrer nofollow">' in html
    assert 'href="javascript' not in html
    assert "javascript:alert(1)" in html


def test_plan_is_readable_and_complete(session: Session, reader: Client) -> None:
    make_checkpoint(
        session=session,
        plan={"goal": "Refund", "steps": [{"text": "Find", "status": "done"}, {"text": "Pay", "status": "on fire"}]},
    )
    page = visible_text(reader.get(f"/sessions/{session.pk}/plan/"))
    assert "Plan of version 1 1 of 2 steps done" in page
    assert "Goal Refund" in page
    assert re.search(r"✓ Find done in v1, ", page)
    assert "○ Pay on fire" in page
    assert '"status": "on fire"' in page


def test_evidence_that_is_only_a_web_address_is_a_link(session: Session, reader: Client) -> None:
    call = make_call(session=session)
    make_decision(call=call, evidence='{"text":"https://bank.example/#1"}', revision=1)
    make_decision(call=call, evidence='{"text":"https://bank.example/#2 shows it"}', revision=2)
    for path in ("", "history/"):
        page = reader.get(f"/sessions/{session.pk}/{path}")
        assert '<a href="https://bank.example/#1" rel="noopener noreferrer nofollow">' in page.content.decode()
        assert 'href="https://bank.example/#2' not in page.content.decode()
        assert "https://bank.example/#2 shows it" in visible_text(page)


def test_plan_links_the_versions_that_gave_its_steps_their_states(session: Session, reader: Client) -> None:
    def save(*states: str) -> None:
        names = ("Find", "Pay", "Pay", "Mail")
        steps = [{"text": name, "status": state} for name, state in zip(names, states, strict=False)]
        make_checkpoint(session=session, plan={"steps": steps} if states else None)

    for states in (
        ("done", "todo", "todo"),
        ("done", "doing", "todo"),
        (),
        ("done", "done", "todo"),
        ("done", "done", "todo", "todo"),
    ):
        save(*states)
    html = reader.get(f"/sessions/{session.pk}/plan/").content.decode()
    steps = html.partition('<ol class="steps">')[2].partition("</ol>")[0].split("</li>")[:-1]
    assert [re.findall(r"\?v=(\d+)", step) for step in steps] == [["1"], ["4"], [], ["5"]]


def test_plan_of_a_completed_session_says_that_it_is_not_done(session: Session, reader: Client) -> None:
    steps = [{"text": "Find", "status": "done"}, {"text": "Write", "status": "doing"}]
    make_checkpoint(session=session, plan={"steps": steps})
    sentence = "The session is completed, and 1 step of its plan is not done."
    assert sentence not in visible_text(reader.get(f"/sessions/{session.pk}/plan/"))
    Session.objects.filter(pk=session.pk).update(status=SessionStatus.COMPLETED)
    assert sentence in visible_text(reader.get(f"/sessions/{session.pk}/plan/"))


@pytest.mark.parametrize(("plan", "words"), [(None, "This session has no plan."), ({}, "The plan is empty.")])
def test_missing_and_empty_plan_are_distinguished(
    session: Session, reader: Client, plan: dict[str, object] | None, words: str
) -> None:
    make_checkpoint(session=session, plan=plan)
    assert words in visible_text(reader.get(f"/sessions/{session.pk}/plan/"))


def test_history_lists_events_and_decisions_in_order(session: Session, reader: Client) -> None:
    event(session, AuditKind.RUN_STARTED, details='{"host":"vm","pid":7}', created_at=THEN)
    call = make_call(session=session, status=CallStatus.COMPLETED)
    make_decision(call=call, created_at=THEN + timedelta(seconds=1), result="refund re_1")
    event(session, AuditKind.DECIDED, created_at=THEN + timedelta(seconds=1))
    event(session, AuditKind.SESSION_FINISHED, created_at=THEN + timedelta(seconds=2))
    assert [row.label for row in session_history.load_history_page(session.pk).rows] == [
        "Session finished",
        "It happened",
        "Run started",
    ]
    page = visible_text(reader.get(f"/sessions/{session.pk}/history/"))
    assert "It happened: refund_card by alice — Seen in the bank's export. Recorded result: refund re_1" in page
    assert "Run started · run 1 · host vm · process id 7" in page


def test_question_is_called_one_and_its_answer_is_printed_once(session: Session, reader: Client) -> None:
    key = f"{INTERRUPT_KEY_PREFIX}q:0"
    status, args = CallStatus.COMPLETED, {"value": "Which port?"}
    call = make_call(
        session=session, call_id="q", tool=INTERRUPT_TOOL, idempotency_key=key, status=status, args=args, result="5432"
    )
    event(session, AuditKind.APPROVAL_REQUESTED, details='{"call_id":"q","tool":"interrupt"}', created_at=THEN)
    event(session, AuditKind.CALL_DISCARDED, details='{"call_id":"q","tool":"interrupt"}', created_at=THEN)
    Run.objects.update(started_at=THEN)
    answered_at = THEN + timedelta(seconds=9)
    make_decision(call=call, kind=DecisionKind.RESPOND, reason="5432", result="5432", created_at=answered_at)
    history = reader.get(f"/sessions/{session.pk}/history/")
    assert "Asked a question · run 1 · call id q" in visible_text(history)
    assert "Question withdrawn · run 1 · call id q" in visible_text(history)
    assert f'<a href="/sessions/{session.pk}/calls/{call.pk}/">Asked a question</a>' in history.content.decode()
    assert re.search("Answered: question by alice — 5432(?! Recorded)", visible_text(history))
    transcript = visible_text(reader.get(f"/sessions/{session.pk}/"))
    assert re.search(r"Question \w+ requested [\d:]+(?! ·)", transcript)
    assert transcript.count("5432") == 1


def test_history_names_what_was_exported_as_the_menu_does(session: Session, reader: Client) -> None:
    event(session, AuditKind.EXPORTED, details='{"what":"session","form":"html"}')
    page = visible_text(reader.get(f"/sessions/{session.pk}/history/"))
    assert "content Whole session" in page
    assert "format Page to read offline" in page


def test_history_says_why_a_call_was_interrupted(session: Session, reader: Client) -> None:
    call = make_call(session=session, error_type="TimeoutError", error_message="no answer", step=4)
    details = {"call_id": call.call_id, "tool": call.tool, "step": 4, "attempt": 1}
    failed = {**details, "reason": "ambiguous_error", "error_type": "TimeoutError"}
    event(session, AuditKind.CALL_INTERRUPTED, details=to_canonical_json(failed))
    gone = {**details, "call_id": ["c\0"], "reason": "run_lost"}
    event(session, AuditKind.CALL_INTERRUPTED, details=to_canonical_json(gone))
    ready = event(session, AuditKind.SESSION_READY)
    AuditEvent.objects.filter(pk=ready.pk).update(actor="gate")
    page = visible_text(reader.get(f"/sessions/{session.pk}/history/"))
    sentence = "The tool failed with TimeoutError and may still have done it. — no answer · call id call_9"
    assert f"Call interrupted: refund_card {sentence}" in page
    assert "Call interrupted The process ended during this call. · call id" in page
    assert "All calls decided The session can continue." in page
    audit_page = visible_text(reader.get("/audit/"))
    assert f"was interrupted in {session.session_id}: the tool failed with TimeoutError and may still" in audit_page


def test_history_uses_language_and_time_zone_of_the_reader(session: Session, reader: Client) -> None:
    event(session, AuditKind.RUN_LOST, details='{"last_seen":"2025-03-04T10:42:07+00:00"}', created_at=THEN)
    event(session, AuditKind.SESSION_FINISHED, details='{"status":"completed"}', created_at=THEN)
    reader.cookies["harness_zone"] = "Asia%2FTokyo"
    page = visible_text(reader.get(f"/sessions/{session.pk}/history/", headers={"Accept-Language": "de"}))
    assert "Lauf verloren · Lauf 1 · letztes Lebenszeichen 2025-03-04 19:42:07" in page
    assert "Sitzung beendet · Lauf 1" in page


def test_repeated_reading_is_one_line(session: Session, reader: Client) -> None:
    for second in range(3):
        event(
            session, AuditKind.EXCERPTED, details='{"page":"review queue"}', created_at=THEN + timedelta(seconds=second)
        )
    AuditEvent.objects.update(actor="bob", actor_kind=ActorKind.PERSON)
    page = visible_text(reader.get(f"/sessions/{session.pk}/history/"))
    assert page.count("Excerpts shown to bob") == 1
    assert re.search(r"to bob, 3 times since [\d: -]+ · page Review", page)


def test_reading_by_several_people_is_one_entry_of_each_kind_that_opens(session: Session, reader: Client) -> None:
    """Who has seen excerpts, such as hits of a search, has not read the session."""
    readings = [("bob", AuditKind.VIEWED), ("carol", AuditKind.EXCERPTED), ("carol", AuditKind.VIEWED)]
    for second, (actor, kind) in enumerate(readings * 2):
        event(session, kind, created_at=THEN + timedelta(seconds=second))
        AuditEvent.objects.filter(pk=AuditEvent.objects.latest("pk").pk).update(
            actor=actor, actor_kind=ActorKind.PERSON
        )
    page = reader.get(f"/sessions/{session.pk}/history/")
    words = visible_text(page)
    assert re.search(r"Session read 4 times since [\d: -]+ · carol, bob", words)
    assert re.search(r"Excerpts shown to carol, 2 times since", words)
    assert page.content.decode().partition("<details>")[2].count("by carol") == 2


def test_pages_of_history_are_consecutive(session: Session) -> None:
    call = make_call(session=session, status=CallStatus.COMPLETED)
    for second in range(5):
        event(session, AuditKind.RUN_STARTED, created_at=THEN + timedelta(seconds=2 * second))
        make_decision(call=call, revision=second, created_at=THEN + timedelta(seconds=2 * second + 1))
    whole = session_history.load_history_page(session.pk)
    assert len(whole.rows) == 10
    seen: list[session_history.HistoryItem] = []
    before = None
    while True:
        page = session_history.load_history_page(session.pk, before=before, size=3)
        seen += page.rows
        before = page.before
        if before is None:
            break
    assert tuple(seen) == whole.rows


def _settled(session: Session, second: int, **fields: Any) -> ToolCall:
    fields = {"status": CallStatus.COMPLETED, "call_id": f"call_{second}", **fields}
    return make_call(session=session, settled_at=THEN + timedelta(seconds=second), **fields)


def test_history_lists_the_calls_with_side_effects_that_ended(session: Session, reader: Client) -> None:
    event(session, AuditKind.RUN_STARTED, created_at=THEN)
    sent = _settled(session, 2, tool="send_mail", args={"to": "press@example.com", "password": "pw-8841"})
    make_decision(call=sent, kind=DecisionKind.APPROVE, created_at=THEN + timedelta(seconds=1))
    refused = {"status": CallStatus.FAILED, "error_type": "CardRefused", "error_message": "no funds"}
    failed = _settled(session, 3, side_effects="audit,write", **refused)
    event(session, AuditKind.SESSION_FINISHED, created_at=THEN + timedelta(seconds=4))
    _settled(session, 5, side_effects="", tool="read_mail")
    _settled(session, 6, side_effects="imported", tool="imported_mail")
    _settled(session, 7, step=-3, tool="copied_mail")
    make_decision(call=_settled(session, 8), created_at=THEN + timedelta(seconds=8))
    _settled(session, 9, status=CallStatus.REJECTED)
    _settled(session, 10, side_effects="write", status=CallStatus.ISSUED)
    rows = session_history.load_history_page(session.pk).rows
    response = reader.get(f"/sessions/{session.pk}/history/")
    page, trace = visible_text(response), response.content.decode().partition('<ol class="trace">')[2]
    assert [row.label for row in rows] == [
        "It happened",
        "Session finished",
        "Failed",
        "Completed",
        "Approved",
        "Run started",
    ]
    assert "Completed: Send mail: to press@example.com" in page
    assert "send_mail · run 1" in page
    assert "Failed: Refund card: amount 40.00, currency EUR, order 17 refund_card · run 1" in page
    assert "— CardRefused: no funds" in page
    for call in (sent, failed):
        assert f'href="/sessions/{session.pk}/calls/{call.pk}/"' in trace
    assert "pw-8841" not in response.content.decode()
    for absent in ("read_mail", "imported_mail", "copied_mail"):
        assert absent not in page


def test_call_that_a_tool_completed_after_a_withdrawn_answer_is_in_the_history(session: Session) -> None:
    call = _settled(session, 4, revision=9)
    for revision, kind in enumerate((DecisionKind.RESPOND, DecisionKind.WITHDRAW, DecisionKind.APPROVE), start=1):
        make_decision(call=call, kind=kind, revision=revision, created_at=THEN + timedelta(seconds=revision))
    assert session_history.load_history_page(session.pk).rows[0].call_pk == call.pk
    assert session_history.load_history_page(session.pk).rows[0].kind == session_history.CALL_ENDED


def test_pages_of_history_with_calls_are_consecutive(session: Session, reader: Client) -> None:
    for second in range(6):
        event(session, AuditKind.RUN_STARTED, created_at=THEN + timedelta(seconds=2 * second))
    # Calls end in another order than they began, and two at once.
    for second in (5, 1, 9, 3, 3, 7):
        _settled(session, second, status=CallStatus.FAILED, step=ToolCall.objects.count())
    whole = session_history.load_history_page(session.pk)
    assert [row.at for row in whole.rows] == sorted((row.at for row in whole.rows), reverse=True)
    assert len(whole.rows) == 12
    for size in (1, 2, 5):
        seen: list[session_history.HistoryItem] = []
        before = None
        while True:
            page = session_history.load_history_page(session.pk, before=before, size=size)
            seen += page.rows
            before = page.before
            if before is None:
                break
        assert tuple(seen) == whole.rows
    for second in range(100, 140):
        _settled(session, second)
    first = reader.get(f"/sessions/{session.pk}/history/").content.decode()
    address = re.search(r'rel="next" href="([^"]+)"', first)
    assert address is not None
    second_page = visible_text(reader.get(f"/sessions/{session.pk}/history/{unescape(address[1])}"))
    assert second_page.count("Run started") == 6
    assert second_page.count("Failed: Refund card") == 6
    assert "Completed: Refund card" not in second_page


def test_number_of_queries_of_the_history_does_not_grow_with_calls(
    session: Session, reader: Client, django_assert_max_num_queries: Queries
) -> None:
    for second in range(30):
        call = _settled(session, second)
        make_decision(call=call, kind=DecisionKind.APPROVE, created_at=THEN)
    reader.get(f"/sessions/{session.pk}/history/")
    with django_assert_max_num_queries(24):
        reader.get(f"/sessions/{session.pk}/history/")


def test_history_shows_what_each_edit_changed(session: Session, reader: Client) -> None:
    call = _settled(session, 4, args={"to": "press@example.com", "amount": 30}, revision=9)
    for revision, amount in enumerate((10, 20), start=1):
        before = to_canonical_json({"to": "press@example.com", "amount": amount})
        evidence = to_canonical_json({"args_before": before})
        when = THEN + timedelta(seconds=revision)
        make_decision(call=call, kind=DecisionKind.EDIT, revision=revision, evidence=evidence, created_at=when)
    page = visible_text(reader.get(f"/sessions/{session.pk}/history/"))
    newer, older = page.split("refund_card by alice")[1:]
    assert "amount before 20 → now 30" in newer
    assert "amount before 10 → now 20" in older
    assert "The model asked for" not in page


def test_exported_history_has_the_calls_that_ended(session: Session, reader: Client) -> None:
    make_checkpoint(session=session)
    _settled(session, 2, tool="send_mail", args={"to": "press@example.com"})
    for form in ("html", "print"):
        response = reader.get(f"/sessions/{session.pk}/export/{form}/")
        text = re.sub(r"<[^>]+>", "", b"".join(cast("Any", response).streaming_content).decode())
        assert "Completed: Send mail: to press@example.com send_mail · run 1" in text, form


def test_unknown_event_is_shown_as_stored(session: Session, reader: Client) -> None:
    event(session, AuditKind.RUN_STARTED, details="damaged")
    AuditEvent.objects.update(kind="teleported")
    page = visible_text(reader.get(f"/sessions/{session.pk}/history/"))
    assert "Teleported · run 1 · details damaged" in page


class TestIntegrity:
    def page(self, reader: Client, session: Session) -> str:
        return visible_text(reader.get(f"/sessions/{session.pk}/history/"))

    def test_history_shows_the_last_verification(self, session: Session, reader: Client, settings: Settings) -> None:
        settings.HARNESS_SEAL_KEY, settings.HARNESS_SEAL_REQUIRED = "5e" * 32, False
        event(session, AuditKind.RUN_STARTED)
        assert "Not verified yet Verify the audit trail Open this session in the audit trail" in self.page(
            reader, session
        )
        audit.seal_and_verify_chain_and_store_result(session.workspace_id)
        verified = re.compile(r"Verified All entries of this session up to [\d: -]+ are verified\. Open this session")
        assert verified.search(self.page(reader, session))
        event(make_session(workspace=session.workspace, session_id="other"), AuditKind.RUN_STARTED)
        assert verified.search(self.page(reader, session))
        event(session, AuditKind.RUN_RELEASED)
        assert re.search(r"Verified up to [\d: -]+ 1 newer entry is not verified yet\.", self.page(reader, session))
        AuditEvent.objects.update(actor="somebody else")
        audit.seal_and_verify_chain_and_store_result(session.workspace_id)
        assert "Not intact" in self.page(reader, session)

    @pytest.mark.unsealed("it is about a site without seals")
    def test_history_without_a_seal_key_says_that_digests_match(self, session: Session, reader: Client) -> None:
        event(session, AuditKind.RUN_STARTED)
        audit.seal_and_verify_chain_and_store_result(session.workspace_id)
        text = r"Chain of digests verified All entries of this session up to [\d: -]+ match their digests\."
        assert re.search(text, self.page(reader, session))

    def test_changed_entry_is_marked_without_a_verification(self, session: Session, reader: Client) -> None:
        event(session, AuditKind.RUN_STARTED)
        event(session, AuditKind.SESSION_FINISHED)
        audit.seal_events_of_workspace(session.workspace_id)
        assert "is not what was recorded" not in self.page(reader, session)
        AuditEvent.objects.filter(kind=AuditKind.RUN_STARTED).update(actor="run 7")
        page = self.page(reader, session)
        assert page.count("This entry is not as it was recorded.") == 1
        assert "Run started · run 7 This entry is not as it was recorded" in page

    @pytest.mark.parametrize("events", [1, 3])
    def test_query_count_is_independent_of_the_events(
        self, session: Session, reader: Client, django_assert_num_queries: Queries, events: int
    ) -> None:
        for _ in range(events):
            event(session, AuditKind.RUN_STARTED)
        audit.seal_events_of_workspace(session.workspace_id)
        self.page(reader, session)  # the first reading is recorded
        with django_assert_num_queries(13):
            reader.get(f"/sessions/{session.pk}/history/")


def test_call_links_to_the_calls_before_and_after_it(session: Session, reader: Client) -> None:
    first, middle, last = (make_call(session=session, call_id=name).pk for name in "abc")
    make_call(session=make_session(session_id="other"), call_id="d")
    pages = [reader.get(f"/sessions/{session.pk}/calls/{pk}/").content.decode() for pk in (first, middle, last)]
    links = [dict(re.findall(r'rel="(prev|next)" href="/sessions/\d+/calls/(\d+)/"', html)) for html in pages]
    assert links == [{"next": str(middle)}, {"prev": str(first), "next": str(last)}, {"prev": str(middle)}]


def test_answer_of_a_verify_hook_that_cannot_tell_is_no_decision(session: Session, reader: Client) -> None:
    call = make_call(session=session, status=CallStatus.INTERRUPTED)
    make_decision(call=call, kind=DecisionKind.PROBE_UNKNOWN, actor="hook", actor_kind=ActorKind.HOOK)
    page = reader.get(f"/sessions/{session.pk}/calls/{call.pk}/")
    assert re.search("Tool’s own check \\S+ — Outcome still unknown", visible_text(page))
    assert "<dt>Decision</dt>" not in page.content.decode()


def test_decided_call_and_the_page_of_its_decision_lead_to_each_other(session: Session, reader: Client) -> None:
    call = make_call(session=session, status=CallStatus.FAILED)
    make_decision(call=call, kind=DecisionKind.MARK_FAILED)
    in_session, of_decision = f"/sessions/{session.pk}/calls/{call.pk}/", f"/review/calls/{call.pk}/"
    assert f'<a href="{of_decision}">Reasons, comments and events' in reader.get(in_session).content.decode()
    assert f'<a href="{in_session}">The page of this call in its session' in reader.get(of_decision).content.decode()


def test_equal_answers_of_a_verify_hook_in_a_row_are_one_line(session: Session, reader: Client) -> None:
    call = make_call(session=session, status=CallStatus.INTERRUPTED)
    for _ in range(3):
        make_decision(call=call, kind=DecisionKind.PROBE_UNKNOWN, actor="hook", actor_kind=ActorKind.HOOK, reason="503")
    words = "Tool’s own check: outcome still unknown, asked 3 times, last just now"
    for address in (f"/sessions/{session.pk}/calls/", "/calls/"):
        page = visible_text(reader.get(address))
        assert page.count("outcome still unknown") == 1
        assert words in page
    transcript = visible_text(reader.get(f"/sessions/{session.pk}/"))
    assert transcript.count("503") == 1
    assert "asked 3 times, last just now" in transcript
