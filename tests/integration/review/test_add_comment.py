"""Comments on a call, and handover to a colleague."""

import re
from datetime import timedelta

from django.test import Client

from checkpoints.db import clock
from checkpoints.enums import AuditKind, CallStatus
from checkpoints.formats import parse_json
from checkpoints.models import AuditEvent, ToolCall
from harness_site.review.load_claims_and_record_presence import HANDED_FOR
from harness_site.review.models import Claim, Comment
from tests.integration.review.interrupted_calls import lost_call
from tests.integration.review.payment_agents import awaiting, url
from tests.support.factories import make_call, make_session
from tests.support.page_text import visible_text


def test_comment_is_stored_and_escaped(people: dict[str, Client]) -> None:
    call = lost_call()
    assert people["alice"].post(f"{url(call)}comment/", {"text": "<b>Asked</b> the bank."}).status_code == 302
    answer = people["carol"].get(url(call))
    assert b"&lt;b&gt;Asked&lt;/b&gt; the bank." in answer.content
    assert "Add comment" not in visible_text(answer)
    empty = people["alice"].post(f"{url(call)}comment/", {"text": " "})
    assert (empty.status_code, Comment.objects.count()) == (422, 1)
    assert "Enter a comment." in visible_text(empty)
    assert AuditEvent.objects.filter(kind=AuditKind.COMMENTED, actor="alice").count() == 1


def test_number_of_comments_stands_in_the_row_and_beside_the_decision(people: dict[str, Client]) -> None:
    call = lost_call()
    assert "comment by" not in visible_text(people["dora"].get("/review/"))
    for name, words in {"alice": "1 comment by alice", "bob": "2 comments, the last by bob"}.items():
        people[name].post(f"{url(call)}comment/", {"text": "Asked the bank."})
        row = people["dora"].get("/review/").content.decode().partition(f'id="call-{call.pk}"')[2]
        assert f'<a href="{url(call)}#comments">{words}</a>' in row
        page = people["dora"].get(url(call)).content.decode()
        assert f'<a href="#comments">{words}</a>' in page.partition('id="decision-state"')[2]


def test_web_addresses_in_comments_are_links(people: dict[str, Client]) -> None:
    call = lost_call()
    hidden = "https://x.example/?token=sk-live-4242424242424242abcdef"
    text = f"See (https://bank.example/a?b=1&c=<d>), and {hidden} javascript:alert(1)."
    people["alice"].post(f"{url(call)}comment/", {"text": text})
    comments = people["bob"].get(url(call)).content.decode().partition('id="comments"')[2].partition("<details")[0]
    link = '<a href="https://bank.example/a?b=1&amp;c=" rel="noopener noreferrer nofollow" target="_blank">'
    assert f"See ({link}https://bank.example/a?b=1&amp;c=</a>&lt;d&gt;), and " in comments
    assert comments.count("<a ") == 1  # no link to an address of which a part is masked
    assert "sk-live" not in comments


def test_mention_of_nobody_is_recorded_only_by_an_author_who_was_told(people: dict[str, Client]) -> None:
    call = lost_call()
    text = "@Bob, @nobody and @bo.b: mail a@bank.example."
    refused = people["alice"].post(f"{url(call)}comment/", {"text": text})
    assert (refused.status_code, Comment.objects.count()) == (422, 0)
    assert "No members of this workspace have the names @nobody, @bo.b. Nothing was recorded." in visible_text(refused)
    page = refused.content.decode()
    assert re.search(rf"<textarea[^>]* autofocus[^>]*>\s*{re.escape(text)}</textarea>", page)
    (accepted,) = re.findall('name="accepted" value="(.*?)"', page)
    again = people["alice"].post(f"{url(call)}comment/", {"text": f"{text} @other", "accepted": accepted})
    assert again.status_code == 422
    assert people["alice"].post(f"{url(call)}comment/", {"text": text, "accepted": accepted}).status_code == 302
    for name in ("alice", "carol"):
        shown = people[name].get(url(call)).content.decode()
        assert "<b>@Bob</b>, @nobody and @bo.b: mail a@bank.example." in shown


def test_form_for_comments_names_the_members_and_how_they_hear_of_a_mention(people: dict[str, Client]) -> None:
    call = lost_call()
    page = visible_text(people["alice"].get(url(call)))
    assert "You can mention these members: @bob, @carol, @dora" in page
    assert "see it in their review queue while the call waits. Nobody gets an e-mail about it." in page
    ToolCall.objects.update(status=CallStatus.COMPLETED)
    assert "The call is decided, so no review queue shows a mention" in visible_text(people["alice"].get(url(call)))
    page = visible_text(people["carol"].get(url(call)))
    assert "You can read comments but not write them." in page
    assert "@bob" not in page


