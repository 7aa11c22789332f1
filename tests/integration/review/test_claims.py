"""Saying that one is on a call: who sees it, how it ends, and that it stops nobody."""

from datetime import timedelta

import pytest
from django.test import Client

from checkpoints.db import clock
from checkpoints.enums import AuditKind, CallStatus, Role
from checkpoints.formats import parse_json
from checkpoints.models import AuditEvent, Session, ToolCall
from harness_site.accounts.models import Membership
from harness_site.review import claim_services
from harness_site.review.models import Claim, Presence
from harness_site.review.presence import CLAIMED_FOR, PRESENT_FOR
from tests.integration.review.conftest import Lost
from tests.support.factories import make_call, make_decision, make_session, make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db
DECISION = {"kind": "mark_failed", "reason": "Not in the export.", "revision": 1}


def url(call: ToolCall, what: str = "") -> str:
    return f"/review/calls/{call.pk}/{what}"


def holder(call: ToolCall) -> str:
    return Claim.objects.get(call=call).member.user.get_username()


def told(kind: AuditKind) -> list[tuple[str, object]]:
    """Who did so, and in whose place."""
    events = AuditEvent.objects.filter(kind=kind).order_by("pk")
    return [(event.actor, parse_json(event.details).get("from_member")) for event in events]


def silent(call: ToolCall) -> None:
    """So long without a sign of life that nobody is on it any more."""
    Claim.objects.filter(call=call).update(seen_at=clock.now() - CLAIMED_FOR - timedelta(seconds=1))


def test_the_others_read_who_is_on_it_and_since_when(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    people["alice"].post(url(call, "claim/"))
    since = f"{Claim.objects.get(call=call).since:%H:%M:%S}"
    assert f"Claimed by alice since {since} You can still decide" in visible_text(people["bob"].get(url(call)))
    assert f"Claimed by alice since {since}" in visible_text(people["bob"].get("/review/"))
    assert f"Claimed by you since {since} Also open for: bob Release" in visible_text(people["alice"].get(url(call)))
    assert f"Claimed by you since {since}" in visible_text(people["alice"].get("/review/"))


def test_open_pages_are_told(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    revisions = [Session.objects.get().revision]
    for what in ("claim/", "claim/", "release/", "release/"):
        people["alice"].post(url(call, what))
        revisions.append(Session.objects.get().revision)
    assert revisions == [revisions[0] + step for step in (0, 1, 1, 2, 2)]


def test_claim_blocks_no_decision_and_ends_with_it(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    people["alice"].post(url(call, "claim/"))
    assert people["bob"].post(url(call), DECISION).status_code == 302
    call.refresh_from_db()
    assert call.status == CallStatus.FAILED
    assert not Claim.objects.exists()


def test_first_of_two_votes_releases_only_its_own_claim(people: dict[str, Client], lost: Lost) -> None:
    call = lost(approvals=2)
    people["alice"].post(url(call, "claim/"))
    people["bob"].post(url(call), DECISION)
    assert holder(call) == "alice"
    people["alice"].post(url(call), {**DECISION, "revision": 2})
    assert not Claim.objects.exists()


def test_another_takes_over_with_one_click_and_it_is_recorded(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    people["alice"].post(url(call, "claim/"))
    assert "Take over" in visible_text(people["bob"].get(url(call)))
    people["bob"].post(url(call, "claim/"))
    assert holder(call) == "bob"
    assert told(AuditKind.CLAIMED) == [("alice", None), ("bob", "alice")]


def test_only_who_is_on_it_lets_go(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    people["alice"].post(url(call, "claim/"))
    people["bob"].post(url(call, "release/"))
    assert holder(call) == "alice"
    people["alice"].post(url(call, "release/"))
    assert not Claim.objects.exists()
    assert told(AuditKind.RELEASED) == [("alice", None)]


def test_signing_out_lets_go_of_everything(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(), lost()]
    for call in calls:
        people["alice"].post(url(call, "claim/"))
    people["bob"].post(url(calls[1], "claim/"))
    people["alice"].post("/accounts/logout/")
    assert [claim.call_id for claim in Claim.objects.all()] == [calls[1].pk]
    assert told(AuditKind.RELEASED) == [("alice", None)]


def test_silence_ends_a_claim_and_a_sign_of_life_keeps_it(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    people["alice"].post(url(call, "claim/"))
    Claim.objects.update(seen_at=clock.now() - CLAIMED_FOR + timedelta(minutes=1))
    people["alice"].post(url(call, "present/"))
    assert Claim.objects.get().seen_at > clock.now() - timedelta(minutes=1)
    silent(call)
    people["alice"].post(url(call, "present/"))  # too late: somebody else may have taken it for free
    assert "is on it" not in visible_text(people["bob"].get(url(call)))
    people["bob"].post(url(call, "claim/"))
    assert told(AuditKind.CLAIMED) == [("alice", None), ("bob", None)]


def test_nobody_can_be_on_what_is_decided(people: dict[str, Client], lost: Lost) -> None:
    call = lost(status=CallStatus.COMPLETED)
    make_decision(call=call)
    people["alice"].post(url(call, "claim/"))
    assert not Claim.objects.exists()
    assert "I am on it" not in visible_text(people["alice"].get(url(call)))


def test_who_has_the_card_open_is_seen_by_the_others(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    people["carol"].get(url(call))
    people["alice"].get(url(call))
    assert "Also open for: alice, carol" in visible_text(people["bob"].post(url(call, "present/")))
    assert "Open for: alice, bob, carol" in visible_text(people["dora"].get("/review/"))
    assert "Also open for: bob, carol" in visible_text(people["alice"].post(url(call, "present/")))


def test_who_has_gone_is_not_seen_any_more(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    people["alice"].get(url(call))
    Presence.objects.update(seen_at=clock.now() - PRESENT_FOR)
    assert "alice" not in visible_text(people["bob"].post(url(call, "present/")))
    Presence.objects.update(seen_at=clock.now() - timedelta(days=2))
    claim_services.remove_claims_after_decision(lost(), by=Membership.objects.get(user__username="bob"))
    assert not Presence.objects.exists()


def test_an_auditor_claims_nothing(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    assert people["carol"].post(url(call, "claim/")).status_code == 403
    page = visible_text(people["carol"].get(url(call)))
    assert "I am on it" not in page


def test_a_hostile_name_stays_text(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    people["alice"].post(url(call, "claim/"))
    user = Claim.objects.get().member.user
    user.username = "<script>alert(1)</script>"
    user.save()
    for path in (url(call), "/review/"):
        assert "<script>alert" not in people["bob"].get(path).content.decode()


@pytest.mark.parametrize(("role", "offered"), [(Role.APPROVER, False), (Role.ADMIN, True)])
def test_after_the_deadline_only_who_can_decide_is_offered_to_claim(client: Client, role: Role, offered: bool) -> None:
    call = make_call(session=make_session(), decide_within=timedelta(minutes=1))  # interrupted long ago
    client.force_login(make_user(role=role))
    card = f"/review/calls/{call.pk}/"
    client.post(f"{card}claim/")
    assert Claim.objects.filter(call=call).exists() == offered
    Claim.objects.all().delete()
    for html in (client.get(card).content.decode(), client.post(f"{card}present/").content.decode()):
        assert (f'action="{card}claim/"' in html) == offered
