"""Calls that require several approvers, and deadlines."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from checkpoints import SyncCheckpointer
from checkpoints.enums import ActorKind, CallStatus, DecisionKind, Role
from checkpoints.exceptions import SecondPersonRequired
from checkpoints.models import Decision, Session, ToolCall
from harness_site.accounts import api_tokens
from harness_site.accounts.models import ApiToken, Membership, TokenRole
from harness_site.review.selectors import pending_calls
from tests.integration.review.payment_agents import APPROVE, REJECT, RESPOND, awaiting, url
from tests.support.factories import make_call, make_decision, make_late_result, make_session, make_user, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

LANDED = {"kind": "confirm_landed", "result": "paid", "reason": "Seen in the export.", "revision": 1}


@pytest.fixture
def people(client: Client) -> dict[str, Client]:
    """Clients: alice and bob are approvers, carol an auditor, dora an admin."""
    roles = {"alice": Role.APPROVER, "bob": Role.APPROVER, "carol": Role.AUDITOR, "dora": Role.ADMIN}
    clients = {name: Client() for name in roles}
    for name, role in roles.items():
        clients[name].force_login(make_user(name=name, role=role))
    return clients


def interrupted(**fields: Any) -> ToolCall:
    call = awaiting(**fields)
    lost = {"status": CallStatus.INTERRUPTED, "reason": "run_lost", "interrupted_at": call.issued_at}
    ToolCall.objects.filter(pk=call.pk).update(**lost)
    call.refresh_from_db()
    return call


def option(page: str, kind: str) -> str:
    found = re.search(rf'<input type="radio" name="kind" value="{kind}"[^>]*>', page)
    assert found
    return found.group()


def test_two_people_approve(people: dict[str, Client]) -> None:
    call = awaiting(approvals=2)
    assert "Needs 2 approvals. One person can reject or edit." in visible_text(people["alice"].get(url(call)))
    page = visible_text(people["alice"].get(url(call)))
    assert "Nothing runs yet: one more person has to approve." in page
    assert 'data-button="Give approval 1 of 2"' in people["alice"].get(url(call)).content.decode()
    assert "Your approval counts. The call runs once, with exactly these arguments, as soon as enough people" in page
    assert "The call runs once, with exactly these arguments." not in page
    assert "The call runs as shown." not in page
    assert "What will happen" in visible_text(people["carol"].get(url(call)))
    assert people["alice"].post(url(call), APPROVE).status_code == 302
    call.refresh_from_db()
    first = Decision.objects.get()
    assert (call.status, call.revision, first.final) == (CallStatus.AWAITING_APPROVAL, 2, False)

    for name, shown in (("alice", "alice (you)"), ("bob", "alice"), ("carol", "alice")):
        page = visible_text(people[name].get(url(call)))
        assert (
            f"Nothing has run yet. A second person must approve too. {shown} approved at {first.created_at:%H:%M:%S}"
            in page
        )
        assert page.count("1 of 2 approvals") == 1
        assert ("You approved: 1 more person has to approve" in page) is (name == "alice")
        assert ("May this happen?" in page) is (name != "alice")
        assert "alice: Approved approval 1 of 2 — “The contract says so.”" in page
    assert 'data-button="Give approval 2 of 2"' in people["bob"].get(url(call)).content.decode()
    page = visible_text(people["bob"].get(url(call)))
    assert "The last of 2 approvals. The call runs." in page
    assert "The call runs once, with exactly these arguments." in page
    assert "Then: Run 1 on worker-3 is waiting and continues" in page
    assert "with exactly these arguments. This takes 2 people" not in page

    assert people["bob"].post(url(call), {**APPROVE, "revision": 2}).status_code == 302
    call.refresh_from_db()
    assert call.status == CallStatus.APPROVED
    page = visible_text(people["carol"].get(url(call)))
    assert f"alice · {first.created_at:%H:%M:%S} · approval 1 of 2 The contract says so." in page
    assert page.count("approval 2 of 2") == 2
    assert "bob: Approved approval 2 of 2 — “The contract says so.”" in page


def test_voter_sees_why_the_button_is_disabled(people: dict[str, Client]) -> None:
    call = awaiting(approvals=2)
    people["alice"].post(url(call), APPROVE)
    at = Decision.objects.get().created_at
    hers, his = (people[name].get(url(call)) for name in ("alice", "bob"))
    assert "disabled" in option(hers.content.decode(), "approve")
    assert "disabled" not in option(hers.content.decode(), "reject")
    assert "disabled" not in option(his.content.decode(), "approve")
    why = f"You chose this at {at:%H:%M:%S}. It needs 2 people."
    assert why in visible_text(hers)
    assert why not in visible_text(his)

    again = people["alice"].post(url(call), {**APPROVE, "revision": 2})
    assert again.status_code == 409
    assert "alice, you have already decided the same. This call needs 2 people." in visible_text(again)
    assert Decision.objects.count() == 1


def test_approval_counts_although_somebody_else_approved_meanwhile(people: dict[str, Client]) -> None:
    call = awaiting(approvals=2)
    for name in ("alice", "bob"):
        assert people[name].post(url(call), APPROVE).status_code == 302
    call.refresh_from_db()
    assert call.status == CallStatus.APPROVED


def test_decision_on_an_outdated_card_explains_the_change(people: dict[str, Client]) -> None:
    call = awaiting(approvals=2)
    people["alice"].post(url(call), APPROVE)
    response = people["bob"].post(url(call), RESPOND)
    at = f"{Decision.objects.get().created_at:%H:%M:%S}"
    assert response.status_code == 409
    assert (
        f"alice approved at {at}, as one of 2 people. Your decision was not recorded. Your text is still in the form."
        in visible_text(response)
    )
    assert 'name="revision" value="2"' in response.content.decode()


def test_second_person_confirms_the_answer_of_the_first(people: dict[str, Client]) -> None:
    call = awaiting(approvals=2)
    people["alice"].post(url(call), RESPOND)
    response = people["bob"].get(url(call))
    assert "Result given by alice: I paid it by hand." in visible_text(response)
    assert "\nI paid it by hand.</textarea>" in response.content.decode()


def test_two_people_must_agree_on_the_outcome(people: dict[str, Client]) -> None:
    call = interrupted(approvals=2)
    assert people["alice"].post(url(call), LANDED).status_code == 302
    response = people["bob"].get(url(call))
    assert "Nothing has changed yet. A second person must decide the same. alice confirmed at " in visible_text(
        response
    )
    assert "\npaid</textarea>" in response.content.decode()
    assert people["bob"].post(url(call), {**LANDED, "revision": 2}).status_code == 302
    assert ToolCall.objects.get().status == CallStatus.COMPLETED


def test_people_who_disagree_see_that_and_may_agree_with_the_other_text(people: dict[str, Client]) -> None:
    call = awaiting(approvals=2)
    people["alice"].post(url(call), RESPOND)
    effect = "With exactly the text of alice: Run 1 on worker-3 is waiting and continues at once"
    assert effect in visible_text(people["bob"].get(url(call)))
    people["bob"].post(url(call), {**RESPOND, "answer": "It is paid already.", "revision": 2})
    page = people["alice"].get(url(call))
    text = visible_text(page)
    box = text.partition("People disagree about this call.")[2].partition("Nothing happens until 2 people give")[0]
    assert "alice (you) responded instead at" in box
    assert "Result given by alice: I paid it by hand. bob responded instead at" in box
    assert text.count("responded instead at") == 2
    assert text.count("Result given by bob: It is paid already.") == 1
    assert "disabled" not in option(page.content.decode(), "respond")
    queue = people["alice"].get("/review/?tab=awaiting")
    assert "1 call needs your decision" in visible_text(queue)
    assert "People disagree" in visible_text(queue)
    people["alice"].post(url(call), {**RESPOND, "answer": "It is paid already.", "revision": 3})
    card = visible_text(people["carol"].get(url(call)))
    assert re.search(r"bob · [\d:]{8} · decision 1 of 2", card)
    assert ToolCall.objects.get().status == CallStatus.COMPLETED


def test_voter_is_told_that_another_person_has_overruled_the_vote(people: dict[str, Client]) -> None:
    call = awaiting(approvals=2)
    people["alice"].post(url(call), APPROVE)
    folded = '<details class="change-answer"><summary>Change or withdraw your decision</summary>'
    assert [folded in people[name].get(url(call)).content.decode() for name in ("alice", "bob")] == [True, False]
    people["bob"].post(url(call), {"kind": "reject", "message": "No.", "revision": 2})
    late = visible_text(people["alice"].post(url(call), {**RESPOND, "revision": 2}))
    assert "bob decided after you, at " in late
    assert ": rejected. One person can do that. Your decision was not recorded." in late
    assert "bob decided first, at " in visible_text(people["dora"].post(url(call), {**APPROVE, "revision": 2}))

    at = Decision.objects.order_by("pk")[0].created_at
    hers, others = (visible_text(people[name].get(url(call))) for name in ("alice", "dora"))
    assert "bob rejected it; you had approved it" in hers
    assert "Rejected: it does not run" in others
    for page, name in ((hers, "alice (you)"), (others, "alice")):
        assert f"{name} approved at {at:%H:%M:%S} · overruled: one rejection is enough The contract says so." in page
        assert "The agent is told that the call was refused, with this message." in page


def test_card_names_the_answer_that_more_people_did_not_give(people: dict[str, Client]) -> None:
    call = interrupted(approvals=2)
    for revision, (name, answer) in enumerate(
        (("alice", {**LANDED, "kind": "mark_failed"}), ("bob", LANDED), ("dora", LANDED)), 1
    ):
        assert people[name].post(url(call), {**answer, "revision": revision}).status_code == 302
    page = visible_text(people["alice"].get(url(call)))
    assert "Decided: it happened (you had answered otherwise)" in page
    assert "· overruled: 2 people gave the other answer" in page
    assert "(you had answered otherwise)" not in visible_text(people["dora"].get(url(call)))


def test_editor_is_done_until_others_have_approved(people: dict[str, Client]) -> None:
    call = awaiting(approvals=2)
    make_call(session=call.session, call_id="other", status=CallStatus.AWAITING_APPROVAL)
    changed = '{"amount":"4.00","order":17}'
    edit = {"kind": "edit", "args": changed, "reason": "Too much.", "revision": 1}
    shown = re.findall(r'name="shown" value="(\w+)"', people["alice"].post(url(call), edit).content.decode())
    assert people["alice"].post(url(call), {**edit, "shown": shown[0]}).status_code == 302
    folded, onward = '<details class="change-answer">', 'data-key="n"'
    responses = {name: people[name].get(url(call)) for name in ("alice", "bob")}
    assert "You changed the arguments: 2 other people have to approve" in visible_text(responses["alice"])
    assert "May this happen?" in visible_text(responses["bob"])
    for expected in (folded, onward):
        assert [expected in responses[name].content.decode() for name in ("alice", "bob")] == [True, False]
    panel = "Nothing has run yet. 2 other people must approve the changed call. These members can: bob, dora."
    assert [panel in visible_text(responses[name]) for name in ("alice", "bob")] == [True, False]
    assert ["0 of 2 approvals" in visible_text(response) for response in responses.values()] == [True, True]
    for response in (responses["alice"], people["alice"].post(f"{url(call)}present/")):
        assert "Not claimed" not in visible_text(response)
    for response in (responses["bob"], people["bob"].post(f"{url(call)}present/")):
        assert "Not claimed" in visible_text(response)
    needs = "Needs 2 approvals. One person can reject or edit."
    assert [needs in visible_text(responses[name]) for name in ("alice", "bob")] == [False, True]

    assert people["bob"].post(url(call), {**APPROVE, "revision": 2}).status_code == 302
    response = people["alice"].get(url(call))
    assert "You changed the arguments: 1 other person has to approve" in visible_text(response)
    assert folded in response.content.decode()


def test_votes_for_other_arguments_are_not_counted(people: dict[str, Client]) -> None:
    call = awaiting(approvals=2)
    make_decision(call=call, kind=DecisionKind.APPROVE, final=False, actor="bob")
    make_decision(call=call, kind=DecisionKind.EDIT, actor="alice", revision=2, evidence='{"args_before":"{}"}')
    ToolCall.objects.filter(pk=call.pk).update(revision=3)
    response = people["bob"].get(url(call))
    assert "1 of 2 approvals" not in visible_text(response)
    assert "disabled" not in option(response.content.decode(), "approve")


class TestValidVotes:
    """A vote counts while its author may decide, and each person has one."""

    def approve(self, client: Client, call: ToolCall) -> int:
        call.refresh_from_db()
        return client.post(url(call), {**APPROVE, "revision": call.revision}).status_code

    def status(self, call: ToolCall) -> str:
        call.refresh_from_db()
        return str(call.status)

    @pytest.mark.parametrize("how", ["demoted", "removed", "switched off"])
    def test_vote_of_a_former_approver_does_not_count(self, people: dict[str, Client], how: str) -> None:
        call = awaiting(approvals=2)
        self.approve(people["alice"], call)
        alice = User.objects.get(username="alice")
        if how == "switched off":
            User.objects.filter(pk=alice.pk).update(is_active=False)
        elif how == "removed":
            alice.memberships.all().delete()
        else:
            alice.memberships.update(role=Role.AUDITOR)

        page = visible_text(people["bob"].get(url(call)))
        assert "alice confirmed at" not in page
        assert "Nothing runs yet: one more person has to approve." in page
        assert "0 of 2 approvals" in visible_text(people["bob"].get("/review/?tab=awaiting"))
        assert self.approve(people["bob"], call) == 302
        assert self.status(call) == CallStatus.AWAITING_APPROVAL
        assert self.approve(people["dora"], call) == 302
        assert self.status(call) == CallStatus.APPROVED
        assert "bob: Approved approval 1 of 2" in visible_text(people["carol"].get(url(call)))
        assert "dora: Approved approval 2 of 2" in visible_text(people["carol"].get(url(call)))

    def test_vote_of_a_member_of_another_workspace_does_not_count(self, people: dict[str, Client]) -> None:
        call = awaiting(approvals=2)
        make_user(name="erin", workspace=make_workspace(slug="second"))
        make_decision(call=call, kind=DecisionKind.APPROVE, final=False, actor="erin")
        ToolCall.objects.update(revision=2)
        assert self.approve(people["bob"], call) == 302
        assert self.status(call) == CallStatus.AWAITING_APPROVAL

    def test_editor_of_the_arguments_cannot_approve(self, people: dict[str, Client]) -> None:
        call = awaiting(approvals=2)
        make_decision(call=call, kind=DecisionKind.EDIT, actor="alice", evidence='{"args_before":"{}"}')
        ToolCall.objects.update(revision=2)
        page = people["alice"].get(url(call))
        assert "disabled" in option(page.content.decode(), "approve")
        assert "You changed the arguments, so 2 other people have to approve them." in visible_text(page)
        assert "disabled" not in option(people["bob"].get(url(call)).content.decode(), "approve")

        refused = people["alice"].post(url(call), {**APPROVE, "revision": 2})
        assert refused.status_code == 409
        assert "alice, you changed these arguments, so 2 other people have to approve them." in visible_text(refused)
        assert self.approve(people["bob"], call) == 302
        assert self.status(call) == CallStatus.AWAITING_APPROVAL
        assert self.approve(people["dora"], call) == 302
        assert self.status(call) == CallStatus.APPROVED

    def token(self, call: ToolCall, *, by: str, role: TokenRole = TokenRole.APPROVER) -> ApiToken:
        made, _ = api_tokens.create_token_with_secret(
            call.workspace, name="nightly", role=role, lifetime=None, by=api_tokens.TokenIssuer(ActorKind.PERSON, by)
        )
        return made

    def approve_with(self, token: ApiToken, call: ToolCall) -> None:
        call.refresh_from_db()
        SyncCheckpointer().approve_call(
            call.session.session_id,
            call.call_id,
            actor=api_tokens.build_token_actor(token),
            reason="Fits.",
            revision=call.revision,
        )

    def test_token_counts_as_its_owner(self, people: dict[str, Client]) -> None:
        call = awaiting(approvals=2)
        token = self.token(call, by="dora")
        self.approve_with(token, call)
        assert self.approve(people["dora"], call) == 409
        assert "Withdraw your decision" in visible_text(people["dora"].get(url(call)))
        answer = {"kind": "respond", "answer": "Done by hand.", "revision": ToolCall.objects.get().revision}
        assert people["dora"].post(url(call), answer).status_code == 302  # it takes the place of the token's decision
        assert self.approve(people["bob"], call) == 302
        assert self.approve(people["alice"], call) == 302
        assert self.status(call) == CallStatus.APPROVED
        page = visible_text(people["dora"].get(url(call)))
        decision = page.partition("Wrong decision?")[0].rpartition("Decision ")[2]
        assert "bob" in decision
        assert "token nightly" not in decision

    def test_owner_and_later_token_count_once(self, people: dict[str, Client]) -> None:
        call = awaiting(approvals=2)
        token = self.token(call, by="dora")
        assert self.approve(people["dora"], call) == 302
        with pytest.raises(SecondPersonRequired):
            self.approve_with(token, call)

    @pytest.mark.parametrize("how", ["revoked", "demoted"])
    def test_token_vote_counts_while_token_and_owner_may_decide(self, people: dict[str, Client], how: str) -> None:
        call = awaiting(approvals=2)
        token = self.token(call, by="dora")
        self.approve_with(token, call)
        if how == "revoked":
            api_tokens.revoke_token(token, by=api_tokens.TokenIssuer(ActorKind.PERSON, "dora"))
            self.token(call, by="alice")  # of the same name
        else:
            Membership.objects.filter(user__username="dora").update(role=Role.AUDITOR)
        assert self.approve(people["bob"], call) == 302
        assert self.status(call) == CallStatus.AWAITING_APPROVAL

    def test_token_without_owner_counts_by_itself(self, people: dict[str, Client]) -> None:
        call = awaiting(approvals=2)
        call_command("create_token", "nightly", "approver")
        self.approve_with(ApiToken.objects.select_related("workspace").get(), call)
        assert self.approve(people["bob"], call) == 302
        assert self.status(call) == CallStatus.APPROVED


# the queue


def test_row_shows_missing_approvals_and_deadline(people: dict[str, Client]) -> None:
    soon = datetime.now(UTC) - timedelta(minutes=10)
    call = awaiting(approvals=2, issued_at=soon, decide_within=timedelta(hours=3), sentence="Pay 40.00 EUR")
    page = visible_text(people["carol"].get("/review/"))
    assert "1 call needs a decision" in page
    assert "Interrupted Approvals and questions 1 Decisions" in page
    assert "Pay 40.00 EUR order: 17 pay · accounts · session inv/17" in page
    assert "session inv/17 40.00 due in 2 h 49 min 0 of 2 approvals" in page
    make_decision(call=call, kind=DecisionKind.APPROVE, final=False, actor="bob")
    page = visible_text(people["carol"].get("/review/?tab=awaiting"))
    assert "session inv/17 bob approved 40.00 due in 2 h 49 min 1 of 2 approvals" in page


def test_queue_and_badge_count_the_calls_that_the_reader_may_decide(people: dict[str, Client]) -> None:
    now = datetime.now(UTC)
    for number, fields in enumerate(
        [{}, {"decide_within": timedelta(minutes=5)}, {"approvals": 2}, {"approvals": 2}, {"approvals": 2}]
    ):
        call = make_call(
            session=make_session(),
            status=CallStatus.AWAITING_APPROVAL,
            issued_at=now - timedelta(minutes=10),
            **fields,  # type: ignore[arg-type]
        )
        if number >= 2:
            make_decision(call=call, kind=DecisionKind.APPROVE, final=False, actor="bob", revision=1)
        if number == 3:  # bob has taken back his vote
            make_decision(call=call, kind=DecisionKind.WITHDRAW, final=False, actor="bob", revision=2)
        if number == 4:
            Session.objects.filter(pk=call.session_id).update(quarantined_at=now)
    admin = "1 more needs an admin"
    other = "1 more waits for another person"
    nobody = "1 more is quarantined"
    for name, number, beside in (("bob", 2, {admin, other}), ("alice", 3, {admin}), ("dora", 4, set())):
        page = people[name].get("/review/?tab=awaiting")
        text = visible_text(page)
        assert f"{number} calls need your decision" in text, name
        assert {sentence for sentence in (admin, other) if sentence in text} == beside, name
        assert nobody in text
        assert ("only an admin can decide now" in text) == (admin in beside)
        assert f'id="waiting" data-said="{number}"' in page.content.decode()
        assert visible_text(people[name].get("/review/count/")).startswith(f"{number} ")
        overview = people[name].get("/overview/")
        assert f'id="waiting" data-said="{number}"' in overview.content.decode()
        assert f"Needs a decision5 {number} for you" in visible_text(overview)
        assert len(page.context["rows"]) == 5
        last = [row.waits_for_others for row in page.context["rows_waiting_for_others"]]
        assert len(last) == 5 - number
        assert all(last)
        assert ("You cannot decide these now" in text) == bool(last)
    auditor = visible_text(people["carol"].get("/review/?tab=awaiting"))
    assert "5 calls need a decision" in auditor
    assert admin not in auditor


def test_card_of_a_call_that_was_decided_late_names_the_deadline(people: dict[str, Client]) -> None:
    call = awaiting(decide_within=timedelta(hours=1))
    assert people["dora"].post(url(call), REJECT).status_code == 302
    events = visible_text(people["carol"].get(url(call))).partition("Events so far")[2]
    assert events.index("The deadline passed") < events.index("dora: Rejected")


def test_overdue_call_is_escalated_to_admins(people: dict[str, Client]) -> None:
    call = awaiting(decide_within=timedelta(hours=1))
    row = visible_text(people["bob"].get("/review/?tab=awaiting"))
    assert re.search(r"overdue for \d+ days", row)

    response = people["bob"].get(url(call))
    assert "The deadline passed at 2025-03-04 11:42:07 UTC Only an admin can decide now." in visible_text(response)
    assert "Nothing runs until then. These members can: dora." in visible_text(response)
    assert "data-decide" not in response.content.decode()
    title = "Overdue: only an admin can decide"
    assert [title in visible_text(people[name].get(url(call))) for name in ("bob", "dora")] == [True, False]
    about = {name: visible_text(people[name].get(url(call))) for name in ("bob", "dora")}
    assert ["What will happen" in about[name] for name in about] == [False, True]  # to bob, nothing will
    assert "What was requested" in about["bob"]
    carol = visible_text(people["carol"].get(url(call)))
    assert "Your role is auditor; an admin has to decide now. These members can: dora." in carol
    refused = people["bob"].post(url(call), APPROVE)
    assert refused.status_code == 409
    assert "The deadline passed at 2025-03-04 11:42:07 UTC." in visible_text(refused)
    assert "Your text The contract says so." in visible_text(refused)

    assert "You are an admin, so you can still decide." in visible_text(people["dora"].get(url(call)))
    assert people["dora"].post(url(call), APPROVE).status_code == 302
    assert ToolCall.objects.get().status == CallStatus.APPROVED


def test_empty_tab_explains_and_links_to_the_other(people: dict[str, Client]) -> None:
    empty = visible_text(people["carol"].get("/review/?tab=awaiting"))
    assert "No call awaits approval." in empty
    call = awaiting()
    assert "Show 1 call awaiting approval" in visible_text(people["carol"].get("/review/?tab=interrupted"))
    make_call(session=call.session, run=call.run, call_id="call_10")
    page = visible_text(people["carol"].get("/review/"))
    assert "2 calls need a decision" in page
    assert "Interrupted 1 Approvals and questions 1 Decisions" in page
    assert "Refund card" not in visible_text(people["carol"].get("/review/?tab=awaiting"))


def test_pages_are_consecutive(people: dict[str, Client]) -> None:
    call = awaiting()
    calls = [call] + [
        make_call(session=call.session, run=call.run, call_id=f"c{number}", status=CallStatus.AWAITING_APPROVAL)
        for number in range(pending_calls.PAGE)
    ]
    first = people["carol"].get("/review/")
    assert first.context["more"] == f"?after={calls[pending_calls.PAGE - 1].pk}&tab=all"
    second = people["carol"].get(f"/review/{first.context['more']}")
    assert (second.content.decode().count("data-row"), second.context["more"]) == (1, "")


@pytest.mark.parametrize("calls", [1, 3])
def test_query_count_is_independent_of_the_votes(
    people: dict[str, Client], django_assert_num_queries: DjangoAssertNumQueries, calls: int
) -> None:
    first = awaiting(approvals=2)
    make_decision(call=first, kind=DecisionKind.APPROVE, final=False)
    for number in range(1, calls):
        call = make_call(
            session=first.session, run=first.run, call_id=f"c{number}", status=CallStatus.AWAITING_APPROVAL, approvals=2
        )
        make_decision(call=call, kind=DecisionKind.APPROVE, final=False)
    with django_assert_num_queries(24):
        response = people["carol"].get("/review/?tab=awaiting")
    assert response.content.decode().count("data-row") == calls


# a late witness


def test_late_result_fills_in_the_form(people: dict[str, Client]) -> None:
    call = interrupted()
    late = make_late_result(call=call, result="paid, reference 9")
    response = people["bob"].get(url(call))
    assert (
        f"Run 1 reported success at {late.received_at:%H:%M:%S}, too late to count. "
        "Its result is filled in under “It happened”."
    ) in visible_text(response)
    assert "\npaid, reference 9</textarea>" in response.content.decode()
    log = visible_text(people["bob"].get(f"/sessions/{call.session_id}/calls/"))
    assert "Outcome unknown Decide" in log
    assert "Late result: run 1 reported success" in log