def test_call_is_handed_over_to_a_colleague(people: dict[str, Client]) -> None:
    call = lost_call()
    page = people["alice"].get(url(call)).content.decode()
    assert '<option value="bob">' in page
    assert '<option value="carol">' not in page  # an auditor cannot decide

    answer = people["alice"].post(
        f"{url(call)}hand-over/", {"note": "You know the customer.", "to": "bob"}, follow=True
    )
    told = r"You handed this call to bob at \d\d:\d\d:\d\d\. bob gets no e-mail about it\. Tell them yourself\."
    assert re.search(told, visible_text(answer))
    page = visible_text(people["bob"].get(url(call)))
    assert "alice handed this call to you at " in page
    assert "You know the customer." in page
    assert page.count("· note of the hand-over You know the customer.") == 1
    assert ["1 for you" in visible_text(people[name].get("/review/")) for name in ("bob", "dora")] == [True, False]
    assert "Handed to you by alice" in visible_text(people["bob"].get("/review/?claimed=me"))
    assert "Handed to bob by alice" in visible_text(people["dora"].get("/review/"))
    assert "Handed to you, then" not in visible_text(people["dora"].get("/review/"))
    event = AuditEvent.objects.get(kind=AuditKind.HANDED_OVER)
    about = {"call_id": call.call_id, "step": call.step, "comment": Comment.objects.get().pk, "address": "127.0.0.1"}
    assert (event.actor, parse_json(event.details)) == ("alice", about | {"to_member": "bob"})
    assert parse_json(AuditEvent.objects.get(kind=AuditKind.COMMENTED).details) == about
    assert "comment 1" not in visible_text(people["bob"].get(f"/sessions/{call.session_id}/history/"))

    # It holds much longer than a claim of one's own, until somebody claims the call or it is released.
    Claim.objects.update(seen_at=clock.now() - timedelta(hours=20))
    assert "Handed to bob by alice" in visible_text(people["dora"].get("/review/"))
    people["dora"].post(f"{url(call)}claim/")
    assert "Claimed by dora since" in visible_text(people["bob"].get(url(call)))

    refused = people["alice"].post(f"{url(call)}hand-over/", {"note": "", "to": "carol"})
    assert refused.status_code == 422
    assert "This person cannot decide about the call. Choose somebody else." in visible_text(refused)


def test_note_of_a_handover_has_its_label_once_the_call_is_decided(people: dict[str, Client]) -> None:
    call = lost_call()
    people["alice"].post(f"{url(call)}hand-over/", {"note": "You know the customer.", "to": "bob"})
    people["alice"].post(f"{url(call)}comment/", {"text": "It is urgent."})
    words = "· note of the hand-over You know the customer."
    assert visible_text(people["bob"].get(url(call))).count(words) == 1
    decided = {"kind": "mark_failed", "reason": "It is not there.", "revision": call.revision}
    assert people["bob"].post(url(call), decided).status_code == 302
    page = visible_text(people["bob"].get(url(call)))
    assert page.count(words) == page.count("· note of the hand-over") == 1


def test_handed_over_call_counts_as_that_of_the_receiver_until_the_handover_ends(people: dict[str, Client]) -> None:
    handed = lost_call()
    lost_call(session_id="order-18", tool="send_mail")
    people["alice"].post(f"{url(handed)}hand-over/", {"to": "bob"})
    card = people["alice"].get(url(handed)).content.decode()
    assert '<a class="btn" data-key="n" data-next' in card  # the call can still be decided
    page = people["alice"].get("/review/")
    mine, his = visible_text(page), visible_text(people["bob"].get("/review/"))
    assert "1 call needs your decision 1 more, which you handed to bob" in mine
    assert '<a href="#handed-over">' in page.content.decode()
    assert "You have handed these over" in mine.partition("order-18")[2]
    assert "Handed to bob by alice" in mine.partition("You have handed these over")[2]
    assert "You have handed these over" not in his
    of_other_tab = people["alice"].get("/review/?tab=awaiting").content.decode()
    assert "which you handed to bob" not in of_other_tab
    assert "2 calls need your decision" in his
    people["alice"].post(f"{url(handed)}release/")
    assert "2 calls need your decision" in visible_text(people["alice"].get("/review/"))
    people["alice"].post(f"{url(handed)}hand-over/", {"to": "bob"})
    Claim.objects.update(seen_at=clock.now() - HANDED_FOR - timedelta(seconds=1))
    assert "2 calls need your decision" in visible_text(people["alice"].get("/review/"))


def test_calls_handed_to_the_reader_come_first(people: dict[str, Client]) -> None:
    lost_call()
    other, handed = (
        awaiting(),
        make_call(session=make_session(session_id="order-18"), status=CallStatus.AWAITING_APPROVAL),
    )
    people["alice"].post(f"{url(handed)}hand-over/", {"to": "bob"})

    def list_calls(name: str) -> list[str]:
        page = people[name].get("/review/").content.decode()
        return re.findall(r'href="(/review/calls/\d+/)"', page.partition('class="rows pending"')[2])

    assert list_calls("bob")[:2] == [url(handed), url(other)]
    assert "Handed to you, then longest waiting." in visible_text(people["bob"].get("/review/"))
    assert list_calls("dora")[0] != url(handed)
    people["bob"].post(f"{url(handed)}release/")
    assert list_calls("bob")[0] != url(handed)


