"""Calls that were lost together: found, shown with the evidence of each, probed and settled one by one."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from checkpoints.enums import ActorKind, AuditKind, CallStatus, DecisionKind, InterruptReason, RunStatus, SessionStatus
from checkpoints.models import AuditEvent, Decision, Run, Session, ToolCall
from checkpoints.queries import outages
from checkpoints.serde import parse
from harness_site.review import outage
from harness_site.review.models import Claim
from tests.integration.review.conftest import Lost
from tests.support.factories import make_decision, make_late_result, make_workspace
from tests.support.pages import said

pytestmark = pytest.mark.django_db
PAGE = "/review/outages/?tool=refund_card&from=2025-03-04T10:42:07.000Z&to=2025-03-04T10:43:07.000Z"
WINDOW = {"tool": "refund_card", "from": "2025-03-04T10:42:07Z", "to": "2025-03-04T10:43:07Z"}
WHY = {**WINDOW, "reason": "The provider's export agrees."}


def chosen(client: Client) -> list[str]:
    """What the form on the page would send."""
    return [row.chosen for row in client.get(PAGE).context["settling"]]


def settle(client: Client, calls: list[str] | None = None) -> str:
    response = client.post("/review/outages/settle/", {**WHY, "call": chosen(client) if calls is None else calls})
    assert response.status_code == 302
    address = response.headers["Location"]
    page = said(client.get(address))
    assert said(client.get(address)) == page  # loading it again settles nothing
    return page


def status(call: ToolCall) -> str:
    call.refresh_from_db()
    return call.status


def waited_for(call: ToolCall) -> ToolCall:
    """A process stands at the gate of its session."""
    Run.objects.filter(session=call.session).update(status=RunStatus.WAITING)
    return call


# which calls belong together


def test_losses_that_follow_each_other_are_one_outage(lost: Lost) -> None:
    gap = outages.GAP.total_seconds()
    first, second, third = lost(0), lost(gap), lost(2 * gap)
    lost(3 * gap + 1)  # alone
    other = [lost(5, tool="send_email"), lost(6, tool="send_email")]
    lost(1, tool="ring")
    lost(1, reason=InterruptReason.AMBIGUOUS_ERROR)
    lost(1, status=CallStatus.FAILED, reason=InterruptReason.RUN_LOST)
    lost(1, workspace="elsewhere")
    found = outages.open_outages(make_workspace())
    assert [(one.tool, one.pks) for one in found] == [
        ("refund_card", (first.pk, second.pk, third.pk)),
        ("send_email", tuple(call.pk for call in other)),
    ]
    assert found[0].last - found[0].first == timedelta(seconds=2 * gap)


def test_the_queue_leads_to_the_outage(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(second / 10) for second in range(3)]
    page = people["carol"].get("/review/")
    assert "3 calls of refund_card were lost in one outage" in said(page)
    assert said(page).count("One of 3 lost in the same outage") == 3
    address = page.context["groups"][0].address
    assert [row.call.pk for row in people["carol"].get(address).context["rows"]] == [call.pk for call in calls]


@pytest.mark.parametrize(
    ("apart", "on_page"),
    [(0.2, "whose runs were lost at 10:42:07 UTC"), (5, "whose runs were lost from 10:42:07 to 10:42:12 UTC")],
)
def test_an_outage_of_a_moment_has_one_time(people: dict[str, Client], lost: Lost, apart: float, on_page: str) -> None:
    for second in (0, apart):
        lost(second)
    page = people["carol"].get("/review/")
    assert ("in one outage 2025-03-04 10:42:07 to " in said(page)) is (apart > 1)
    shown = said(people["carol"].get(page.context["groups"][0].address)).replace("2025-03-04 ", "")
    assert on_page in shown


def test_the_page_keeps_what_was_decided_and_lists_it_last(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(second) for second in range(3)]
    people["alice"].post(
        f"/review/calls/{calls[0].pk}/", {"kind": "mark_failed", "reason": "Not there.", "revision": 1}
    )
    page = people["carol"].get(PAGE)
    assert [row.call.pk for row in page.context["rows"]] == [calls[1].pk, calls[2].pk, calls[0].pk]
    assert "2 of 3 wait for a person" in said(page)
    assert "alice: It did not happen “Not there.”" in said(page)


@pytest.mark.parametrize(
    "query", ["", "tool=x&from=a&to=b", "tool=x&from=2025-03-04T10:00:00Z&to=2025-03-04T09:00:00Z"]
)
def test_a_damaged_address_is_not_understood(people: dict[str, Client], query: str) -> None:
    assert people["alice"].get(f"/review/outages/?{query}").status_code == 400


def test_times_of_two_kinds_are_not_understood(people: dict[str, Client]) -> None:
    query = "tool=x&from=2025-03-04T10:00:00Z&to=2025-03-04T11:00:00"
    assert people["alice"].get(f"/review/outages/?{query}").status_code == 400


# asking the probes


def test_verify_all_asks_each_probe_that_can_answer(people: dict[str, Client], lost: Lost) -> None:
    asked = waited_for(lost(0, verifiable=True))
    nobody_waits, no_probe = lost(1, verifiable=True), waited_for(lost(2))
    decided = waited_for(lost(3, verifiable=True, status=CallStatus.COMPLETED, reason=InterruptReason.RUN_LOST))
    assert "Verify all 1" in said(people["alice"].get(PAGE))
    response = people["alice"].post("/review/outages/verify/", WINDOW, follow=True)
    requested = dict(ToolCall.objects.values_list("pk", "verify_requested_by"))
    assert requested == {asked.pk: "alice", nobody_waits.pk: "", no_probe.pk: "", decided.pk: ""}
    assert "1 is being asked. What they find shows up below." in said(response)


def test_who_asked_for_a_probe_and_when(people: dict[str, Client], lost: Lost) -> None:
    call = waited_for(lost(0, verifiable=True))
    people["alice"].post("/review/outages/verify/", WINDOW)
    at = AuditEvent.objects.get(kind=AuditKind.VERIFY_REQUESTED).created_at
    assert f"alice asked for its probe at {at:%H:%M:%S}" in said(people["carol"].get(PAGE))
    card = people["carol"].get(f"/review/calls/{call.pk}/")
    assert f"{at:%H:%M:%S}" in said(card).partition(" alice asked for the probe")[0][-15:]


def test_a_decision_and_what_a_probe_said_have_a_time(people: dict[str, Client], lost: Lost) -> None:
    made = make_decision(call=lost(), kind=DecisionKind.PROBE_UNKNOWN, actor="stock", reason="No answer.")
    at = f"{made.created_at:%H:%M:%S}"
    assert f"{at} stock: Probe: cannot tell “No answer.”" in said(people["carol"].get(PAGE))


# who is on them


def test_who_is_on_a_call_and_who_looks_at_it(people: dict[str, Client], lost: Lost) -> None:
    mine, theirs = lost(0), lost(1)
    people["alice"].post(f"/review/calls/{mine.pk}/claim/")
    people["bob"].post(f"/review/calls/{theirs.pk}/claim/")
    people["dora"].post(f"/review/calls/{theirs.pk}/present/")
    page = said(people["alice"].get(PAGE))
    assert page.count("You are on it since ") == 1
    assert re.search(r"bob is on it since [\d:]+ · dora is looking at it", page)


# many


def test_more_than_a_page_of_them(people: dict[str, Client], lost: Lost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "PAGE", 2)
    monkeypatch.setattr(outage, "PAGE", 2)
    calls = [lost(second) for second in (0, 0, 1, 2, 3)]
    people["bob"].post(f"/review/calls/{calls[1].pk}/", {"kind": "mark_failed", "reason": "Gone.", "revision": 1})
    order = [calls[place].pk for place in (0, 2, 3, 4, 1)]
    address, seen, told = PAGE, [], []
    while address:
        page = people["alice"].get(address)
        assert "4 of 5 wait for a person" in said(page)
        seen += [row.call.pk for row in page.context["rows"]]
        told += re.findall(r"\d more follow", said(page))
        address = page.context["next_page"]
    assert seen == order
    assert told == ["3 more follow", "1 more follow"]
    last = people["alice"].get(f"{PAGE}&after={calls[3].pk}")
    assert "From the beginning" in said(last)
    assert last.context["next_page"] == ""


def test_a_later_page_is_settled_by_itself(
    people: dict[str, Client], lost: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "PAGE", 2)
    calls = [waited_for(lost(second, verifiable=True)) for second in range(3)]
    for call in calls:
        make_late_result(call=call)
    second = people["alice"].get(people["alice"].get(PAGE).context["next_page"])
    later = {**WINDOW, "after": str(calls[1].pk)}
    assert f'name="after" value="{calls[1].pk}"' in second.content.decode()
    assert people["alice"].post("/review/outages/verify/", later).headers["Location"].endswith(f"&after={calls[1].pk}")
    asked = ToolCall.objects.exclude(verify_requested_by="").values_list("pk", flat=True)
    assert list(asked) == [calls[2].pk]
    settle(people["alice"], [row.chosen for row in second.context["settling"]])
    assert [status(call) for call in calls] == ["interrupted", "interrupted", "completed"]


@pytest.mark.parametrize("after", ["x", "-1", "9" * 19])
def test_a_damaged_place_is_not_understood(people: dict[str, Client], after: str) -> None:
    assert people["alice"].get(f"{PAGE}&after={after}").status_code == 400


# settling


def test_what_came_of_it_is_its_authors_alone(people: dict[str, Client], lost: Lost) -> None:
    make_late_result(call=lost())
    assert "Nothing was chosen, so nothing was recorded." in settle(people["alice"], [])
    response = people["alice"].post("/review/outages/settle/", {**WHY, "call": chosen(people["alice"])})
    address = response.headers["Location"]
    assert "What came of it" not in said(people["bob"].get(address))
    assert "What came of it" not in said(people["alice"].get(f"{PAGE}&settled=another"))


def test_only_those_whose_evidence_agrees_are_settled(people: dict[str, Client], lost: Lost) -> None:
    landed, failed, contradicted, silent, twice = (lost(second) for second in range(5))
    make_late_result(call=landed, result="refund re_1")
    make_late_result(call=failed, result="declined", success=False)
    make_late_result(call=failed, result="declined again", success=False)
    make_late_result(call=contradicted)
    make_late_result(call=contradicted, success=False)
    for result in ("refund re_2", "refund re_3"):
        make_late_result(call=twice, result=result)
    page = settle(people["alice"])

    assert [status(call) for call in (landed, failed, contradicted, silent, twice)] == [
        "completed",
        "failed",
        "interrupted",
        "interrupted",
        "interrupted",
    ]
    assert landed.result_text == "refund re_1"
    assert "3 of 5 wait for a person" in page
    made = {one.tool_call_id: one for one in Decision.objects.all()}
    assert {(one.kind, one.actor, one.reason) for one in made.values()} == {
        ("confirm_landed", "alice", WHY["reason"]),
        ("mark_failed", "alice", WHY["reason"]),
    }
    cited = parse(made[landed.pk].evidence or "")
    late = landed.late_results.get()
    assert cited["late_result"] == late.pk
    assert cited["text"].startswith("Run 1 reported success at ")


def test_one_that_is_refused_keeps_nobody_back(people: dict[str, Client], lost: Lost) -> None:
    decided, stale, overdue, news, last = (lost(second) for second in range(5))
    for call in (decided, stale, overdue, news, last):
        make_late_result(call=call)
    ToolCall.objects.filter(pk=overdue.pk).update(decide_within=timedelta(hours=1))
    seen = chosen(people["alice"])
    people["bob"].post(f"/review/calls/{decided.pk}/", {"kind": "mark_failed", "reason": "I saw it.", "revision": 1})
    ToolCall.objects.filter(pk=stale.pk).update(revision=4)
    make_late_result(call=news, success=False)

    page = settle(people["alice"], seen)
    assert [status(call) for call in (decided, stale, overdue, news, last)] == [
        "failed",
        "interrupted",
        "interrupted",
        "interrupted",
        "completed",
    ]
    assert page.count("Not recorded") == 4
    assert "1 was recorded" in page
    assert "bob decided this first, at " in page
    assert "(Revision 1, now 4.)" in page
    assert "The time to decide ended at " in page
    assert "The late results say something else since you looked" in page
    assert [made.actor for made in Decision.objects.order_by("pk")] == ["bob", "alice"]


def test_where_two_have_to_agree_each_says_so(people: dict[str, Client], lost: Lost) -> None:
    call = lost(approvals=2)
    make_late_result(call=call)
    assert "Your voice is recorded; others have to agree." in settle(people["alice"])
    assert "You have decided so already, alice" in settle(people["alice"])
    assert status(call) == "interrupted"
    settle(people["bob"])
    assert status(call) == "completed"


def test_a_settled_call_is_nobodys_any_more(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    make_late_result(call=call)
    people["bob"].post(f"/review/calls/{call.pk}/claim/")
    settle(people["alice"])
    assert not Claim.objects.exists()
    assert Session.objects.get().status == SessionStatus.READY


def test_a_reason_is_needed(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    make_late_result(call=call)
    response = people["alice"].post(
        "/review/outages/settle/", {**WINDOW, "reason": " ", "call": chosen(people["alice"])}
    )
    assert response.status_code == 422
    assert "Say why in a sentence: it is kept with your name on each of them." in said(response)
    assert Decision.objects.count() == 0


def test_an_auditor_and_a_stranger_settle_nothing(people: dict[str, Client], lost: Lost) -> None:
    mine, foreign = lost(), lost(workspace="elsewhere")
    for call in (mine, foreign):
        make_late_result(call=call)
    assert people["carol"].post("/review/outages/settle/", {**WHY, "call": chosen(people["carol"])}).status_code == 403
    page = settle(people["alice"], [f"{foreign.pk}.1.confirm_landed", f"{mine.pk}.1.approve_rerun", "x", "1.2"])
    assert "What came of it" in page
    assert (status(mine), status(foreign), Decision.objects.count()) == ("interrupted", "interrupted", 0)


def test_fifty_at_once(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(number / 10) for number in range(50)]
    for call in calls:
        make_late_result(call=call, result=f"refund re_{call.pk}")
    page = settle(people["alice"])
    assert "All 50 are decided" in page
    assert "50 were recorded" in page
    assert {status(call) for call in calls} == {"completed"}
    assert Decision.objects.count() == 50


@pytest.mark.parametrize("number", [1, 3])
def test_the_number_of_queries_does_not_depend_on_the_number_of_calls(
    people: dict[str, Client], lost: Lost, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    for second in range(number):
        call = waited_for(lost(second, verifiable=True))
        make_late_result(call=call)
        make_decision(call=call, kind=DecisionKind.PROBE_UNKNOWN, actor_kind=ActorKind.HOOK, final=True)
    with django_assert_num_queries(10):
        people["carol"].get(PAGE)


def test_hostile_text_stays_text(people: dict[str, Client], lost: Lost) -> None:
    call = lost(sentence="<script>alert(1)</script>")
    make_late_result(call=call, result="<script>alert(2)</script>")
    make_decision(call=call, kind=DecisionKind.PROBE_UNKNOWN, actor="<script>alert(3)</script>", reason="<script>a")
    assert "<script>a" not in people["alice"].get(PAGE).content.decode()
    settled = people["alice"].post("/review/outages/settle/", {**WHY, "call": chosen(people["alice"])}, follow=True)
    assert "What came of it" in said(settled)
    assert "<script>a" not in settled.content.decode()
