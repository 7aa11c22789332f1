"""Cards of calls whose outcome is unknown."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from checkpoints.enums import (
    IMPORTED_MARK,
    ActorKind,
    CallStatus,
    DecisionKind,
    InterruptReason,
    Risk,
    Role,
    RunStatus,
    SessionStatus,
)
from checkpoints.formats.digests import digest_text
from checkpoints.models import Decision, LateResult, Session, ToolCall
from checkpoints.seals.decision_keys import get_decision_keys
from harness_site.core.masking.replace_digests_by_fingerprints import compute_keyed_fingerprint_of_digest
from tests.integration.review.interrupted_calls import lost_call, page, raw
from tests.support.factories import (
    THEN,
    make_call,
    make_checkpoint,
    make_decision,
    make_late_result,
    make_message,
    make_run,
    make_session,
    make_user,
)
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


# what was about to happen


def test_card_shows_sentence_and_caller(reader: Client) -> None:
    shown = page(reader, lost_call(sentence="Refund 40.00 EUR for order 17"))
    assert "Did this happen? Outcome unknown" in shown
    assert "Refund 40.00 EUR for order 17" in shown
    assert "refund_card · agent refund-desk " in shown


@pytest.mark.parametrize(
    ("template", "html"),
    [
        ("Refund {amount} {currency} for order {order}", "Refund <b>40&lt;b&gt;</b> <b>EUR</b> for order <b>17</b>"),
        ("Refund {amount}{currency}", "Refund <b>40&lt;b&gt; EUR for order 17</b>"),
        ("Send {amount}", "Refund 40&lt;b&gt; <b>EUR</b> for order <b>17</b>"),
        ("{amount} for {order} or", "Refund 40&lt;b&gt; <b>EUR</b> for order <b>17</b>"),
        ("Refund {", "Refund 40&lt;b&gt; <b>EUR</b> for order <b>17</b>"),
        ("", "Refund 40&lt;b&gt; <b>EUR</b> for order <b>17</b>"),
    ],
)
def test_values_of_the_sentence_are_bold(reader: Client, template: str, html: str) -> None:
    call = lost_call(sentence="Refund 40<b> EUR for order 17", sentence_template=template)
    assert f'<p class="sentence" dir="auto">{html}</p>' in raw(reader, call)


def test_value_between_backticks_is_code_whose_options_stay_whole(reader: Client) -> None:
    call = lost_call(
        sentence="Run `rm -rf /var & ls` on db-2", sentence_template="Run `{command}` on {host}", args={"command": "rm"}
    )
    code = '<code>rm <span class="whole-word">-rf</span> /var &amp; ls</code>'
    assert f'<p class="sentence" dir="auto">Run {code} on <b>db-2</b></p>' in raw(reader, call)


def test_arguments_are_shown_as_a_list_and_as_stored(reader: Client) -> None:
    note = "long " * 2000 + "end"
    items = [{"sku": f"lamp-{n}"} for n in range(50)]
    ids = list(range(50))
    args = {"note": note, "items": items, "ids": ids, "gift": {"wrapped": True, "card": None}}  # in the caller's order
    call = lost_call(args=args)
    content = raw(reader, call)
    listed, _, stored = content.partition("Technical details")
    assert note in listed.replace("&quot;", '"')
    assert all(f"lamp-{n}" in listed for n in range(50))
    assert "Show all 10,003 characters" in listed
    assert "Show all 50 values" in listed
    assert listed.count('class="kv columns narrow"') == 1
    assert "lamp-49" in stored
    assert content.index(">note<") < content.index(">items<") < content.index(">gift<")
    assert content.index(">gift<") < content.index(">wrapped<") < content.index(">card<")
    assert call.args_digest not in content
    assert compute_keyed_fingerprint_of_digest(call.args_digest) in stored


@pytest.mark.parametrize(
    ("status", "lines", "is_said"),
    [("awaiting_approval", 41, True), ("awaiting_approval", 40, False), ("interrupted", 41, False)],
)
def test_approval_says_that_a_part_of_the_arguments_is_out_of_sight(
    reader: Client, status: str, lines: int, is_said: bool
) -> None:
    shown = page(reader, lost_call(status=CallStatus(status), args={"text": "line\n" * lines}))
    assert ("A part of the arguments is not shown yet. Read all of them first" in shown) is is_said


def test_masked_argument_is_said_beside_the_arguments(reader: Client, client: Client) -> None:
    said = "A value is masked here, and the tool gets the real one."
    assert said not in page(reader, lost_call())
    call = lost_call(session_id="order-18", args={"api_key": "k-123456789"})
    assert f"{said} Your role does not allow you to see secrets." in page(reader, call)
    client.force_login(make_user(name="dora", role=Role.ADMIN))
    assert f"{said} Show secrets to read it." in page(client, call)


def test_own_last_reasons_for_the_tool_are_offered(reader: Client) -> None:
    for number, (actor, tool, reason) in enumerate(
        [
            ("alice", "refund_card", "Not in the export."),
            ("alice", "refund_card", "The invoice says 3,010.00."),
            ("alice", "refund_card", "As agreed with ann@example.com."),
            ("alice", "refund_card", "password=hunter2hunter2"),
            ("alice", "send_mail", "The mail server says no."),
            ("bob", "refund_card", "Seen by bob."),
            ("alice", "refund_card", "Not in the export."),
        ]
    ):
        decided = lost_call(session_id=f"s{number}", tool=tool)
        make_decision(call=decided, kind=DecisionKind.APPROVE, actor=actor, reason=reason)
    waiting = lost_call(session_id="now", status=CallStatus.AWAITING_APPROVAL)
    assert re.findall(r"data-fill[^>]*>(.*?)</button>", raw(reader, waiting)) == ["Not in the export."]


def test_reason_about_an_interrupted_call_is_not_offered_for_another(reader: Client) -> None:
    decided = lost_call(session_id="before")
    make_decision(call=decided, kind=DecisionKind.APPROVE_RERUN, actor="alice", reason="The provider rolled it back.")
    assert "rolled it back" not in raw(reader, lost_call(session_id="now"))


def test_card_of_a_tool_without_a_sentence_begins_as_its_row_does(reader: Client) -> None:
    shown = page(reader, lost_call(sentence="", args={"amount": "26523.00", "order": 17}))
    assert "What was about to happen Refund card refund_card · agent refund-desk" in shown
    assert "amount 26,523.00 order 17 Technical details" in shown


def test_call_without_arguments_is_labelled(reader: Client) -> None:
    shown = page(reader, lost_call(args={}))
    assert "outside of the session · no arguments" in shown


@pytest.mark.parametrize("args", ['{"a":"\\ud800"}', '{"a":"\\u0000\\u202e"}', "[" * 180 + "]" * 180, "not json"])
def test_arguments_of_any_type_are_shown(reader: Client, args: str) -> None:
    call = lost_call()
    ToolCall.objects.filter(pk=call.pk).update(args=args, args_digest=digest_text(args))
    assert reader.get(f"/review/calls/{call.pk}/").status_code == 200
    assert reader.get("/review/").status_code == 200


# did it happen


def test_lost_run_is_drawn_as_a_gap(reader: Client) -> None:
    shown = page(reader, lost_call())
    assert (
        "Tue 4 Mar 2025 10:42:07.118 Run 1 on worker-3 (pid 4127) recorded that it is about to make this call "
        "From here on nothing is known: the process ended within 3.4 s, before it could report. The tool may have run "
        "in part, in full, or not at all. "
        "10:42:10.518 Run 1 was lost: its process ended without reporting (last sign of life 10:42:07) "
        "10:42:10.618 Run 2 on worker-1 (pid 88) continued the session and found this call without an outcome "
        "This tool cannot check whether the call happened, so a person has to find out."
    ) in shown


def test_loss_of_a_run_stands_before_the_run_that_took_its_place(reader: Client) -> None:
    call = lost_call()
    waiting = call.session.owner
    assert waiting is not None
    waiting.status, waiting.ended_at = RunStatus.LOST, THEN + timedelta(seconds=9)
    waiting.save()
    make_run(session=call.session, pid=89, host="worker-1", started_at=THEN + timedelta(seconds=10))
    assert re.search(
        r"Run 2 was lost: its process ended without reporting \(last sign of life [^)]+\) "
        r"[\d:.]+ Run 3 on worker-1 \(pid 89\) continued the session",
        page(reader, call),
    )


@pytest.mark.parametrize(("checks", "is_folded"), [(2, False), (3, True)])
def test_repeated_checks_and_lost_runs_are_folded(reader: Client, checks: int, is_folded: bool) -> None:
    call = lost_call(verifiable=True)
    made = [
        make_decision(
            call=call,
            kind=DecisionKind.PROBE_UNKNOWN,
            actor="verify hook of refund_card",
            actor_kind=ActorKind.HOOK,
            reason="503",
        )
        for _number in range(checks)
    ]
    for number, decision in enumerate(made):
        Decision.objects.filter(pk=decision.pk).update(created_at=THEN + timedelta(days=number, minutes=1))
    make_decision(call=call, kind=DecisionKind.WITHDRAW, actor="bob", reason="wrong line")
    content, shown = raw(reader, call), page(reader, call)
    summary = f"The tool’s own check ran {checks} times: outcome still unknown 1 run continued the session"
    assert (summary in shown) is is_folded
    assert ("outcome still unknown<br>1 run continued the session" in content) is is_folded
    assert content.count('<ol class="trace">') == 1 + is_folded
    assert shown.count("The tool’s own check ran: outcome still unknown — “503”") == checks
    assert shown.index("Run 1 was lost") < shown.index("The tool’s own check ran")
    assert shown.index("wrong line") > shown.rindex("The tool’s own check ran")


def test_date_is_shown_once_where_the_day_changes(reader: Client) -> None:
    call = lost_call()
    LateResult.objects.filter(pk=make_late_result(call=call).pk).update(received_at=THEN + timedelta(days=1))
    shown = page(reader, call).partition("Did it happen?")[2].partition("This tool cannot check")[0]
    assert re.findall(r"\w+ \d+ \w+ 2025|2025-\d\d-\d\d", shown) == ["Tue 4 Mar 2025", "Wed 5 Mar 2025"]


def test_ambiguous_error_is_named(reader: Client) -> None:
    error = {"error_type": "TimeoutError", "error_message": "no answer"}
    call = lost_call(reason=InterruptReason.AMBIGUOUS_ERROR, **error)
    sentence = "After 3.4 s the tool failed with TimeoutError, and may still have done its work (“no answer”)"
    shown = page(reader, call)
    assert sentence in shown
    assert "Run 1 lost" not in shown
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.FAILED)
    assert sentence in page(reader, call)


def test_imported_call_without_a_result_is_not_said_to_have_failed(reader: Client) -> None:
    """No run has logged it, and no tool has failed: the transcript just ends."""
    call = lost_call(side_effects=IMPORTED_MARK, status=CallStatus.DISCARDED, reason=InterruptReason.NO_RESULT)
    shown = page(reader, call)
    assert "The imported transcript has this call The transcript has no result of the call" in shown
    assert "Events so far" in shown
    assert "may still have done its work" not in shown
    assert "Did it happen?" not in shown


def test_timed_out_tool_shows_the_time(reader: Client) -> None:
    assert "The tool was stopped after 3.4 s, while it was running." in page(
        reader, lost_call(reason=InterruptReason.CANCELLED)
    )


def test_run_that_continued_without_a_result(reader: Client) -> None:
    shown = page(reader, lost_call(reason=InterruptReason.ABANDONED))
    assert "After 3.4 s its run continued without reporting how the call ended." in shown


def test_call_copied_by_a_fork(reader: Client) -> None:
    call = lost_call(reason=InterruptReason.FORKED)
    origin = make_session(session_id="order-16")
    Session.objects.filter(pk=call.session_id).update(forked_from=origin)
    assert "The call was logged in the session that this one was forked from" in page(reader, call)
    assert f'href="/sessions/{origin.pk}/">the session that this one was forked from' in raw(reader, call)
    assert "The outcome of this call was unknown when the session was forked" in page(reader, call)


def test_verifications_and_late_results_are_evidence(reader: Client) -> None:
    call = lost_call(verifiable=True)
    make_decision(
        call=call,
        kind=DecisionKind.PROBE_UNKNOWN,
        actor="verify hook of refund_card",
        actor_kind=ActorKind.HOOK,
        reason="ledger API answered 503",
    )
    make_late_result(call=call, result="refund re_81f3 settled")
    shown = page(reader, call)
    assert "The tool’s own check ran: outcome still unknown — “ledger API answered 503”" in shown
    assert "Run 1 reported success, too late to count — “refund re_81f3 settled”" in shown


def test_late_result_is_suggested_as_the_result(reader: Client) -> None:
    call = lost_call()
    make_late_result(call=call, result="refund re_81f3 settled")
    assert 'id="id_result">\nrefund re_81f3 settled</textarea>' in raw(reader, call)


def test_card_shows_the_surrounding_transcript(reader: Client) -> None:
    shown = page(reader, lost_call())
    assert "The lamp arrived broken." in shown
    assert "I am sending 40.00 EUR back." in shown


def test_card_lists_earlier_calls_with_the_same_key(reader: Client) -> None:
    call = lost_call(idempotency_key="refund-17")
    make_call(
        session=call.session,
        run=call.run,
        step=0,
        call_id="call_2",
        idempotency_key="refund-17",
        status=CallStatus.FAILED,
        result="card declined",
    )
    shown = page(reader, call)
    assert "Earlier calls of the same operation by idempotency key call_2attempt 1 · run 1" in shown
    assert "card declined" in shown


@pytest.mark.parametrize(
    ("policy", "scope", "words"),
    [
        ("once", "session", "runs once in this session. A second call gets this result."),
        ("once", "workspace", "runs once in this workspace. A second call"),
        ("unanswered", "session", "as long as no saved version has it. A later one runs again."),
        ("call", "session", "Each call is an operation of its own"),
        ("function", "session", "A function of the tool decides which calls in this session are the same and"),
        ("", "session", "The agent’s program chose the idempotency key of this call"),
    ],
)
def test_idempotency_policy_is_explained(reader: Client, policy: str, scope: str, words: str) -> None:
    call = lost_call(key_policy=policy, key_scope=scope, replay_count=2)

    assert words in page(reader, call)
    assert "Stored result given 2 times" in page(reader, call)
    assert (f"Idempotency policy: {policy}." in page(reader, call)) is bool(policy)
    assert "It says nothing about whether a second run of the tool does harm." in page(reader, call)
    details = visible_text(reader.get(reverse("harness_sessions:session-call", args=[call.session_id, call.pk])))
    assert words in details
    assert "Same operation" in details
    assert "result since" not in details
    ToolCall.objects.update(answered_version=3)
    details = visible_text(reader.get(reverse("harness_sessions:session-call", args=[call.session_id, call.pk])))
    assert "no saved message has this call; it was logged at v1 result since v3" in details


def test_workspace_key_lists_calls_of_other_sessions(reader: Client) -> None:
    call = lost_call(idempotency_key="pay-8841", key_scope="workspace")
    other = make_session(session_id="order-16")
    make_run(session=other)
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.FAILED)
    make_call(
        session=other,
        call_id="call_of_order_16",
        idempotency_key="pay-8841",
        key_scope="workspace",
        status=CallStatus.COMPLETED,
    )
    assert "call_of_order_16" in page(reader, call)


# the form


def test_each_answer_explains_its_effect(reader: Client) -> None:
    shown = page(reader, lost_call())
    begin = "Then: Run 2 on worker-1 is waiting and continues at once."
    unknown = "Without one, it is told that the result is not known."
    assert f"{begin} The agent goes on with the result that you enter. {unknown}" in shown
    assert f"{begin} The agent is told that this call did not happen, and your reason." in shown
    final = "Once it has started, the approval cannot be withdrawn."
    assert f"{begin} It runs refund_card once more, and the agent gets the new result. {final}" in shown
    assert shown.count(final) == 1


def test_card_without_a_waiting_process_says_so(reader: Client) -> None:
    call = lost_call()
    Session.objects.filter(pk=call.session_id).update(owner=None)
    begin = "Then: This takes effect as soon as a process continues the session, which may be at once."
    assert f"{begin} The agent goes on with the result that you enter." in page(reader, call)


def test_card_of_an_ended_session_offers_no_run(reader: Client) -> None:
    call = lost_call(verifiable=True)
    Session.objects.filter(pk=call.session_id).update(status=SessionStatus.COMPLETED, owner=None)
    shown = page(reader, call)
    assert "It does not continue, so nothing will run. Record whether the call happened." in shown
    assert raw(reader, call).count(">Nothing runs.<") == 2
    for promise in ("once more", "try again", "starts the agent again"):
        assert promise not in shown


def test_card_names_another_undecided_call(reader: Client) -> None:
    call = lost_call()
    make_call(session=call.session, run=call.run, step=1, call_id="call_10", args={"order": 18})
    held = "Then: The session stays paused: 1 other call needs a decision."
    assert page(reader, call).count(held) == 3


def test_call_is_not_repeated_in_the_conversation_around_it(reader: Client) -> None:
    session = make_session(status=SessionStatus.NEEDS_REVIEW)
    asked = [{"kind": "tool_call", "id": "c1", "name": "pay", "args": {"payee": "Northwind"}}]
    make_message(session=session, role="assistant", blocks=asked)
    make_checkpoint(session=session)
    call = make_call(session=session, call_id="c1", tool="pay", args={"payee": "Northwind"}, step=1)
    around = page(reader, call).partition("Around the call")[2]
    assert "This is the call above." in around
    assert "Northwind" not in around


def test_no_answer_is_preselected(reader: Client) -> None:
    assert not re.search(r"<input[^>]* checked", raw(reader, lost_call()))


def test_auditors_see_the_card_without_a_form(client: Client) -> None:
    make_user(name="bob", role=Role.ADMIN)
    client.force_login(make_user(name="carol", role=Role.AUDITOR))
    call = lost_call()
    shown = page(client, call)
    assert (
        "You can view this call but not decide it Your role is auditor; deciding needs an approver. "
        "These members can: bob." in shown
    )
    assert "data-decide" not in raw(client, call)


def test_form_with_input_is_kept_when_the_call_changes(reader: Client) -> None:
    call = lost_call(revision=3, approvals=2)
    told = "This call has changed since you opened the page Your answer and your text are kept."

    def load_part(query: str) -> Any:
        return reader.get(f"/review/calls/{call.pk}/{query}", headers={"HX-Request": "true"})

    kept = load_part("?seen=2")
    assert told in visible_text(kept)
    assert "Continue with the new state" in visible_text(kept)
    assert 'id="consequences"' in kept.content.decode()
    assert 'id="answering"' not in kept.content.decode()
    assert told not in visible_text(load_part("?seen=3"))
    # The page whose form is untouched sends no revision, and gets the new form.
    assert told not in visible_text(load_part("?seen="))
    assert 'id="answering"' in load_part("?seen=").content.decode()
    assert told not in page(reader, call, "?seen=2")  # a page that is loaded anew shows what is known now

    made = make_decision(call=call, kind=DecisionKind.CONFIRM_LANDED, final=False, actor="bob", revision=2)
    told = f"bob confirmed at {made.created_at:%H:%M:%S} that it happened Your answer and your text are kept."
    assert told in visible_text(load_part("?seen=2"))


def test_form_with_input_says_how_the_arguments_have_changed(reader: Client) -> None:
    call = make_call(session=make_session(), args={"order": 19}, revision=4, status=CallStatus.AWAITING_APPROVAL)
    for revision, before in ((1, 17), (3, 18)):
        evidence = json.dumps({"args_before": json.dumps({"order": before})})
        make_decision(call=call, kind=DecisionKind.EDIT, evidence=evidence, revision=revision)

    def load_note(query: str) -> str:
        response = reader.get(f"/review/calls/{call.pk}/{query}", headers={"HX-Request": "true"})
        return visible_text(response)

    assert "order before 17 → now 19 Your answer and your text are kept." in load_note("?seen=1")
    assert "order before 18 → now 19 Your answer and your text are kept." in load_note("?seen=2")
    draft = "order before 18 → now 19 Your text is from before this change. Read what has changed, then choose an"
    assert draft in load_note("?seen=2&draft=1")


# how much is asked


def known(times: int) -> ToolCall:
    """Create a call with `times` rows of every kind of evidence."""
    call = lost_call(session_id=f"order-{times}", verifiable=True, idempotency_key="k")
    for number in range(times):
        make_decision(call=call, kind=DecisionKind.PROBE_UNKNOWN, actor_kind=ActorKind.HOOK)
        make_late_result(call=call)
        make_call(
            session=call.session,
            run=call.run,
            step=0,
            call_id=f"earlier_{number}",
            idempotency_key="k",
            status=CallStatus.FAILED,
        )
    return call


@pytest.mark.parametrize(("times", "queries"), [(0, 22), (1, 26), (3, 26)])
def test_query_count_is_independent_of_the_evidence(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries, times: int, queries: int
) -> None:
    client.force_login(make_user(name="carol", role=Role.AUDITOR))
    call = known(times)
    of_signatures = 0 if get_decision_keys() is None else 3
    with django_assert_num_queries(queries + of_signatures):
        client.get(f"/review/calls/{call.pk}/")


def test_preview_of_the_form_calls_the_library_once(reader: Client) -> None:
    """The number of queries of the preview is constant."""
    counts = set()
    for times in (1, 3):
        call = known(times)
        with CaptureQueriesContext(connection) as queries:
            reader.get(f"/review/calls/{call.pk}/")
        counts.add(len(queries))
    assert len(counts) == 1


def test_one_more_run_of_a_call_with_an_amount_says_it(reader: Client) -> None:
    call = lost_call(args={"amount": "149.00", "currency": "EUR"})
    text = page(reader, call)
    assert "If the first one did happen, it happens twice, each time for 149.00 EUR." in text
    assert "If the first run did happen, its effect happens twice, each time for 149.00 EUR." in text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"risk": Risk.LOW},
            "If the first one did happen, it happens twice. The tool is marked as low risk. It does not say whether a "
            "repeat is harmless.",
        ),
        ({"side_effects": "read", "risk": Risk.LOW}, "Its tool only reads, so nothing happens twice."),
        ({"risk": Risk.MEDIUM}, "If the first one did happen, it happens twice."),
        ({"risk": Risk.LOW, "side_effects": "imported"}, "If the first one did happen, it happens twice."),
    ],
)
def test_one_more_run_has_a_warning_unless_the_tool_declares_that_little_can_go_wrong(
    reader: Client, fields: dict[str, str], words: str
) -> None:
    call = lost_call(args={"order": 17}, **fields)
    is_risky = words.endswith("twice.") and "reads" not in words
    assert f"Exactly one more run, with exactly these arguments. {words}" in page(reader, call)
    assert ("If the first run did happen, its effect happens twice." in page(reader, call)) is is_risky
    assert ('class="opt risky"' in raw(reader, call)) is is_risky
