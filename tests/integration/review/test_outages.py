"""Outages: grouping of interrupted calls, their evidence, and verification."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from checkpoints.enums import ActorKind, AuditKind, CallStatus, DecisionKind, InterruptReason, Risk
from checkpoints.formats import to_canonical_json
from checkpoints.models import AuditEvent, ToolCall, Workspace
from harness_site.review.selectors import outage_groups
from harness_site.review.views import calls_interrupted_by_outage
from tests.integration.review.conftest import PAGE, WINDOW, Lost, waited_for
from tests.support.factories import THEN, make_call, make_decision, make_late_result, make_session, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


# which calls belong together


def test_successive_interruptions_are_one_outage(lost: Lost) -> None:
    gap = outage_groups.GAP.total_seconds()
    refunds = [lost(0), lost(gap), lost(2 * gap)]
    alone = [lost(3 * gap + 1), lost(1, tool="ring")]
    other = [lost(5, tool="send_email"), lost(6, tool="send_email")]
    failed = [lost(n, reason=InterruptReason.AMBIGUOUS_ERROR, error_type="ConnectionError") for n in (1, gap)]
    ambiguous = ("", "", "TimeoutError")
    alone += [lost(1, reason=InterruptReason.AMBIGUOUS_ERROR, error_type=error_type) for error_type in ambiguous]
    lost(1, status=CallStatus.FAILED, reason=InterruptReason.RUN_LOST)
    lost(1, workspace="elsewhere")
    found = outage_groups.list_open_outages(make_workspace())
    assert [(one.tool, one.error_type, one.number) for one in found] == [
        ("refund_card", "", 3),
        ("refund_card", "ConnectionError", 2),
        ("send_email", "", 2),
    ]
    assert found[0].last - found[0].first == timedelta(seconds=2 * gap)
    together = outage_groups.map_calls_to_outages([*alone, *refunds, *failed, *other], found)
    groups = zip((refunds, failed, other), found, strict=True)
    assert together == {call.pk: outage for calls, outage in groups for call in calls}


def test_series_of_errors_that_lie_apart_are_outages_of_their_own(lost: Lost) -> None:
    def list_numbers(error_type: str, *seconds: float) -> list[int]:
        reason = InterruptReason.AMBIGUOUS_ERROR if error_type else InterruptReason.RUN_LOST
        for second in seconds:
            lost(second, tool=f"tool {error_type} {seconds}", reason=reason, error_type=error_type)
        found = outage_groups.list_open_outages(make_workspace())
        return [one.number for one in found if one.tool == f"tool {error_type} {seconds}"]

    series = (0, 1, 2, 110, 111, 112)
    assert list_numbers("ConnectionError", *series) == [3, 3]
    assert list_numbers("", *series) == [6]  # found by the sweeper, whenever it looks
    assert list_numbers("ConnectionError", 0, 110, 220, 330) == [4]
    assert list_numbers("ConnectionError", 0, 1, 2, 40, 41, 42) == [6]


def test_simultaneous_interruptions_are_one_outage(lost: Lost) -> None:
    for _ in range(3):
        lost(0)
    (found,) = outage_groups.list_open_outages(make_workspace())
    assert (found.number, found.first) == (3, found.last)


def test_copy_of_a_call_in_a_fork_belongs_to_no_outage(people: dict[str, Client], lost: Lost) -> None:
    original = lost(0)
    copy = lost(1, step=-4)
    assert outage_groups.list_open_outages(make_workspace()) == []
    other = lost(2)
    (found,) = outage_groups.list_open_outages(make_workspace())
    assert found.call_pks == (original.pk, other.pk)
    page = people["alice"].get(PAGE)
    assert [row.call.pk for row in page.context["rows"]] == [original.pk, other.pk]
    assert "80.00 EUR in total" in visible_text(page)
    queue = people["alice"].get("/review/")
    assert f"/review/calls/{copy.pk}/" in queue.content.decode()


def test_newest_of_many_interruptions_are_grouped(lost: Lost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage_groups, "LOOKED_AT", 3)
    for second in range(5):
        lost(second)
    lost(1, tool="another")
    assert [(one.tool, one.number) for one in outage_groups.list_open_outages(make_workspace())] == [("refund_card", 3)]


def test_queue_links_to_the_outage(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(second / 10) for second in range(3)]
    page = people["carol"].get("/review/")
    assert "3 calls of refund_card interrupted in the same second" in visible_text(page)
    filtered = visible_text(people["carol"].get("/review/?tool=refund_card"))
    assert filtered.count("Part of a group: 3 calls of refund_card interrupted in the same second") == 3
    assert "Interrupted together, then longest waiting." in visible_text(page)
    address = page.context["groups"][0].address
    assert [row.call.pk for row in people["carol"].get(address).context["rows"]] == [call.pk for call in calls]


@pytest.mark.parametrize(
    ("first", "last", "told"),
    [(0.2, 0.9, "in the same second"), (0.9, 2.1, "within 2 s"), (0, 22.6, "within 22 s")],
)
def test_duration_of_an_outage_is_that_between_the_times_beside_it(
    people: dict[str, Client], lost: Lost, first: float, last: float, told: str
) -> None:
    second = THEN.microsecond / 1e6
    for moment in (first, last):
        lost(moment - second)
    assert f"2 calls of refund_card interrupted {told}" in visible_text(people["carol"].get("/review/"))


def test_calls_that_failed_with_the_same_error_have_a_page(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(second, reason=InterruptReason.AMBIGUOUS_ERROR, error_type="ConnectionError") for second in (0, 5)]
    for reason, error_type in ((InterruptReason.RUN_LOST, ""), (InterruptReason.AMBIGUOUS_ERROR, "TimeoutError")):
        lost(1, reason=reason, error_type=error_type)
    queue = people["alice"].get("/review/")
    assert "2 calls of refund_card interrupted by ConnectionError within 5 s" in visible_text(queue)
    address = queue.context["groups"][0].address
    assert "Each call may have happened." in visible_text(people["alice"].get(address))
    page = people["alice"].get(queue.context["groups"][0].address)
    shown = visible_text(page).replace("2025-03-04 ", "")
    assert "ConnectionError interrupted these calls of refund_card between 10:42:07 and 10:42:12" in shown
    assert [row.call.pk for row in page.context["rows"]] == [call.pk for call in calls]
    assert 'name="error" value="ConnectionError"' in page.content.decode()
    equal, different = ("Reset by peer", "Reset by peer"), ("Reset", "Closed")
    for messages, remark in ((equal, "Each error says “Reset by peer”."), (different, "“Closed”")):
        for call, message in zip(calls, messages, strict=True):
            ToolCall.objects.filter(pk=call.pk).update(error_message=message)
        shown = visible_text(people["alice"].get(queue.context["groups"][0].address))
        assert remark in shown
        assert shown.count(f"“{messages[0]}”") == 1
        in_queue = visible_text(people["alice"].get("/review/"))
        assert ("“Reset by peer” Show calls" in in_queue) is (messages == equal)
        assert "80.00 EUR in total Outcome unknown Open these calls" in in_queue
    ToolCall.objects.filter(pk__in=[call.pk for call in calls]).update(status=CallStatus.FAILED)
    assert "Each call may have happened." not in visible_text(people["alice"].get(address))


def test_outage_names_and_counts_all_agents_of_its_calls(
    people: dict[str, Client], lost: Lost, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for agent, calls in {"shipping": 3, "returns": 2}.items():
        for _ in range(calls):
            lost(0, agent=agent)
    people["carol"].get("/review/")
    with CaptureQueriesContext(connection) as queries:
        page = people["carol"].get("/review/")
    assert "in the same second shipping (3), returns (2) · 2025-03-04 " in visible_text(page)
    for _ in range(6):
        lost(0, agent="a")
    with django_assert_num_queries(len(queries) + 1):
        page = people["carol"].get("/review/")
    assert "in the same second a (6), shipping (3), returns (2) · 2025-03-04 " in visible_text(page)
    assert 'href="?agent=returns" aria-label="Only the agent returns"' in page.content.decode()
    for number in range(3):
        lost(0, agent=f"b{number}")
    assert "returns (2), b0 (1), b1 (1) and 1 other agent · " in visible_text(people["carol"].get("/review/"))


def test_agent_of_a_large_outage_is_named_without_a_doubt(people: dict[str, Client], lost: Lost) -> None:
    for _ in range(13):
        lost(0, agent="shipping")
    assert "in the same second shipping · 2025-03-04 " in visible_text(people["carol"].get("/review/"))


@pytest.mark.parametrize(
    ("apart", "on_page"),
    [(0.2, "at 10:42:07. Each call may"), (5, "between 10:42:07 and 10:42:12. Each call may")],
)
def test_simultaneous_outage_shows_one_time(people: dict[str, Client], lost: Lost, apart: float, on_page: str) -> None:
    for second in (0, apart):
        lost(second)
    page = people["carol"].get("/review/")
    assert (" s refund-desk · 2025-03-04 10:42:07 – 2025-03-04 " in visible_text(page)) is (apart > 1)
    shown = visible_text(people["carol"].get(page.context["groups"][0].address)).replace("2025-03-04 ", "")
    assert on_page in shown


def test_decided_calls_are_listed_last(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(second) for second in range(3)]
    made = {
        "kind": "confirm_landed",
        "reason": "It is there.",
        "evidence": "https://ledger.example/4",
        "result": "re_1",
    }
    people["alice"].post(f"/review/calls/{calls[0].pk}/", {**made, "revision": 1})
    page = people["carol"].get(PAGE)
    assert [row.call.pk for row in page.context["rows"]] == [calls[1].pk, calls[2].pk, calls[0].pk]
    assert "2 of 3 calls need a decision" in visible_text(page)
    assert (
        "alice: It happened “It is there.” Evidence: https://ledger.example/4 Result for the agent: re_1"
        in visible_text(page)
    )


def test_outage_page_shows_arguments_and_total_and_leads_onward(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(second) for second in range(2)]
    for call, amount in zip(calls, ("1,240.50", "9.50"), strict=True):
        args = {"amount": amount, "currency": "EUR", "invoice": f"INV-{call.pk}"}
        ToolCall.objects.filter(pk=call.pk).update(args=to_canonical_json(args), sentence="Charge {amount}")
    text = visible_text(people["alice"].get(PAGE))
    assert "1,250.00 EUR in total" in text
    assert text.count("Arguments amount") == 2
    for amount in ("1,240.50", "9.50"):
        assert f" {amount} EUR Answer" in text
    for call in calls:
        assert f" invoice: INV-{call.pk} " in text
    other = make_call(session=make_session(), status=CallStatus.AWAITING_APPROVAL, call_id="other")
    ToolCall.objects.filter(pk__in=[call.pk for call in calls]).update(status=CallStatus.FAILED)
    page = people["alice"].get(PAGE)
    assert "both calls are decided" in visible_text(page)
    assert "Calls of refund_card · Harness</title>" in page.content.decode()
    assert f'href="/review/calls/{other.pk}/">Next call' in page.content.decode()


@pytest.mark.parametrize(
    "query", ["", "tool=x&from=a&to=b", "tool=x&from=2025-03-04T10:00:00Z&to=2025-03-04T09:00:00Z"]
)
def test_invalid_url_parameters_are_a_bad_request(people: dict[str, Client], query: str) -> None:
    assert people["alice"].get(f"/review/outages/?{query}").status_code == 400


def test_mixed_time_formats_are_a_bad_request(people: dict[str, Client]) -> None:
    query = "tool=x&from=2025-03-04T10:00:00Z&to=2025-03-04T11:00:00"
    assert people["alice"].get(f"/review/outages/?{query}").status_code == 400


# asking the probes


def test_verify_all_calls_each_available_hook(people: dict[str, Client], lost: Lost) -> None:
    asked = waited_for(lost(0, verifiable=True))
    nobody_waits, no_probe = lost(1, verifiable=True), waited_for(lost(2))
    decided = waited_for(lost(3, verifiable=True, status=CallStatus.COMPLETED, reason=InterruptReason.RUN_LOST))
    assert "Verify 1 call" in visible_text(people["alice"].get(PAGE))
    response = people["alice"].post("/review/outages/verify/", WINDOW, follow=True)
    requested = dict(ToolCall.objects.values_list("pk", "verify_requested_by"))
    assert requested == {asked.pk: "alice", nobody_waits.pk: "", no_probe.pk: "", decided.pk: ""}
    assert "1 call is being verified. The answer appears below." in visible_text(response)


def test_verification_shows_actor_and_time(people: dict[str, Client], lost: Lost) -> None:
    call = waited_for(lost(0, verifiable=True))
    people["alice"].post("/review/outages/verify/", WINDOW)
    at = AuditEvent.objects.get(kind=AuditKind.VERIFY_REQUESTED).created_at
    assert f"alice asked to verify it at {at:%H:%M:%S}" in visible_text(people["carol"].get(PAGE))
    card = people["carol"].get(f"/review/calls/{call.pk}/")
    assert f"{at:%H:%M:%S}" in visible_text(card).partition(" alice asked the run to verify")[0][-15:]


def test_decisions_and_verifications_show_their_time(people: dict[str, Client], lost: Lost) -> None:
    made = make_decision(call=lost(), kind=DecisionKind.PROBE_UNKNOWN, actor="stock", reason="No answer.")
    at = f"{made.created_at:%H:%M:%S}"
    assert f"{at} stock: Tool’s own check: outcome still unknown “No answer.”" in visible_text(
        people["carol"].get(PAGE)
    )


def test_outcome_of_a_verification_is_summarized(people: dict[str, Client], lost: Lost) -> None:
    answers = [
        DecisionKind.PROBE_LANDED,
        DecisionKind.PROBE_LANDED,
        DecisionKind.PROBE_NOT_LANDED,
        DecisionKind.PROBE_UNKNOWN,
        None,
    ]
    calls = [waited_for(lost(second, verifiable=True)) for second in range(len(answers))]
    people["alice"].post("/review/outages/verify/", WINDOW)
    for call, kind in zip(calls, answers, strict=True):
        if kind is not None:
            make_decision(call=call, kind=kind, actor="verify hook of refund_card", actor_kind=ActorKind.HOOK)
        if kind is not None and kind != DecisionKind.PROBE_UNKNOWN:
            ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.COMPLETED, revision=2)
    page = people["alice"].get(PAGE)
    counts = "2 happened 1 did not happen 1 still unknown 1 not answered yet"
    assert re.search(rf"You asked to verify 5 calls at [\d:]+ {counts} ", visible_text(page))
    assert '<div class="note part" role="status">' in page.content.decode()
    assert "Each undecided call may have happened." in visible_text(page)
    assert 'data-verified="3"' in page.content.decode()
    make_decision(call=calls[-1], kind=DecisionKind.MARK_FAILED, actor="bob")
    ToolCall.objects.filter(pk=calls[-1].pk).update(status=CallStatus.FAILED, revision=2)
    page = people["carol"].get(f"{PAGE}&pk={calls[0].pk}")
    counts = "2 happened 1 did not happen 1 still unknown 1 decided by people since"
    assert re.search(rf"alice asked to verify 5 calls at [\d:]+ {counts} ", visible_text(page))
    assert '<div class="note part ok" role="status">' in page.content.decode()
    assert "The undecided call may have happened." in visible_text(page)
    assert "meanwhile" not in visible_text(page)


def test_calls_verified_together_are_one_row_of_the_decisions(people: dict[str, Client], lost: Lost) -> None:
    calls = [waited_for(lost(second, verifiable=True)) for second in range(4)]
    people["alice"].post("/review/outages/verify/", WINDOW)
    kinds = [DecisionKind.PROBE_LANDED, DecisionKind.PROBE_NOT_LANDED, DecisionKind.PROBE_LANDED]
    for call, kind in zip(calls, kinds, strict=False):
        make_decision(call=call, kind=kind, actor="verify hook of refund_card", actor_kind=ActorKind.HOOK)
        ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.COMPLETED, revision=2)
    other = lost(5)
    make_decision(call=other, kind=DecisionKind.PROBE_LANDED, actor="stock", actor_kind=ActorKind.HOOK)
    ToolCall.objects.filter(pk=other.pk).update(status=CallStatus.COMPLETED, revision=2)
    page = people["carol"].get("/review/?tab=decided")
    assert "alice had 3 calls of refund_card verified Show calls" in visible_text(page)
    assert "2 happened 1 did not happen" in visible_text(page)
    assert [len(row.rows) if row.is_batch else 1 for row in page.context["decided_rows"]] == [1, 3]
    filtered = visible_text(people["carol"].get("/review/?tab=decided&tool=refund_card"))
    assert filtered.count("The tool’s own check, on request of alice: ") == 3
    assert filtered.count("on request of") == 3


def test_calls_settled_at_the_start_of_a_process_are_named(people: dict[str, Client], lost: Lost) -> None:
    settled, _other = lost(0), lost(1)
    make_decision(call=settled, kind=DecisionKind.PROBE_LANDED, actor="stock", actor_kind=ActorKind.HOOK)
    ToolCall.objects.filter(pk=settled.pk).update(status=CallStatus.COMPLETED, revision=2)
    page = visible_text(people["alice"].get(f"{PAGE}&pk={settled.pk}"))
    assert "A verification found what happened to 1 call meanwhile." in page
    assert "asked to verify" not in page


def test_equal_answers_of_a_hook_are_said_once(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(second) for second in range(2)]
    for call in (*calls, *calls):
        _record_unknown_answer(call, "No answer.")
    page = visible_text(people["alice"].get(PAGE))
    assert re.search(r"The stock could not tell about any of the undecided calls, last at [\d:]+: “No answer.”", page)
    assert "outcome still unknown" not in page
    _record_unknown_answer(calls[0], "Two of them.")
    page = visible_text(people["alice"].get(PAGE))
    assert "could not tell about any" not in page
    assert page.count("Tool’s own check: outcome still unknown “No answer.” · the same answer 2 times") == 2
    assert page.count("Tool’s own check: outcome still unknown “Two of them.”") == 1


def _record_unknown_answer(call: ToolCall, reason: str) -> None:
    make_decision(call=call, kind=DecisionKind.PROBE_UNKNOWN, actor="stock", actor_kind=ActorKind.HOOK, reason=reason)


def test_masked_arguments_are_no_difference(people: dict[str, Client], lost: Lost) -> None:
    for number in range(2):
        lost(number, args={"password": f"secret-{number}", "shelf": number}, sentence="Open the shelf")
    page = visible_text(people["alice"].get(PAGE))
    assert "shelf: 1" in page
    assert "password: ‹masked›" not in page


def test_withdrawn_decision_is_struck_out(people: dict[str, Client], lost: Lost) -> None:
    card = f"/review/calls/{lost().pk}/"
    people["alice"].post(card, {"kind": "mark_failed", "reason": "It is not there.", "revision": 1})
    assert '<s class="former">' not in people["carol"].get(PAGE).content.decode()
    people["alice"].post(f"{card}withdraw/", {"reason": "I read the wrong line.", "revision": 2})
    page = people["carol"].get(PAGE).content.decode()
    former, *others = re.findall(r'<s class="former">(.*?)</s>', page)
    assert ("It did not happen" in former, others) == (True, [])
    folds = re.findall('<details class="small"><summary>(.*?)</summary>(.*?)</details>', page, re.DOTALL)
    [(summary, folded)] = [fold for fold in folds if "Decision withdrawn" in fold[0]]
    assert (">alice<" in summary, '<s class="former">' in folded) == (True, True)


@pytest.mark.parametrize("name", ["alice", "carol"])
def test_calls_of_an_unusual_risk_say_so(people: dict[str, Client], lost: Lost, name: str) -> None:
    lost(0, risk=Risk.HIGH)
    lost(1, risk=Risk.MEDIUM)
    rows = re.split(r'<li class="(?:answer-row|unknown)', people[name].get(PAGE).content.decode())[1:]
    assert [re.findall("(?:High|Medium) risk", row) for row in rows[:2]] == [["High risk"], []]


# who is on them


def test_claims_and_readers_are_shown(people: dict[str, Client], lost: Lost) -> None:
    mine, theirs = lost(0), lost(1)
    people["alice"].post(f"/review/calls/{mine.pk}/claim/")
    people["bob"].post(f"/review/calls/{theirs.pk}/claim/")
    people["dora"].post(f"/review/calls/{theirs.pk}/present/")
    page = visible_text(people["alice"].get(PAGE))
    assert page.count("Claimed by you since ") == 1
    assert re.search(r"Claimed by bob since [\d:]+ · dora has it open", page)


# many


def test_outage_with_several_pages(people: dict[str, Client], lost: Lost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage_groups, "PAGE", 2)
    monkeypatch.setattr(calls_interrupted_by_outage, "PAGE", 2)
    calls = [lost(second) for second in (0, 0, 1, 2, 3)]
    people["bob"].post(f"/review/calls/{calls[1].pk}/", {"kind": "mark_failed", "reason": "Gone.", "revision": 1})
    order = [calls[place].pk for place in (0, 2, 3, 4, 1)]
    address, seen, told = PAGE, [], []
    while address:
        page = people["alice"].get(address)
        assert "4 of 5 calls need a decision" in visible_text(page)
        seen += [row.call.pk for row in page.context["rows"]]
        told += re.findall(r"\d more", visible_text(page))
        address = page.context["next_page"]
    assert seen == order
    assert told == ["3 more", "1 more"]
    last = people["alice"].get(f"{PAGE}&after={calls[3].pk}")
    assert "First page" in visible_text(last)
    assert last.context["next_page"] == ""


@pytest.mark.parametrize("after", ["x", "-1", "9" * 19])
def test_invalid_cursor_is_a_bad_request(people: dict[str, Client], after: str) -> None:
    assert people["alice"].get(f"{PAGE}&after={after}").status_code == 400


@pytest.mark.parametrize("number", [1, 3])
def test_query_count_is_independent_of_the_calls(
    people: dict[str, Client], lost: Lost, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    for second in range(number):
        call = waited_for(lost(second, verifiable=True))
        make_late_result(call=call)
        make_decision(call=call, kind=DecisionKind.PROBE_UNKNOWN, actor_kind=ActorKind.HOOK, final=True)
    carol = people["carol"]
    with django_assert_num_queries(14):
        carol.get(PAGE)


def test_outages_of_other_workspaces_are_separate(lost: Lost) -> None:
    for workspace, number in (("default", 2), ("elsewhere", 3)):
        for second in range(number):
            lost(second, workspace=workspace)
    found = {
        one.slug: [outage.number for outage in outage_groups.list_open_outages(one)] for one in Workspace.objects.all()
    }
    assert found == {"default": [2], "elsewhere": [3]}


def test_late_results_are_not_called_by_the_name_of_the_field_evidence(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(0), lost(1), lost(2)]
    make_late_result(call=calls[0])
    html = people["alice"].get(people["alice"].get("/review/").context["groups"][0].address).content.decode()
    assert "Decide 1 call by its late result" in html
    assert "by its evidence" not in html
    assert "evidence: it" not in html
    settle = html.partition("Decide by late results")[2].partition("</form>")[0]
    assert "required, recorded with your name for each call" in settle
    assert 'aria-required="true"' in settle


def test_auditor_sees_no_steps_of_a_decision(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(0), lost(1)]
    make_late_result(call=calls[0])
    address = people["carol"].get("/review/").context["groups"][0].address
    steps = (
        "This tool cannot check whether the calls happened",
        "Decide by late results",
        "Decide the others yourself",
    )
    shown = {name: visible_text(people[name].get(address)) for name in ("alice", "carol")}
    assert all(step in shown["alice"] for step in steps)
    assert not any(step in shown["carol"] for step in steps)
    assert "Your role is auditor; deciding needs an approver." in shown["carol"]
    assert "j k move · Enter open · ? keys" in shown["carol"]
    pages = {name: people[name].get(address).content.decode() for name in ("alice", "carol")}
    # There are no fields that a live update could send along, and no answers to choose by their numbers.
    sent_by = {name: ("hx-include" in page, "data-answers" in page) for name, page in pages.items()}
    assert sent_by == {"alice": (True, True), "carol": (False, False)}


def test_decided_call_has_the_time_of_its_decision(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(second) for second in range(2)]
    made = make_decision(call=calls[0])
    ToolCall.objects.filter(pk=calls[0].pk).update(status=CallStatus.FAILED)
    page = people["alice"].get(PAGE).content.decode()
    row = page[page.index(f'id="call-{calls[0].pk}"') :]
    assert f'datetime="{made.created_at.isoformat(timespec="seconds")[:19]}' in row[: row.index("</p>")]


@pytest.mark.parametrize(
    ("kind", "actor_kind", "status", "words", "css_class", "chips"),
    [
        (DecisionKind.MARK_FAILED, ActorKind.PERSON, CallStatus.FAILED, "It did not happen", "off", ""),
        (DecisionKind.PROBE_NOT_LANDED, ActorKind.HOOK, CallStatus.FAILED, "it did not happen", "off", ""),
        (DecisionKind.PROBE_LANDED, ActorKind.HOOK, CallStatus.COMPLETED, "it happened", "ok", ""),
        (
            DecisionKind.APPROVE_RERUN,
            ActorKind.PERSON,
            CallStatus.RERUN_APPROVED,
            "One more run approved",
            "wait",
            "Not run again yet",
        ),
    ],
)
def test_decided_call_says_its_outcome_once(
    people: dict[str, Client],
    lost: Lost,
    kind: DecisionKind,
    actor_kind: ActorKind,
    status: CallStatus,
    words: str,
    css_class: str,
    chips: str,
) -> None:
    calls = [lost(second) for second in range(2)]
    make_decision(call=calls[0], kind=kind, actor_kind=actor_kind)
    ToolCall.objects.filter(pk=calls[0].pk).update(status=status)
    row = people["alice"].get(PAGE).content.decode().partition(f'<li class="{css_class}" id="call-{calls[0].pk}"')[2]
    assert words in row.partition("</summary>")[0]
    shown = row.partition('<p class="chips">')[2].partition("</p>")[0]
    assert " ".join(re.sub("<[^>]*>", " ", shown).split()) == chips


def test_calls_are_sorted_by_their_titles(people: dict[str, Client], lost: Lost) -> None:
    for second, number in enumerate((10, 9, 100)):
        lost(second, sentence=f"Ship parcel {number}")
    page = people["alice"].get(PAGE)
    assert [row.call.sentence for row in page.context["rows"]] == [f"Ship parcel {number}" for number in (9, 10, 100)]
    assert "Each call may have happened. The calls are sorted by their titles." in visible_text(page)


def test_calls_that_look_alike_say_when_each_was_interrupted(people: dict[str, Client], lost: Lost) -> None:
    lost(0)
    lost(7)
    lost(9, args={"amount": "41.00", "currency": "EUR", "order": 18})
    page = people["alice"].get(PAGE).content.decode()
    rows = re.findall(r'<li class="answer-row.*?</li>', page, re.DOTALL)
    assert [re.findall("10:42:[0-9]{2}</time> · <bdi>refund-desk", row) for row in rows] == [
        ["10:42:07</time> · <bdi>refund-desk"],
        ["10:42:14</time> · <bdi>refund-desk"],
        [],
    ]
