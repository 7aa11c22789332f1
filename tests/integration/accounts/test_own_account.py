"""One's own account: the page, the sign-ins, the workspaces."""

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.test import Client

from checkpoints.enums import Role
from tests.support.audit_entries import entries
from tests.support.factories import PASSWORD, make_session, make_user, make_workspace
from tests.support.page_text import visible_text

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
CHROME = "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36"


def signed_in(name: str, program: str = FIREFOX) -> Client:
    client = Client(HTTP_USER_AGENT=program)
    client.post("/accounts/login/", {"username": name, "password": PASSWORD})
    return client


def test_the_page_tells_how_one_signs_in_and_where(alice: User) -> None:
    client = signed_in("alice")
    page = visible_text(client.get("/accounts/"))
    assert "Approver in Default" in page
    assert "Firefox on Linux 127.0.0.1" in page
    assert "This device" in page


def test_user_without_membership_has_an_account_page(client: Client, db: None) -> None:
    client.force_login(make_user(name="mallory", role=None))
    assert "You are not a member of any workspace yet" in visible_text(client.get("/accounts/"))


def test_every_other_sign_in_can_be_ended(alice: User) -> None:
    here, there, elsewhere = signed_in("alice"), signed_in("alice", CHROME), signed_in("alice")
    assert "Chrome on Windows" in visible_text(here.get("/accounts/"))
    assert here.post("/accounts/sign-ins/end/").headers["Location"] == "/accounts/"
    assert [client.get("/sessions/").status_code for client in (here, there, elsewhere)] == [200, 302, 302]
    assert entries("sign_ins_ended") == [("sign_ins_ended", "alice", {"ended": 2})]


def test_one_sign_in_can_be_ended(alice: User) -> None:
    here, there, elsewhere = signed_in("alice"), signed_in("alice", CHROME), signed_in("alice")
    which = UserSession.objects.get(user_agent=CHROME)
    here.post("/accounts/sign-ins/end/", {"which": which.pk})
    assert [client.get("/sessions/").status_code for client in (here, there, elsewhere)] == [200, 302, 200]


def test_a_sign_in_of_somebody_else_is_not_there(alice: User, bob: User) -> None:
    theirs = signed_in("bob")
    which = UserSession.objects.get(user=bob).pk
    mine = signed_in("alice")
    for asked in (str(which), "x", "-1", "9" * 30):
        assert mine.post("/accounts/sign-ins/end/", {"which": asked}).status_code == 404
    assert theirs.get("/sessions/").status_code == 200


def test_one_workspace_at_a_time(client: Client, alice: User) -> None:
    second = make_workspace(slug="second")
    alice.memberships.create(workspace=second, role=Role.ADMIN)
    here, there = make_session(), make_session(workspace=second)
    client.force_login(alice)
    assert [client.get(f"/sessions/{one.pk}/").status_code for one in (here, there)] == [200, 404]
    assert client.get("/settings/members/").status_code == 403
    assert client.post("/accounts/workspace/", {"workspace": "second"}).headers["Location"] == "/"
    assert [client.get(f"/sessions/{one.pk}/").status_code for one in (here, there)] == [404, 200]
    assert client.get("/settings/members/").status_code == 200


def test_a_workspace_one_does_not_belong_to_is_not_there(client: Client, alice: User) -> None:
    make_workspace(slug="elsewhere")
    client.force_login(alice)
    for asked in ("elsewhere", "nowhere", "", "\0"):
        assert client.post("/accounts/workspace/", {"workspace": asked}).status_code == 404


def test_who_is_removed_from_the_chosen_workspace_is_back_in_the_other(client: Client, alice: User) -> None:
    second = make_workspace(slug="second")
    membership = alice.memberships.create(workspace=second, role=Role.ADMIN)
    client.force_login(alice)
    client.post("/accounts/workspace/", {"workspace": "second"})
    membership.delete()
    assert "Approver in Default" in visible_text(client.get("/accounts/"))


class TestLinksIntoWorkspaces:
    """Messages say in which workspace what they link to lies."""

    def test_one_leads_on_in_the_present_workspace(self, client: Client, alice: User) -> None:
        client.force_login(alice)
        response = client.get("/accounts/workspace/default/review/?tab=awaiting&tool=pay")
        assert response.headers["Location"] == "/review/?tab=awaiting&tool=pay"

    def test_from_another_one_it_asks_first(self, client: Client, alice: User) -> None:
        second = make_workspace(slug="second")
        alice.memberships.create(workspace=second, role=Role.ADMIN)
        session = make_session(workspace=second)
        client.force_login(alice)
        page = client.get(f"/accounts/workspace/second/sessions/{session.pk}/?q=lamp")
        assert (
            "Switch to “Second”? This link leads to the workspace “Second”. You are working in “Default”."
            in visible_text(page)
        )
        assert client.get(f"/sessions/{session.pk}/").status_code == 404
        there = {"workspace": "second", "next": f"/sessions/{session.pk}/?q=lamp"}
        assert f'value="{there["next"]}"' in page.content.decode()
        assert client.post("/accounts/workspace/", there).headers["Location"] == there["next"]
        assert client.get(there["next"]).status_code == 200

    @pytest.mark.parametrize("place", ["/evil.example/", "//evil.example", "\\evil.example"])
    def test_it_leads_to_no_other_site(self, client: Client, alice: User, place: str) -> None:
        client.force_login(alice)
        assert client.get(f"/accounts/workspace/default/{place}").headers["Location"] == "/"
        asked = {"workspace": "default", "next": f"/{place}"}
        assert client.post("/accounts/workspace/", asked).headers["Location"] == "/"

    @pytest.mark.parametrize("workspace", ["elsewhere", "nowhere", "%00"])
    def test_one_of_others_is_not_there(self, client: Client, alice: User, workspace: str) -> None:
        make_workspace(slug="elsewhere")
        client.force_login(alice)
        assert client.get(f"/accounts/workspace/{workspace}/review/").status_code == 404
