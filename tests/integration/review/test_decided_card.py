"""Cards of calls whose outcome is known."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from checkpoints.enums import ActorKind, AuditKind, CallStatus, DecisionKind, Risk, Role, RunStatus, SessionStatus
from checkpoints.models import AuditEvent, Decision, Run, Session, ToolCall
from harness_site.accounts.models import Membership
from harness_site.review.models import Claim
from tests.integration.review.interrupted_calls import lost_call, page, raw
from tests.support.factories import THEN, make_call, make_decision, make_run, make_session, make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def decided(**session: object) -> ToolCall:
    call = lost_call(status=CallStatus.COMPLETED, revision=2, interrupted_at=THEN, result="re_81f3")
    Session.objects.filter(pk=call.session_id).update(**session)
    return call


def test_decision_is_shown_with_actor_reason_and_evidence(reader: Client) -> None:
    call = decided(status=SessionStatus.READY)
    ToolCall.objects.filter(pk=call.pk).update(sentence="Pay back order 17")
    evidence = json.dumps({"link": "https://bank.example/exports#re_81f3"})
    make_decision(call=call, actor="bob", reason="Seen in the export.", evidence=evidence, result="re_81f3", revision=1)
    shown = page(reader, call)
    printed = f"http://testserver/review/calls/{call.pk}/ · Printed by alice, as of "
    sheet = f"Session {call.session.session_id} · http://testserver/review/calls/{call.pk}/"
    assert f' data-printed-as="{sheet}">' in raw(reader, call)
    assert f"Decided: it happened Pay back order 17 {printed}" in shown
    assert "What was requested Pay back order 17" in shown
    assert "Decision It happened bob · " in shown
    assert "Seen in the export. Evidence: https://bank.example/exports#re_81f3 Result for the agent re_81f3" in shown
    assert 'href="https://bank.example/exports#re_81f3" rel="noopener noreferrer nofollow"' in raw(reader, call)


@pytest.mark.parametrize("link", ["javascript:alert(1)", "data:text/html,x", "//elsewhere.example", 7])
def test_only_web_addresses_become_links(reader: Client, link: object) -> None:
    call = decided(status=SessionStatus.READY)
    make_decision(call=call, evidence=json.dumps({"link": link}), revision=1)
    content = raw(reader, call)
    assert "Evidence:" in content
    assert f'href="{link}' not in content


def test_text_evidence_is_shown(reader: Client) -> None:
    call = decided(status=SessionStatus.READY)
    make_decision(call=call, evidence=json.dumps({"text": "told by phone"}), revision=1)
    assert "Evidence: told by phone" in page(reader, call)


@pytest.mark.parametrize(
    ("session", "words"),
    [
        ({"status": SessionStatus.READY}, "Run 2 on worker-1 (pid 88) was waiting and continues now."),
        ({"status": SessionStatus.ACTIVE}, "Run 2 on worker-1 (pid 88) is running, at version 1."),
        (
            {"status": SessionStatus.ACTIVE, "owner": None},
            "You need to do nothing more. The session continues as soon as a process takes it up, which may be at once",
        ),
        ({"status": SessionStatus.NEEDS_REVIEW}, "The session is paused: another call needs a decision."),
        ({"status": SessionStatus.COMPLETED, "result": '"done"'}, "The session is completed with this result: done"),
        ({"status": SessionStatus.COMPLETED, "result": '{"n":1}'}, "completed with this result: n 1"),
        ({"status": SessionStatus.FAILED}, "The session failed."),
    ],
)
def test_card_explains_the_next_step(reader: Client, session: dict[str, object], words: str) -> None:
    call = decided(**session)
    make_decision(call=call, revision=1)
    assert words in page(reader, call)


def test_card_says_that_verify_hooks_answer_before_a_person_is_asked(reader: Client) -> None:
    call = decided(status=SessionStatus.NEEDS_REVIEW)
    make_decision(call=call, revision=1)
    paused, asked_first = (
        "The session is paused: another call needs a decision.",
        "The tool’s own check is asked first.",
    )
    assert paused in page(reader, call)
    mail = make_call(session=call.session, run=call.run, call_id="call_10", args={"to": "x"}, verifiable=True)
    assert asked_first in page(reader, call)
    assert paused not in page(reader, call)
    make_decision(call=mail, kind=DecisionKind.PROBE_UNKNOWN, actor="verify", final=False)
    assert paused in page(reader, call)
    ToolCall.objects.filter(pk=mail.pk).update(status=CallStatus.COMPLETED)
    asked = make_call(session=call.session, run=call.run, call_id="call_11", status=CallStatus.AWAITING_APPROVAL)
    assert paused in page(reader, call)
    ToolCall.objects.filter(pk=asked.pk).update(status=CallStatus.INTERRUPTED, verifiable=True)
    assert asked_first in page(reader, call)


def test_decision_of_a_verify_hook_is_one_of_the_tools_own_check(reader: Client) -> None:
    call = decided(status=SessionStatus.READY)
    make_decision(
        call=call, kind=DecisionKind.PROBE_LANDED, actor="verify hook of refund_card", actor_kind=ActorKind.HOOK
    )
    shown = page(reader, call)
    assert "The tool’s own check · " in shown
    assert "verify hook" not in shown
    assert "It happened, as the tool’s own check found" in shown
    assert "What was requested" in shown
    for words in ("Decided", "about to happen", "Did it happen?"):
        assert words not in shown


def test_message_that_contains_the_reason_stands_alone(reader: Client) -> None:
    call = decided(status=SessionStatus.READY)
    message: dict[str, Any] = {"reason": "The bank has none.", "result": "This call did not happen. The bank has none."}
    make_decision(call=call, kind=DecisionKind.MARK_FAILED, revision=1, **message)
    shown = page(reader, call).partition("What happens now")[0].rpartition("Decision ")[2]
    assert "Message to the agent This call did not happen. The bank has none." in shown
    assert shown.count("The bank has none.") == 1


def test_active_session_without_a_process_has_the_words_of_its_page(reader: Client) -> None:
    call = decided(status=SessionStatus.ACTIVE)
    make_decision(call=call)
    Session.objects.update(owner=None, title="Please refund order 17.")
    Run.objects.update(status=RunStatus.RELEASED)
    shown = page(reader, call)
    assert "What happens now Idle" in shown
    assert "Review / Please refund order 17." in shown
    Run.objects.update(status=RunStatus.LOST)
    assert "What happens now Orphaned" in page(reader, call)


def test_approved_call_whose_agent_runs_does_not_wait_for_its_start(reader: Client) -> None:
    call = decided(status=SessionStatus.ACTIVE)
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.APPROVED)
    make_decision(call=call, kind=DecisionKind.APPROVE, revision=1)
    assert "The call has not started yet. The agent continues and runs it once. Run 2 on worker-1" in page(reader, call)
    Session.objects.filter(pk=call.session_id).update(owner=None)
    shown = page(reader, call)
    start = "It runs once, as soon as a process continues the session, which may be at once."
    assert f"{start} You need to do nothing more. For the developer of the agent" in shown


def test_people_are_told_only_after_a_decision_stayed_unused_for_minutes(reader: Client) -> None:
    call = decided(status=SessionStatus.READY, owner=None)
    made = make_decision(call=call, revision=1)
    told = "If refund-desk should have continued by now, tell the people who run it."
    assert told not in page(reader, call)
    long_ago = made.created_at - timedelta(minutes=6)
    Decision.objects.update(created_at=long_ago)
    Session.objects.filter(pk=call.session_id).update(updated_at=long_ago)
    assert f"No process runs now. The last activity was 6 min ago. {told}" in page(reader, call)


def test_decision_after_the_end_of_the_session_is_not_called_a_message_to_the_agent(reader: Client) -> None:
    call = decided(status=SessionStatus.COMPLETED)
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.FAILED, replay_count=0)
    message: dict[str, Any] = {"reason": "The bank has none.", "result": "This call did not happen. The bank has none."}
    make_decision(call=call, kind=DecisionKind.MARK_FAILED, revision=1, **message)
    shown = page(reader, call)
    assert "Message to the agent" not in shown
    assert "(just now) The bank has none. Back to review" in shown
    assert "No agent gets this decision, because the session has ended." in shown
    assert "No agent has used this decision yet" not in shown


def test_result_of_the_session_is_not_repeated_if_it_is_that_of_the_call(reader: Client) -> None:
    shown = page(reader, decided(status=SessionStatus.FAILED, result='"re_81f3"'))
    assert "The tool reported: re_81f3" in shown
    assert "The session failed." in shown
    assert shown.count("re_81f3") == 1


def test_rerun_links_to_its_attempt(reader: Client) -> None:
    call = decided(status=SessionStatus.ACTIVE)
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.RERUN_APPROVED)
    make_decision(call=call, kind=DecisionKind.APPROVE_RERUN, revision=1)
    assert page(reader, call).count("One more run approved") == 3  # in the heading, its chip and the events
    assert "The approved run has not started yet." in page(reader, call)
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.SUPERSEDED)
    again = make_call(
        session=call.session,
        run=call.session.owner,
        step=1,
        attempt=2,
        supersedes=call,
        status=CallStatus.COMPLETED,
        settled_at=THEN,
        result="re_90a1",
    )
    shown = page(reader, call)
    assert "One more run approved: it has run Completed" in shown
    assert "and returned: re_90a1" in shown.partition("What happens now")[2]
    assert "Run again as attempt 2 Completed" in shown
    for status, became in (
        (CallStatus.ISSUED, "it is running Running"),
        (CallStatus.FAILED, "it ran and failed Failed"),
    ):
        ToolCall.objects.filter(pk=again.pk).update(status=status)
        assert f"One more run approved: {became}" in page(reader, call)
    assert page(reader, call).index("Run again as attempt 2 by run 2") < page(reader, call).index(
        "continued the session"
    )
    assert "Earlier calls of the same operation" in page(reader, again)


@pytest.mark.parametrize(
    ("status", "kind", "heading", "told"),
    [
        (
            CallStatus.RERUN_APPROVED,
            DecisionKind.APPROVE_RERUN,
            "One more run approved, but it did not run",
            "The call did not run once more: the session ended first.",
        ),
        (
            CallStatus.APPROVED,
            DecisionKind.APPROVE,
            "Approved, but it did not run",
            "The call did not run: the session ended first.",
        ),
    ],
)
def test_approved_call_of_an_ended_session_is_not_said_to_run(
    reader: Client, status: CallStatus, kind: DecisionKind, heading: str, told: str
) -> None:
    call = decided(status=SessionStatus.COMPLETED)
    ToolCall.objects.filter(pk=call.pk).update(status=status)
    make_decision(call=call, kind=kind, revision=1)
    shown = page(reader, call)
    assert heading in shown
    assert told in shown
    assert "yet." not in shown.partition("What happened")[2].partition("Wrong decision?")[0]
    listed = visible_text(reader.get("/review/?tab=decided"))
    assert "Will not run" in listed
    assert "Not run" not in listed


def test_card_links_to_the_next_call(reader: Client) -> None:
    call = decided(status=SessionStatus.READY)
    waiting = make_call(session=call.session, run=call.run, step=1, call_id="call_10", args={"order": 18})
    make_decision(call=call, revision=1)
    link = re.search(r'<a [^>]*data-key="n"[^>]*href="(.*)">Next call', raw(reader, call))
    assert link is not None
    assert link[1] == f"/review/calls/{waiting.pk}/"
    assert "data-opens" not in raw(reader, call)
    reader.post("/accounts/display/", {"opens_next_call": "on"})
    opened = re.search(r'data-opens="(.*?)"', raw(reader, call))
    assert opened is not None
    note = "Your decision about the call before is recorded. Open that call"
    assert note in visible_text(reader.get(opened[1]))
    assert note not in visible_text(reader.get(opened[1].replace(f"decided={call.pk}", f"decided={waiting.pk}")))


def test_next_call_is_no_main_action_of_a_reader_who_cannot_decide(reader: Client, client: Client) -> None:
    call = decided(status=SessionStatus.READY)
    make_call(session=call.session, run=call.run, step=1, call_id="call_10", args={"order": 18})
    make_decision(call=call, revision=1)
    assert '<a class="btn primary" data-key="n"' in raw(reader, call)
    client.force_login(make_user(name="olga", role=Role.AUDITOR))
    assert '<a class="btn" data-key="n"' in raw(client, call)


def test_next_call_is_the_first_one_of_the_queue(reader: Client) -> None:
    call = decided(status=SessionStatus.READY)
    make_call(session=call.session, run=call.run, step=1, call_id="call_10", args={"order": 18})
    urgent = make_call(
        session=call.session,
        run=call.run,
        step=1,
        call_id="call_11",
        args={"order": 19},
        status=CallStatus.AWAITING_APPROVAL,
        issued_at=datetime.now(UTC),
        decide_within=timedelta(minutes=5),
    )
    make_decision(call=call, revision=1)
    assert f'href="/review/calls/{urgent.pk}/">Next call' in raw(reader, call)


def test_next_call_is_one_of_the_filtered_list_from_which_the_reader_comes(reader: Client) -> None:
    call = decided(status=SessionStatus.READY)
    make_decision(call=call, revision=1)
    waiting: dict[str, Any] = {"session": call.session, "run": call.run, "step": 1}
    first = make_call(**waiting, call_id="call_10", args={"order": 18}, interrupted_at=THEN - timedelta(hours=2))
    of_list = make_call(**waiting, call_id="call_11", args={"order": 19}, tool="send_mail", interrupted_at=THEN)
    done = "No other waiting call matches the filters of the list from which you came."
    for query, following, is_done in (
        ("tab=interrupted", first, False),
        ("tab=interrupted&tool=send_mail", of_list, False),
        ("q=send_mail", of_list, False),
        ("tool=nothing", first, True),
    ):
        response = reader.get(f"/review/calls/{call.pk}/", headers={"harness-list": query})
        assert ("call of the list" in response.content.decode()) == (following is of_list), query
        assert f'data-next aria-keyshortcuts="n" aria-describedby="heading" href="/review/calls/{following.pk}/"' in (
            response.content.decode()
        ), query
        assert (done in visible_text(response)) == is_done, query
        assert ("Next call of the whole queue" in visible_text(response)) == is_done, query


def test_next_call_of_a_filtered_list_is_the_row_below_and_the_list_begins_again(reader: Client) -> None:
    Membership.objects.update(role=Role.ADMIN)
    session = make_session()
    now = datetime.now(UTC)

    def ask(number: int, hours: int, **fields: Any) -> ToolCall:
        asked = {"status": CallStatus.AWAITING_APPROVAL, "issued_at": now - timedelta(hours=hours), **fields}
        return make_call(session=session, run=run, call_id=f"call_{number}", args={"order": number}, **asked)

    run = make_run(session=session)
    calls = [
        ask(1, hours=3),
        ask(2, hours=4),
        ask(3, hours=1, decide_within=timedelta(minutes=65)),
        ask(4, hours=1, decide_within=timedelta(hours=9)),
        ask(5, hours=9, decide_within=timedelta(days=9)),
        ask(6, hours=8, tool="send_mail"),
    ]
    listed = [row.pk for row in reader.get("/review/?tool=refund_card").context["rows"]]
    assert listed == [calls[number].pk for number in (2, 3, 4, 1, 0)]

    def find_link(pk: int, query: str = "tool=refund_card") -> tuple[str, ...]:
        page = reader.get(f"/review/calls/{pk}/", headers={"harness-list": query}).content.decode()
        link = re.search(r'data-next [^>]*href="/review/calls/([0-9]+)/">([^<]*)', page)
        assert link is not None
        return link.groups()

    for pk, below in zip(listed, [*listed[1:], listed[0]], strict=True):
        ToolCall.objects.filter(pk=pk).update(status=CallStatus.FAILED)
        label = "First call of the list" if pk == listed[-1] else "Next call of the list"
        assert find_link(pk) == (str(below), label)
        ToolCall.objects.filter(pk=pk).update(status=CallStatus.AWAITING_APPROVAL)
    ToolCall.objects.filter(pk=calls[0].pk).update(status=CallStatus.FAILED)
    assert find_link(calls[0].pk, "deadline=none") == (str(calls[5].pk), "First call of the list")
    bob = make_user(name="bob").memberships.get()
    for call in calls[1:3]:
        Claim.objects.create(call=call, member=bob, since=now, seen_at=now)
    assert find_link(calls[0].pk) == (str(calls[3].pk), "First call of the list")
    assert find_link(calls[0].pk, "claimed=somebody") == (str(calls[2].pk), "First call of the list")


def test_next_call_of_a_sorted_list_is_the_one_below_and_the_list_begins_again(reader: Client) -> None:
    call = decided(status=SessionStatus.READY)
    make_decision(call=call, revision=1)
    ToolCall.objects.filter(pk=call.pk).update(risk=Risk.MEDIUM)
    waiting: dict[str, Any] = {"session": call.session, "run": call.run, "step": 1, "interrupted_at": THEN}
    above = make_call(**waiting, call_id="call_10", args={"order": 18}, risk=Risk.HIGH)
    below = make_call(**waiting, call_id="call_11", args={"order": 19}, risk=Risk.LOW)
    other = make_call(
        **{**waiting, "interrupted_at": None}, call_id="call_12", risk=Risk.LOW, status=CallStatus.AWAITING_APPROVAL
    )
    for query, decided_calls, following in (
        ("tab=interrupted&sort=risk", [], below),
        ("sort=risk&risk=high", [], above),
        ("tab=interrupted&sort=risk", [below], above),
        ("tab=awaiting&sort=risk", [below], other),
        ("sort=deadline", [below, other], above),
    ):
        for each in decided_calls:
            ToolCall.objects.filter(pk=each.pk).update(status=CallStatus.FAILED)
        page = reader.get(f"/review/calls/{call.pk}/", headers={"harness-list": query}).content.decode()
        assert f'aria-describedby="heading" href="/review/calls/{following.pk}/"' in page, query


def test_next_call_asks_the_same_question_and_is_not_claimed_by_somebody_else(reader: Client) -> None:
    call = decided(status=SessionStatus.READY)
    make_decision(call=call, revision=1)
    asked: dict[str, Any] = {"session": call.session, "run": call.run, "status": CallStatus.AWAITING_APPROVAL}
    approved = make_call(call_id="call_10", args={"order": 18}, approvals=2, **asked)
    make_decision(call=approved, kind=DecisionKind.APPROVE, actor="alice", final=False)
    interrupted = make_call(session=call.session, run=call.run, call_id="call_11", args={"order": 19})
    first, second = (make_call(call_id=f"call_{number}", args={"order": number}, **asked) for number in (20, 21))
    following = 'href="/review/calls/{}/">Next call'
    assert following.format(interrupted.pk) in raw(reader, call)
    assert following.format(first.pk) in raw(reader, approved)
    now, bob = datetime.now(UTC), make_user(name="bob").memberships.get()
    for claimed in (first, interrupted):
        Claim.objects.create(call=claimed, member=bob, since=now, seen_at=now)
    assert following.format(second.pk) in raw(reader, approved)
    assert following.format(second.pk) in raw(reader, call)
    Claim.objects.create(call=second, member=bob, since=now, seen_at=now)
    assert following.format(interrupted.pk) in raw(reader, call)


def test_next_call_is_one_that_the_reader_may_decide(reader: Client) -> None:
    call = decided(status=SessionStatus.READY)
    make_decision(call=call, revision=1)
    overdue = make_call(
        session=call.session,
        run=call.run,
        call_id="call_10",
        status=CallStatus.AWAITING_APPROVAL,
        decide_within=timedelta(minutes=5),
    )
    altered = make_session(quarantined_at=THEN)
    make_call(session=altered, run=make_run(session=altered))
    assert "Next call" not in raw(reader, call)  # only an admin decides an overdue call, and nobody the other one
    Membership.objects.update(role=Role.ADMIN)
    assert f'href="/review/calls/{overdue.pk}/">Next call' in raw(reader, call)


def test_call_that_waits_for_others_leads_to_the_next_one(reader: Client) -> None:
    call = decided(status=SessionStatus.READY)
    make_decision(call=call, revision=1)
    asked: dict[str, Any] = {"session": call.session, "run": call.run, "status": CallStatus.AWAITING_APPROVAL}
    voted = make_call(call_id="call_10", args={"order": 18}, approvals=2, **asked)
    make_decision(call=voted, kind=DecisionKind.APPROVE, actor="alice", final=False)
    overdue = make_call(call_id="call_11", args={"order": 19}, decide_within=timedelta(minutes=5), **asked)
    pages = [raw(reader, each) for each in (call, voted, overdue)]
    assert not any("Next call" in page for page in pages)
    assert all("Back to review" in page for page in pages)
    other = make_call(call_id="call_12", args={"order": 20}, approvals=2, **asked)
    assert all(f'href="/review/calls/{other.pk}/">Next call' in raw(reader, each) for each in (call, voted, overdue))
    assert "Next call" not in raw(reader, other)
    make_user(name="bob")
    make_decision(call=voted, kind=DecisionKind.RESPOND, actor="bob", final=False, revision=2)
    assert f'href="/review/calls/{voted.pk}/">Next call' in raw(reader, call)  # people disagree


def test_failed_call_without_a_decision_says_so_in_its_heading(reader: Client) -> None:
    session = make_session(status=SessionStatus.FAILED, result='"out of funds"')
    make_run(session=session)
    call = make_call(session=session, status=CallStatus.FAILED, settled_at=THEN)
    shown = page(reader, call)
    assert "This call failed" in shown
    assert "The session failed with this result: out of funds" in shown


def test_call_without_a_decision(reader: Client) -> None:
    session = make_session()
    make_run(session=session)
    call = make_call(session=session, status=CallStatus.COMPLETED, result="re_1", settled_at=THEN)
    shown = page(reader, call)
    assert "Outcome of this call Completed" in shown
    assert "No decision was needed. The tool reported: re_1" in shown


def test_message_that_is_the_reason_too_is_shown_once_beside_the_events(reader: Client) -> None:
    call = lost_call(status=CallStatus.REJECTED, interrupted_at=None)
    make_decision(call=call, kind=DecisionKind.REJECT, reason="Wrong payee.", result="Wrong payee.")
    decision = page(reader, call).partition("Message to the agent")
    assert "Wrong payee." not in decision[0].rpartition("Decision")[2]
    assert decision[2].startswith(
        " Wrong payee. The agent is told that the call was refused, with this message. Back to review"
    )


def test_events_before_a_decision_stay_once_the_call_has_run(reader: Client) -> None:
    session = make_session()
    first = make_run(session=session, status=RunStatus.LOST, started_at=THEN, ended_at=THEN + timedelta(seconds=1))
    call = make_call(session=session, run=first, status=CallStatus.AWAITING_APPROVAL)
    AuditEvent.objects.create(
        workspace=session.workspace,
        session=session,
        kind=AuditKind.APPROVAL_REQUESTED,
        actor_kind=ActorKind.MACHINE,
        actor="run 1",
        details=f'{{"call_id":"{call.call_id}"}}',
        created_at=call.issued_at + timedelta(milliseconds=1),
    )
    started, ended = THEN + timedelta(seconds=2), THEN + timedelta(seconds=3)
    make_run(session=session, status=RunStatus.LOST, started_at=started, ended_at=ended)
    last = make_run(session=session, started_at=THEN + timedelta(seconds=4))
    before = _list_event_texts(reader, call)
    assert len(before) == 5
    make_decision(call=call, kind=DecisionKind.APPROVE)
    ToolCall.objects.filter(pk=call.pk).update(
        status=CallStatus.COMPLETED, run=last, issued_at=timezone.now(), settled_at=timezone.now()
    )
    after = _list_event_texts(reader, call)
    assert after[: len(before)] == before
    assert "alice : Approved" in after[len(before)]


def _list_event_texts(reader: Client, call: ToolCall) -> list[str]:
    shown = reader.get(f"/review/calls/{call.pk}/").content.decode()
    trace = re.search(r'<ol class="trace">(.*?)</section>', shown, re.DOTALL)
    assert trace is not None
    items = re.findall(r'<li class="(?!day)[^"]*">(.*?)</li>', trace[1], re.DOTALL)
    return [" ".join(re.sub("<[^>]+>", " ", item).split()) for item in items]
