"""Claims on calls: visibility, expiry, and decisions despite a claim."""

import re
from datetime import timedelta

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.db.models import F
from django.test import Client

from checkpoints.db import clock
from checkpoints.enums import AuditKind, CallStatus, Role
from checkpoints.formats import parse_json
from checkpoints.models import AuditEvent, Session, ToolCall
from harness_site.accounts.models import Membership
from harness_site.review import claim_services
from harness_site.review.load_claims_and_record_presence import (
    CLAIMED_FOR,
    HANDED_FOR,
    PRESENT_FOR,
    load_claims_and_presence_of_call,
    load_statuses_of_undecided_calls_handed_to,
)
from harness_site.review.models import Claim, Presence
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
    """Return the actors and previous holders of claim events."""
    events = AuditEvent.objects.filter(kind=kind).order_by("pk")
    return [(event.actor, parse_json(event.details).get("from_member")) for event in events]


def silent(call: ToolCall) -> None:
    """Make the holder of a claim look absent."""
    Claim.objects.filter(call=call).update(seen_at=clock.now() - CLAIMED_FOR - timedelta(seconds=1))


def test_claim_shows_holder_and_time_to_others(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    people["alice"].post(url(call, "claim/"))
    since = f"{Claim.objects.get(call=call).since:%H:%M:%S}"
    assert f"Claimed by alice since {since}. You can still decide." in visible_text(people["bob"].get(url(call)))
    assert f"Claimed by alice since {since}" in visible_text(people["bob"].get("/review/"))
    assert f"Claimed by you since {since} bob has this page open too Release" in visible_text(
        people["alice"].get(url(call))
    )
    assert f"Claimed by you since {since}" in visible_text(people["alice"].get("/review/"))


def test_claim_updates_open_pages(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    revisions = [Session.objects.get().revision]
    for what in ("claim/", "claim/", "release/", "release/"):
        people["alice"].post(url(call, what))
        revisions.append(Session.objects.get().revision)
    assert revisions == [revisions[0] + step for step in (0, 1, 1, 2, 2)]


def test_claim_does_not_block_decisions_and_ends_with_one(people: dict[str, Client], lost: Lost) -> None:
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


def test_takeover_of_a_claim_is_recorded(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    people["alice"].post(url(call, "claim/"))
    assert "Take over" in visible_text(people["bob"].get(url(call)))
    people["bob"].post(url(call, "claim/"))
    assert holder(call) == "bob"
    assert told(AuditKind.CLAIMED) == [("alice", None), ("bob", "alice")]


def test_only_the_holder_releases_a_claim(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    people["alice"].post(url(call, "claim/"))
    people["bob"].post(url(call, "release/"))
    assert holder(call) == "alice"
    people["alice"].post(url(call, "release/"))
    assert not Claim.objects.exists()
    assert told(AuditKind.RELEASED) == [("alice", None)]


def test_sign_out_releases_all_claims(people: dict[str, Client], lost: Lost) -> None:
    calls = [lost(), lost()]
    for call in calls:
        people["alice"].post(url(call, "claim/"))
    people["bob"].post(url(calls[1], "claim/"))
    people["alice"].post("/accounts/logout/")
    assert [claim.call_id for claim in Claim.objects.all()] == [calls[1].pk]
    assert told(AuditKind.RELEASED) == [("alice", None)]


def test_sign_out_leaves_calls_that_a_colleague_has_handed_over(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    people["bob"].post(url(call, "hand-over/"), {"to": "alice"})
    people["alice"].post("/accounts/logout/")
    assert holder(call) == "alice"
    assert told(AuditKind.RELEASED) == []


def test_hand_over_and_its_end_are_among_the_events_of_the_call(people: dict[str, Client], lost: Lost) -> None:
    call, other = lost(), lost()
    to_bob = {"to": "bob"}
    people["alice"].post(url(other, "hand-over/"), to_bob)
    people["alice"].post(url(call, "claim/"))
    people["alice"].post(url(call, "release/"))  # nobody had handed it over
    steps = [
        ("alice", "hand-over/", to_bob, "alice handed the call over to bob"),
        ("alice", "release/", {}, "alice took the call back from bob"),
        ("alice", "hand-over/", to_bob, "alice handed the call over to bob"),
        ("bob", "release/", {}, "bob released the call that alice had handed over"),
        ("alice", "hand-over/", to_bob, "alice handed the call over to bob"),
        ("dora", "claim/", {}, "dora took the call over from bob"),
    ]
    for name, what, sent, _told in steps:
        people[name].post(url(call, what), sent)
    people["bob"].post(url(call), DECISION)
    record = f"/sessions/{call.session_id}/calls/{call.pk}/"
    for address in (url(call), record):
        text = visible_text(people["bob"].get(address))
        position = 0
        for _name, _what, _sent, told_of in steps:
            assert told_of in text[position:], (address, told_of)
            position = text.index(told_of, position) + len(told_of)
        assert text.count("alice took the call back") == 1
        assert "bob: It did not happen" in text[position:]


def list_handover_sentences(client: Client, call: ToolCall) -> list[list[str]]:
    """List what the decision page and the page of the call say about hand-overs."""
    pages = (url(call), f"/sessions/{call.session_id}/calls/{call.pk}/")
    told = re.compile(r"(?:alice|bob|dora) (?:handed the call over to|took the call (?:over|back) from) \w+")
    return [told.findall(visible_text(client.get(page))) for page in pages]


def test_claim_of_a_call_that_the_receiver_of_a_hand_over_has_approved_takes_nothing_over(
    people: dict[str, Client], lost: Lost
) -> None:
    call = lost(approvals=2)
    people["alice"].post(url(call, "hand-over/"), {"to": "bob"})
    people["bob"].post(url(call), DECISION)
    people["dora"].post(url(call, "claim/"))
    assert list_handover_sentences(people["dora"], call) == [["alice handed the call over to bob"]] * 2


def test_claim_of_a_call_whose_hand_over_has_outlived_the_decision_of_another_takes_it_over(
    people: dict[str, Client], lost: Lost
) -> None:
    call = lost(approvals=2)
    people["alice"].post(url(call, "hand-over/"), {"to": "bob"})
    people["alice"].post(url(call), DECISION)
    assert holder(call) == "bob"
    people["dora"].post(url(call, "claim/"))
    told = ["alice handed the call over to bob", "dora took the call over from bob"]
    assert list_handover_sentences(people["dora"], call) == [told] * 2


@pytest.mark.parametrize("decider", ["alice", "bob"])
def test_hand_over_comes_back_when_the_decision_that_ended_it_is_withdrawn(
    people: dict[str, Client], lost: Lost, decider: str
) -> None:
    call = lost()
    people["bob"].post(url(call, "hand-over/"), {"to": "alice", "note": "You know this customer."})
    alice = Membership.objects.get(user__username="alice")
    assert load_claims_and_presence_of_call(call.pk, alice).mine is not None
    assert people[decider].post(url(call), DECISION).status_code == 302
    call.refresh_from_db()
    assert not load_statuses_of_undecided_calls_handed_to(alice)
    assert load_claims_and_presence_of_call(call.pk, alice).mine is None

    sent = {"revision": call.revision, "reason": "Wrong order."}
    assert people[decider].post(url(call, "withdraw/"), sent).status_code == 302
    assert load_statuses_of_undecided_calls_handed_to(alice) == {call.pk: CallStatus.INTERRUPTED}
    restored = load_claims_and_presence_of_call(call.pk, alice).mine
    assert restored is not None
    assert (restored.handed_by, restored.note) == ("bob", "You know this customer.")


def test_hand_over_does_not_come_back_after_its_time_or_for_a_call_that_ran_meanwhile(
    people: dict[str, Client], lost: Lost
) -> None:
    call, other = lost(), lost()
    alice = Membership.objects.get(user__username="alice")
    for each in (call, other):
        people["bob"].post(url(each, "hand-over/"), {"to": "alice"})
        people["bob"].post(url(each), DECISION)
        each.refresh_from_db()
    Claim.objects.filter(call=call).update(seen_at=F("seen_at") - timedelta(days=1))
    people["bob"].post(url(call, "withdraw/"), {"revision": call.revision, "reason": "Wrong order."})
    ToolCall.objects.filter(pk=other.pk).update(status=CallStatus.INTERRUPTED)
    assert not load_statuses_of_undecided_calls_handed_to(alice)


def test_claim_after_a_hand_over_has_expired_takes_nothing_over(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    people["alice"].post(url(call, "hand-over/"), {"to": "bob"})
    Claim.objects.update(seen_at=clock.now() - HANDED_FOR - timedelta(seconds=1))
    people["bob"].post(url(call, "claim/"))
    people["dora"].post(url(call, "claim/"))  # in place of a claim that nobody has handed over
    assert list_handover_sentences(people["dora"], call) == [["alice handed the call over to bob"]] * 2


def test_claim_of_a_later_attempt_ends_no_hand_over_of_an_earlier_one(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    people["alice"].post(url(call, "hand-over/"), {"to": "bob"})
    people["bob"].post(url(call), DECISION)
    ToolCall.objects.filter(pk=call.pk).update(issued_at=clock.now() - timedelta(hours=1))
    again = make_call(
        session=call.session,
        call_id=call.call_id,
        step=call.step,
        attempt=2,
        interrupted_at=clock.now(),
        issued_at=clock.now(),
    )
    people["bob"].post(url(again, "claim/"))
    people["dora"].post(url(again, "claim/"))
    assert [list_handover_sentences(people["dora"], each) for each in (call, again)] == [
        [["alice handed the call over to bob"]] * 2,
        [[]] * 2,
    ]


def test_note_of_a_hand_over_that_mentions_nobody_is_recorded_only_when_it_is_sent_again(
    people: dict[str, Client], lost: Lost
) -> None:
    call = lost()
    sent = {"to": "alice", "note": "See what @nobody and @carol say"}
    refused = people["bob"].post(url(call, "hand-over/"), sent)
    assert refused.status_code == 422
    assert not Claim.objects.exists()
    page = refused.content.decode()
    assert "No member of this workspace has the name @nobody. Nothing was recorded." in page
    assert page.count('<input type="hidden" name="accepted" value="@nobody">') == 1
    form = page.partition("data-hand-over")[2].partition("</form>")[0]
    assert '<button type="button" class="btn plain">@carol</button>' in form
    assert people["bob"].post(url(call, "hand-over/"), {**sent, "accepted": "@nobody"}).status_code == 302
    assert holder(call) == "alice"


def test_sign_out_leaves_the_claims_of_somebody_who_works_in_another_browser(
    people: dict[str, Client], lost: Lost
) -> None:
    call, browsers, alice = lost(), [people["alice"], Client(), Client()], User.objects.get(username="alice")
    for browser in browsers:
        browser.force_login(alice)
        key = browser.session.session_key
        UserSession.objects.create(user=alice, session_key=key, ip="127.0.0.1", user_agent="Firefox")
    browsers[0].post(url(call, "claim/"))
    browsers[1].post("/accounts/logout/")
    assert holder(call) == "alice"
    # No page has been open in the other browser for as long as a claim holds.
    key = browsers[0].session.session_key
    UserSession.objects.filter(session_key=key).update(last_seen_at=clock.now() - CLAIMED_FOR)
    browsers[2].post("/accounts/logout/")
    assert not Claim.objects.exists()


def test_claim_expires_without_presence(people: dict[str, Client], lost: Lost) -> None:
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


def test_decided_call_cannot_be_claimed(people: dict[str, Client], lost: Lost) -> None:
    call = lost(status=CallStatus.COMPLETED)
    make_decision(call=call)
    people["alice"].post(url(call, "claim/"))
    assert not Claim.objects.exists()
    assert "I am on it" not in visible_text(people["alice"].get(url(call)))


def test_readers_of_a_card_are_shown_to_others(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    people["carol"].get(url(call))
    people["alice"].get(url(call))
    assert "alice, carol have this page open too" in visible_text(people["bob"].post(url(call, "present/")))
    assert "alice, bob, carol have it open" in visible_text(people["dora"].get("/review/"))
    assert "bob, carol have this page open too" in visible_text(people["alice"].post(url(call, "present/")))


def test_absent_readers_are_not_shown(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    people["alice"].get(url(call))
    Presence.objects.update(seen_at=clock.now() - PRESENT_FOR)
    assert "page open" not in visible_text(people["bob"].post(url(call, "present/")))
    Presence.objects.update(seen_at=clock.now() - timedelta(days=2))
    claim_services.reload_statuses_and_remove_claims([lost()], by=Membership.objects.get(user__username="bob"))
    assert not Presence.objects.exists()


def test_reader_who_leaves_the_page_is_not_shown(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    for name in ("alice", "carol"):
        people[name].get(url(call))
    assert people["alice"].post(url(call, "present/"), {"left": "1"}).status_code == 204
    assert "carol has this page open too" in visible_text(people["bob"].post(url(call, "present/")))


def test_auditor_cannot_claim(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    assert people["carol"].post(url(call, "claim/")).status_code == 403
    page = visible_text(people["carol"].get(url(call)))
    assert "I am on it" not in page


def test_hostile_name_is_escaped(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    people["alice"].post(url(call, "claim/"))
    user = Claim.objects.get().member.user
    user.username = "<script>alert(1)</script>"
    user.save()
    for path in (url(call), "/review/"):
        assert "<script>alert" not in people["bob"].get(path).content.decode()


@pytest.mark.parametrize(("role", "offered"), [(Role.APPROVER, False), (Role.ADMIN, True)])
def test_claim_after_the_deadline_is_offered_only_to_admins(client: Client, role: Role, offered: bool) -> None:
    call = make_call(session=make_session(), decide_within=timedelta(minutes=1))  # interrupted long ago
    client.force_login(make_user(role=role))
    card = f"/review/calls/{call.pk}/"
    client.post(f"{card}claim/")
    assert Claim.objects.filter(call=call).exists() == offered
    Claim.objects.all().delete()
    for html in (client.get(card).content.decode(), client.post(f"{card}present/").content.decode()):
        assert (f'action="{card}claim/"' in html) == offered
