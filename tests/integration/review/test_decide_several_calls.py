"""Calls of an outage without evidence, decided together with separate answers, evidence and reasons."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils.html import escape

from checkpoints.enums import CallStatus
from checkpoints.models import Decision, ToolCall
from harness_site.review.bulk_decision_forms import CallAnswerForm
from harness_site.review.selectors import outage_groups
from tests.integration.review.conftest import PAGE, WINDOW, Lost
from tests.support.factories import make_decision
from tests.support.page_text import visible_text

ADDRESS = "/review/outages/decide/"


def answer(call: ToolCall, **values: Any) -> dict[str, Any]:
    return {f"call-{call.pk}-{name}": value for name, value in {"revision": 1, **values}.items()}


def mark_failed(client: Client, call: ToolCall) -> None:
    """Decide one call on its own page."""
    client.post(f"/review/calls/{call.pk}/", {"kind": "mark_failed", "reason": "Not in the export.", "revision": 1})


def test_each_call_has_its_own_answer_and_evidence(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(second) for second in range(4)]
    assert "Nothing shows what happened to 4 calls." in visible_text(people["alice"].get(PAGE))
    assert "Record these decisions" not in visible_text(people["carol"].get(PAGE))
    data = {**WINDOW, "pk": [call.pk for call in calls], "shared-reason": "The ledger is back."}
    for call, values in zip(
        calls,
        [
            {"answer": "mark_failed", "evidence": "Not in ledger page 3."},
            {"answer": "confirm_landed", "evidence": "https://ledger.example/4", "result": "refunded"},
            {"answer": "approve_rerun", "evidence": "Ledger row 5 is void.", "reason": "The customer asked."},
            {},
        ],
        strict=True,
    ):
        data |= answer(call, **values)
    settled = people["alice"].post(ADDRESS, data, follow=True)
    assert "3 decisions recorded" in visible_text(settled)

    statuses = [ToolCall.objects.get(pk=call.pk).status for call in calls]
    assert statuses == [CallStatus.FAILED, CallStatus.COMPLETED, CallStatus.RERUN_APPROVED, CallStatus.INTERRUPTED]
    decisions = [(decision.reason, decision.evidence) for decision in Decision.objects.order_by("pk")]
    assert decisions == [
        ("The ledger is back.", '{"text":"Not in ledger page 3."}'),
        ("The ledger is back.", '{"link":"https://ledger.example/4"}'),
        ("The customer asked.", '{"text":"Ledger row 5 is void."}'),
    ]


def test_page_says_what_each_answer_causes(people: dict[str, Client], lost: Lost) -> None:
    first, second = lost(0), lost(1)
    page = people["alice"].get(PAGE)
    text = visible_text(page)
    for_all = (
        "Each call runs exactly once more, with exactly its arguments. If the first one did happen, it happens twice."
    )
    for_one = "Exactly one more run, with exactly these arguments. If the first one did happen, it happens twice."
    assert (text.count(for_all), text.count(for_one)) == (1, 2)
    assert "people give the same answer" not in text
    assert "Evidence for all required" in text
    assert text.count("An answer for several calls needs evidence.") == 2  # of two answers
    assert f'id="answer-{first.pk}" data-amount="40.000000" data-currency="EUR"' in page.content.decode()

    ToolCall.objects.filter(pk=second.pk).update(approvals=2)
    text = visible_text(people["alice"].get(PAGE))
    assert "A call that needs several people waits until enough of them give the same answer." in text
    assert text.count("Nothing happens until 2 people give the same answer.") == 1
    ToolCall.objects.filter(pk=first.pk).update(status=CallStatus.FAILED)
    text = visible_text(people["alice"].get(PAGE))
    assert (text.count(for_all), text.count(for_one)) == (0, 1)
    assert "Evidence optional" in text  # one answer decides one call
    assert "needs evidence" not in text


def test_nothing_is_recorded_until_all_answers_are_complete(people: dict[str, Client], lost: Lost) -> None:
    first, second = lost(0), lost(1)
    data = {
        **WINDOW,
        "pk": [first.pk, second.pk],
        **answer(first, answer="mark_failed", evidence="Not in the ledger.", reason="Seen."),
        **answer(second, answer="confirm_landed"),
    }
    page = people["alice"].post(ADDRESS, data)
    text = visible_text(page)
    assert page.status_code == 422
    for problem in (
        "Enter a reason here, or one for all calls.",
        "Nothing was recorded. Correct the marked fields, then send them again.",
    ):
        assert problem in text
    focused = re.findall(r"<(?:input|textarea|select)[^>]* autofocus", page.content.decode())
    assert [f'name="call-{second.pk}-reason"' in field for field in focused] == [True]
    assert Decision.objects.count() == 0


def test_calls_that_happened_with_unknown_results_are_recorded_so(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(second) for second in range(2)]
    shared = {"shared-answer": "confirm_landed", "shared-evidence": "Report 17", "shared-reason": "It says so."}
    data = {**WINDOW, "pk": [call.pk for call in calls], **shared}
    for call in calls:
        data |= answer(call, answer="")
    assert people["alice"].post(ADDRESS, data).status_code == 302
    texts = {decision.result_text for decision in Decision.objects.all()}
    assert texts == {"This call happened. What it returned is not known."}


def test_calls_without_an_answer_get_the_one_for_all(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(second) for second in range(4)]
    shared = {"shared-answer": "confirm_landed", "shared-result": "refunded", "shared-reason": "The provider says so."}
    data = {
        **WINDOW,
        "pk": [call.pk for call in calls],
        **shared,
        **answer(calls[0]),
        **answer(calls[1], answer="", evidence="Typed before the answer was taken back.", reason="So was this."),
        **answer(calls[2], answer="mark_failed"),
        **answer(calls[3], answer="undecided"),
    }
    page = people["alice"].post(ADDRESS, data)
    problem = "Enter a reason for this answer. The reason for all is about another answer."
    assert "send them again. Show the first error" in visible_text(page)
    assert visible_text(page).count(problem) == 1
    assert "Enter evidence: this answer says what happened to several calls." in visible_text(page)
    assert page.content.decode().count("errorlist") == 2
    (focused,) = re.findall(r"<(?:input|textarea|select)[^>]* autofocus", page.content.decode())
    assert f'name="call-{calls[2].pk}-reason"' in focused  # it is above the answer for all

    data["shared-evidence"] = "Report 17"
    page = people["alice"].post(ADDRESS, data)  # the reason why it happened is none why it did not happen
    assert "send them again. Show the first error" in visible_text(page)
    assert page.content.decode().count("errorlist") == 1
    assert Decision.objects.count() == 0

    people["alice"].post(
        ADDRESS, data | answer(calls[2], answer="mark_failed", evidence="Report 17, row 3", reason="Void.")
    )
    statuses = [ToolCall.objects.get(pk=call.pk).status for call in calls]
    assert statuses == [CallStatus.COMPLETED, CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.INTERRUPTED]
    decisions = Decision.objects.order_by("pk").values_list("reason", "evidence", "result")
    for_all = ("The provider says so.", '{"text":"Report 17"}', '"refunded"')
    assert list(decisions) == [
        for_all,
        for_all,
        ("Void.", '{"text":"Report 17, row 3"}', '"This call did not happen. Void."'),
    ]


def test_form_without_any_answer_asks_for_one(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    data = {**WINDOW, "pk": [call.pk], "shared-reason": "The ledger is back.", **answer(call, answer="undecided")}
    page = people["alice"].post(ADDRESS, data)
    assert page.status_code == 422
    assert "then send them again. Show the first error" in visible_text(page)
    assert "for all" not in visible_text(page).partition("Keys Lists")[0]  # it is the only call
    assert "The ledger is back." in visible_text(page)


def test_form_of_a_full_page_is_not_too_large() -> None:
    fields_of_a_call = len(["pk", *CallAnswerForm(pk=1).fields])
    assert outage_groups.PAGE * fields_of_a_call + 20 < settings.DATA_UPLOAD_MAX_NUMBER_FIELDS


def test_form_has_the_calls_that_the_reader_can_decide(people: dict[str, Client], lost: Lost) -> None:
    overdue, voted, other = lost(0, decide_within=timedelta(hours=1)), lost(1, approvals=2), lost(2)
    mark_failed(people["alice"], voted)
    page = people["alice"].get(PAGE)
    assert [row.call.pk for row, _ in page.context["silent"]] == [other.pk]
    assert [(title, [row.call.pk for row in rows]) for title, rows in page.context["lists"]] == [
        ("Undecided calls", [overdue.pk, voted.pk])
    ]
    assert "only an admin can decide now" in visible_text(page)
    assert "you have decided, and another person has to agree" in visible_text(page)
    assert len(people["dora"].get(PAGE).context["silent"]) == 3


def test_page_says_which_calls_left_the_form_and_who_decided_them(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(second) for second in range(5)]
    shown = "".join(f"&pk={call.pk}" for call in calls)
    people["alice"].get(PAGE)
    for name, call in (("bob", calls[0]), ("bob", calls[1]), ("alice", calls[2])):
        mark_failed(people[name], call)
    page = people["alice"].get(PAGE + shown)
    assert "bob decided 2 calls meanwhile. You decided 1 call meanwhile." in visible_text(page)
    assert "left this form" not in visible_text(page)
    assert f'hx-get="{escape(page.context["refresh_url"])}"' in page.content.decode()
    assert "pk=" not in page.context["refresh_url"]
    sent = ",".join(str(call.pk) for call in calls[:3])
    assert f'name="left" value="{sent}"' in page.content.decode()

    ToolCall.objects.filter(pk=calls[3].pk).update(decide_within=timedelta(hours=1))
    query = f"{PAGE}&left={sent}&pk={calls[3].pk}&pk={calls[4].pk}&shared-answer="
    assert "The answer for all" not in visible_text(people["alice"].get(query))
    page = people["alice"].get(f"{query}mark_failed")
    text = visible_text(page)
    assert (
        "bob decided 2 calls meanwhile. You decided 1 call meanwhile. 1 call left this form meanwhile, because" in text
    )
    not_carried_over = "One call is left. The answer for all was not carried over to it."
    assert not_carried_over in text
    again = people["alice"].get(f"{PAGE}&left={sent},{calls[3].pk}&pk={calls[4].pk}&dropped=1&shared-answer=")
    assert not_carried_over in visible_text(again)
    assert 'name="dropped" value="1"' in again.content.decode()
    assert "The processes ended during these calls of refund_card, between" in text
    added = f"&pk={calls[4].pk}"
    ToolCall.objects.filter(pk=calls[3].pk).update(decide_within=None)
    for query in (added, f"{added}&pk={calls[3].pk}&added={calls[3].pk}"):  # it stays until the form is recorded
        text = visible_text(people["alice"].get(PAGE + query))
        assert "1 call was added to this form meanwhile. The answer for all counts for it, too." in text
    assert "meanwhile" not in visible_text(people["alice"].get(PAGE))


def test_calls_of_other_workspaces_are_not_said_to_have_been_decided(people: dict[str, Client], lost: Lost) -> None:
    lost(0)
    other = lost(1, workspace="other")
    ToolCall.objects.filter(pk=other.pk).update(status=CallStatus.FAILED)
    make_decision(call=other, actor="mallory")
    assert "mallory" not in visible_text(people["alice"].get(f"{PAGE}&pk={other.pk}"))


def test_answer_for_all_is_not_carried_over_to_the_last_call(people: dict[str, Client], lost: Lost) -> None:
    first, second = lost(0), lost(1)
    mark_failed(people["bob"], first)
    data = {
        **WINDOW,
        "pk": [first.pk, second.pk],
        "shared-answer": "approve_rerun",
        "shared-reason": "Customers wait.",
        **answer(first),
        **answer(second),
    }
    page = people["alice"].post(ADDRESS, data | {"shared-answer": "confirm_landed"})  # the evidence is missing
    assert page.status_code == 422
    form = page.context["shared_form"]
    assert [form[name].value() or "" for name in ("answer", "evidence", "reason")] == ["", "", "Customers wait."]
    assert "bob decided 1 call meanwhile. One call is left." in visible_text(page)
    assert "then send them again. Show the first error" in visible_text(page)
    assert f'id="id_answer-{second.pk}"' in page.content.decode()

    own = answer(second, answer="mark_failed", reason="Void.")
    shared = {"shared-evidence": "Report 17", "shared-reason": ""}
    form = people["alice"].post(ADDRESS, data | shared | own).context["shared_form"]
    assert [form[name].value() for name in ("answer", "evidence", "reason")] == ["mark_failed", "", "Void."]
    own = answer(second, answer="approve_rerun", evidence="Row 3")
    form = people["alice"].post(ADDRESS, data | {"shared-reason": ""} | own).context["shared_form"]
    assert [form[name].value() for name in ("answer", "evidence", "reason")] == ["approve_rerun", "Row 3", ""]
    assert Decision.objects.count() == 1


@pytest.mark.parametrize(
    ("answers", "needs_evidence"),
    [
        (["mark_failed", "", ""], False),  # an answer of its own is about one call
        (["", "mark_failed", "approve_rerun"], False),  # one call is left for the answer for all
        (["", "", "approve_rerun"], True),
    ],
)
def test_evidence_is_required_where_one_answer_says_what_happened_to_several_calls(
    people: dict[str, Client], lost: Lost, answers: list[str], needs_evidence: bool
) -> None:
    calls = [lost(second) for second in range(3)]
    shared_answer = "" if answers[1:] == ["", ""] else "confirm_landed"
    data = {**WINDOW, "pk": [call.pk for call in calls], "shared-answer": shared_answer, "shared-reason": "Seen."}
    for call, own in zip(calls, answers, strict=True):
        data |= answer(call, answer=own, reason="Seen here.")
    page = people["alice"].post(ADDRESS, data)
    assert page.status_code == (422 if needs_evidence else 302)
    problem = "Enter evidence: this answer says what happened to several calls."
    assert (problem in visible_text(page)) == needs_evidence
    if needs_evidence:  # one more run says nothing about what happened
        assert people["alice"].post(ADDRESS, data | {"shared-answer": "approve_rerun"}).status_code == 302


def test_evidence_about_one_call_is_optional(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    assert "Evidence optional: link or text" in visible_text(people["alice"].get(PAGE))
    data = {**WINDOW, "pk": [call.pk], "shared-answer": "mark_failed", "shared-reason": "Not there.", **answer(call)}
    people["alice"].post(ADDRESS, data)
    assert ToolCall.objects.get().status == CallStatus.FAILED


def test_call_decided_meanwhile_is_refused_separately(people: dict[str, Client], lost: Lost) -> None:
    first, second = lost(0), lost(1)
    mark_failed(people["bob"], first)
    data = {**WINDOW, "pk": [first.pk, second.pk], "shared-reason": "The ledger is back."}
    for call in (first, second):
        data |= answer(call, answer="mark_failed", evidence="Not in the ledger.")
    page = visible_text(people["alice"].post(ADDRESS, data, follow=True))
    assert "Recorded before: It did not happen bob gave the same answer at" in page
    assert "1 decision recorded" in page
    data = {**WINDOW, "pk": [first.pk], "shared-reason": "The ledger is back."}
    data |= answer(first, answer="confirm_landed", evidence="In the ledger.")
    page = visible_text(people["alice"].post(ADDRESS, data, follow=True))
    assert "Not recorded: It happened bob decided first, at" in page