def test_number_of_calls_handed_to_the_reader_counts_those_that_match_the_filters(people: dict[str, Client]) -> None:
    handed = lost_call()
    make_call(session=make_session(session_id="order-18"), tool="send_mail")
    people["alice"].post(f"{url(handed)}hand-over/", {"to": "bob"})
    shown = {
        tool: "1 for you" in visible_text(people["bob"].get(f"/review/?tool={tool}"))
        for tool in (handed.tool, "send_mail")
    }
    assert shown == {handed.tool: True, "send_mail": False}


def test_handover_leads_onward_and_is_undone_by_the_member_who_made_it(people: dict[str, Client]) -> None:
    call, other_call = lost_call(), lost_call(session_id="order-18")
    assert "You handed" not in visible_text(people["alice"].get(url(call)))
    people["alice"].post(f"{url(call)}hand-over/", {"to": "bob"})

    # A live update may be the first response after it; the page states the handover as long as it lasts.
    for _ in range(2):
        page = people["alice"].get(url(call)).content.decode()
        assert "<b>You handed this call to bob</b>" in page
        assert f'aria-describedby="heading" href="{url(other_call)}"' in page
    assert "bob gets no e-mail" not in visible_text(people["dora"].get(url(call)))

    people["dora"].post(f"{url(call)}release/")
    assert Claim.objects.exists()
    people["alice"].post(f"{url(call)}release/")
    assert not Claim.objects.exists()
    assert "handed this call" not in visible_text(people["alice"].get(url(call)))
    assert AuditEvent.objects.filter(kind=AuditKind.RELEASED, actor="alice").count() == 1


def test_forms_for_comments_and_hand_overs_stay_closed(people: dict[str, Client]) -> None:
    call = lost_call()
    people["alice"].post(f"{url(call)}hand-over/", {"note": "You know the customer.", "to": "bob"})
    pages = {name: people[name].get(url(call)).content.decode() for name in ("alice", "bob", "dora")}
    assert not any(re.search("<details[^>]* open", page) for page in pages.values())
    # Whoever has handed the call over undoes that first.
    assert {name: 'id="hand-over"' in page for name, page in pages.items()} == {
        "alice": False,
        "bob": True,
        "dora": True,
    }


def test_hand_over_asks_who_gets_the_call_and_chooses_the_only_colleague(people: dict[str, Client]) -> None:
    call = lost_call()
    answer = people["alice"].post(f"{url(call)}hand-over/", {"note": "Please look."})
    assert answer.status_code == 422
    assert "Choose who gets the call." in visible_text(answer)
    assert re.search('<details[^>]* id="hand-over" open>', answer.content.decode())
    assert not Comment.objects.exists()
    for name in ("carol", ""):
        assert people["alice"].post(f"{url(call)}hand-over/", {"to": name}).status_code == 422
    assert [choice in answer.content.decode() for choice in ("Choose a person", '<option value="bob">')] == [True, True]
    overdue = lost_call(session_id="order-18", decide_within=timedelta(seconds=1))
    page = people["alice"].get(url(overdue)).content.decode()
    assert ["Choose a person" in page, '<option value="dora">' in page] == [False, True]


def test_call_handed_to_an_approver_before_its_deadline_can_be_handed_to_an_admin(people: dict[str, Client]) -> None:
    call = lost_call(decide_within=timedelta(hours=1))
    people["alice"].post(f"{url(call)}hand-over/", {"to": "bob"})
    ToolCall.objects.filter(pk=call.pk).update(decide_within=timedelta(microseconds=1))
    page = visible_text(people["alice"].get(url(call)))
    assert "bob has the call since" not in page
    assert "These members can:" in page
    assert "Hand over to an admin" in page


def test_overdue_call_is_handed_over_to_admins_alone(people: dict[str, Client]) -> None:
    call = lost_call(decide_within=timedelta(seconds=1))
    page = people["alice"].get(url(call)).content.decode()
    assert [f'<option value="{name}">' in page for name in ("bob", "dora")] == [False, True]
    assert people["alice"].post(f"{url(call)}hand-over/", {"note": "", "to": "bob"}).status_code == 422
    assert "Hand over to an admin" in page
    assert "Hand over to an admin" not in people["dora"].get(url(call)).content.decode()
    people["alice"].post(f"{url(call)}hand-over/", {"note": "", "to": "dora"})
    page = visible_text(people["alice"].get(url(call)))
    assert "You handed this call to dora" in page
    assert "You can still decide." not in page
    assert "Hand over to an admin" not in page
    assert re.search(r"Nothing runs until then\. dora has the call since \d\d:\d\d:\d\d\.", page)
    assert "These members can:" not in page
