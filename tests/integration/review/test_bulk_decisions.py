"""Bulk decisions about calls of an outage, each by its own evidence."""

from datetime import timedelta

import pytest
from django.test import Client

from checkpoints.enums import DecisionKind, SessionStatus
from checkpoints.formats import parse_json
from checkpoints.models import Decision, Session, ToolCall
from harness_site.review.models import Claim
from harness_site.review.selectors import outage_groups
from tests.integration.review.conftest import PAGE, WINDOW, Lost, waited_for
from tests.support.factories import make_decision, make_late_result
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db
WHY = {**WINDOW, "reason": "The provider's export agrees."}


def chosen(client: Client) -> list[str]:
    """Return the data of the form on the page."""
    return [row.form_value for row in client.get(PAGE).context["settling"]]


def settle(client: Client, calls: list[str] | None = None) -> str:
    response = client.post("/review/outages/settle/", {**WHY, "call": chosen(client) if calls is None else calls})
    assert response.status_code == 302
    address = response.headers["Location"]
    page, decisions = visible_text(client.get(address)), Decision.objects.count()
    assert "Outcome" in visible_text(client.get(address))
    assert Decision.objects.count() == decisions  # loading it again settles nothing
    return page


def status(call: ToolCall) -> str:
    call.refresh_from_db()
    return call.status


def test_later_page_is_settled_separately(
    people: dict[str, Client], lost: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage_groups, "PAGE", 2)
    calls = [waited_for(lost(second, verifiable=True)) for second in range(3)]
    for call in calls:
        make_late_result(call=call)
    second = people["alice"].get(people["alice"].get(PAGE).context["next_page"])
    later = {**WINDOW, "after": str(calls[1].pk)}
    assert f'name="after" value="{calls[1].pk}"' in second.content.decode()
    assert people["alice"].post("/review/outages/verify/", later).headers["Location"].endswith(f"&after={calls[1].pk}")
    asked = ToolCall.objects.exclude(verify_requested_by="").values_list("pk", flat=True)
    assert list(asked) == [calls[2].pk]
    settle(people["alice"], [row.form_value for row in second.context["settling"]])
    assert [status(call) for call in calls] == ["interrupted", "interrupted", "completed"]


def test_result_is_shown_only_to_its_author(people: dict[str, Client], lost: Lost) -> None:
    make_late_result(call=lost())
    response = people["alice"].post("/review/outages/settle/", {**WHY, "call": chosen(people["alice"])})
    address = response.headers["Location"]
    assert "decision recorded" not in visible_text(people["bob"].get(address))
    assert "decision recorded" not in visible_text(people["alice"].get(f"{PAGE}&settled=another"))


def test_only_calls_with_agreeing_evidence_are_settled(people: dict[str, Client], lost: Lost) -> None:
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
    assert "3 of 5 calls need a decision" in page
    made = {one.tool_call_id: one for one in Decision.objects.all()}
    assert {(one.kind, one.actor, one.reason) for one in made.values()} == {
        ("confirm_landed", "alice", WHY["reason"]),
        ("mark_failed", "alice", WHY["reason"]),
    }
    cited = parse_json(made[landed.pk].evidence or "")
    late = landed.late_results.get()
    assert cited["late_result"] == late.pk
    assert cited["text"].startswith("Run 1 reported success at ")


def test_refused_decision_does_not_block_others(people: dict[str, Client], lost: Lost) -> None:
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
    assert "1 decision recorded" in page
    assert "bob decided first, at " in page
    assert "Something new was recorded about this call while you were deciding." in page
    assert "The deadline passed at " in page
    assert "The late results of this call have changed." in page
    assert [made.actor for made in Decision.objects.order_by("pk")] == ["bob", "alice"]


def test_two_approvals_are_recorded_separately(people: dict[str, Client], lost: Lost) -> None:
    call = lost(approvals=2)
    make_late_result(call=call)
    assert "More people must decide the same." in settle(people["alice"])
    assert "alice, you have already decided the same." in settle(people["alice"])
    assert status(call) == "interrupted"
    settle(people["bob"])
    assert status(call) == "completed"


def test_settled_call_has_no_claim(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    make_late_result(call=call)
    people["bob"].post(f"/review/calls/{call.pk}/claim/")
    settle(people["alice"])
    assert not Claim.objects.exists()
    assert Session.objects.get().status == SessionStatus.READY


def test_reason_is_required(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    make_late_result(call=call)
    response = people["alice"].post(
        "/review/outages/settle/", {**WINDOW, "reason": " ", "call": chosen(people["alice"])}
    )
    assert response.status_code == 422
    assert "Enter a reason. It is recorded with your name for each call." in visible_text(response)
    assert " autofocus" in response.content.decode()
    assert Decision.objects.count() == 0


def test_auditor_and_non_member_cannot_settle(people: dict[str, Client], lost: Lost) -> None:
    mine, foreign = lost(), lost(workspace="elsewhere")
    for call in (mine, foreign):
        make_late_result(call=call)
    assert people["carol"].post("/review/outages/settle/", {**WHY, "call": chosen(people["carol"])}).status_code == 403
    page = settle(people["alice"], [f"{foreign.pk}.1.confirm_landed", f"{mine.pk}.1.approve_rerun", "x", "1.2"])
    assert "Outcome" in page
    assert (status(mine), status(foreign), Decision.objects.count()) == ("interrupted", "interrupted", 0)


def test_fifty_calls_are_settled_together(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(number / 10) for number in range(50)]
    for call in calls:
        make_late_result(call=call, result=f"refund re_{call.pk}")
    page = settle(people["alice"])
    assert ": all 50 calls are decided" in page
    assert "50 decisions recorded" in page
    assert {status(call) for call in calls} == {"completed"}
    assert Decision.objects.count() == 50


def test_hostile_text_is_escaped(people: dict[str, Client], lost: Lost) -> None:
    call = lost(sentence="<script>alert(1)</script>")
    make_late_result(call=call, result="<script>alert(2)</script>")
    make_decision(call=call, kind=DecisionKind.PROBE_UNKNOWN, actor="<script>alert(3)</script>", reason="<script>a")
    assert "<script>a" not in people["alice"].get(PAGE).content.decode()
    settled = people["alice"].post("/review/outages/settle/", {**WHY, "call": chosen(people["alice"])}, follow=True)
    assert "recorded" in visible_text(settled)
    assert "<script>a" not in settled.content.decode()
