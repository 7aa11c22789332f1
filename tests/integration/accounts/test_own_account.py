"""The account page: sign-ins, devices and workspaces."""

from datetime import UTC, datetime, timedelta

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.test import Client

from checkpoints.db import clock
from checkpoints.enums import Role
from tests.support.audit_entries import list_entries
from tests.support.factories import PASSWORD, make_session, make_user, make_workspace
from tests.support.page_text import visible_text

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
CHROME = "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36"


def signed_in(name: str, program: str = FIREFOX) -> Client:
    client = Client(HTTP_USER_AGENT=program)
    client.post("/accounts/login/", {"username": name, "password": PASSWORD})
    return client


def test_page_shows_sign_in_methods_and_devices(alice: User) -> None:
    client = signed_in("alice")
    page = visible_text(client.get("/accounts/"))
    assert "alice Approver Sign-in methods" in page, "the name of a single workspace says nothing"
    assert "Default" not in page
    assert "Firefox on Linux Signed in " in page
    assert "This device" in page


def test_user_without_membership_has_an_account_page(client: Client, db: None) -> None:
    client.force_login(make_user(name="mallory", role=None))
    assert "You are not a member of any workspace yet" in visible_text(client.get("/accounts/"))


def test_all_other_sign_ins_can_be_ended(alice: User) -> None:
    here, there, identity_provider = signed_in("alice"), signed_in("alice", CHROME), signed_in("alice")
    assert "Chrome on Windows" in visible_text(here.get("/accounts/"))
    assert here.post("/accounts/sign-ins/end/").headers["Location"] == "/accounts/"
    assert [client.get("/sessions/").status_code for client in (here, there, identity_provider)] == [200, 302, 302]
    assert list_entries("sign_ins_ended") == [("sign_ins_ended", "alice", {"ended": 2})]


def test_one_sign_in_can_be_ended(alice: User) -> None:
    here, there, identity_provider = signed_in("alice"), signed_in("alice", CHROME), signed_in("alice")
    which = UserSession.objects.get(user_agent=CHROME)
    here.post("/accounts/sign-ins/end/", {"which": which.pk})
    assert [client.get("/sessions/").status_code for client in (here, there, identity_provider)] == [200, 302, 200]


def test_sign_ins_are_told_apart_by_when_they_began_and_were_used(alice: User) -> None:
    here, _there = signed_in("alice"), signed_in("alice", CHROME)
    began, used = datetime(2025, 3, 4, 5, 6, tzinfo=UTC), clock.now() - timedelta(hours=3)
    UserSession.objects.filter(user_agent=CHROME).update(created_at=began, last_seen_at=used)
    text = visible_text(here.get("/accounts/"))
    assert "Chrome on Windows Signed in Tue 4 Mar 2025, 05:06 (UTC) · last used 3 h ago · 127.0.0.1 Sign out" in text
    assert "in use now · 127.0.0.1 This device" in text
    assert text.index("Firefox on Linux") < text.index("Chrome on Windows")
    which = UserSession.objects.get(user_agent=CHROME)
    page = here.post("/accounts/sign-ins/end/", {"which": which.pk}, follow=True)
    assert "You are signed out there." in visible_text(page)
    assert "You are signed out everywhere else." in visible_text(here.post("/accounts/sign-ins/end/", follow=True))


def test_sign_in_of_another_user_is_not_found(alice: User, bob: User) -> None:
    theirs = signed_in("bob")
    which = UserSession.objects.get(user=bob).pk
    mine = signed_in("alice")
    for asked in (str(which), "x", "-1", "9" * 30):
        assert mine.post("/accounts/sign-ins/end/", {"which": asked}).status_code == 404
    assert theirs.get("/sessions/").status_code == 200


def test_workspace_is_selected(client: Client, alice: User) -> None:
    second = make_workspace(slug="second")
    alice.memberships.create(workspace=second, role=Role.ADMIN)
    here, there = make_session(), make_session(workspace=second)
    client.force_login(alice)
    assert [client.get(f"/sessions/{one.pk}/").status_code for one in (here, there)] == [200, 404]
    assert client.get("/settings/members/").status_code == 403
    assert client.post("/accounts/workspace/", {"workspace": "second"}).headers["Location"] == "/"
    assert [client.get(f"/sessions/{one.pk}/").status_code for one in (here, there)] == [404, 200]
    assert client.get("/settings/members/").status_code == 200


def test_workspace_without_membership_is_not_found(client: Client, alice: User) -> None:
    make_workspace(slug="elsewhere")
    client.force_login(alice)
    for asked in ("elsewhere", "nowhere", "", "\0"):
        assert client.post("/accounts/workspace/", {"workspace": asked}).status_code == 404


def test_user_removed_from_the_selected_workspace_uses_the_other(client: Client, alice: User) -> None:
    second = make_workspace(slug="second")
    membership = alice.memberships.create(workspace=second, role=Role.ADMIN)
    client.force_login(alice)
    client.post("/accounts/workspace/", {"workspace": "second"})
    membership.delete()
    assert "alice Approver Sign-in methods" in visible_text(client.get("/accounts/"))


class TestLinksIntoWorkspaces:
    """Links in messages name their workspace."""

    def test_link_into_the_selected_workspace_redirects(self, client: Client, alice: User) -> None:
        client.force_login(alice)
        response = client.get("/accounts/workspace/default/review/?tab=awaiting&tool=pay")
        assert response.headers["Location"] == "/review/?tab=awaiting&tool=pay"

    def test_link_into_another_workspace_asks_first(self, client: Client, alice: User) -> None:
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
    def test_link_never_redirects_to_another_site(self, client: Client, alice: User, place: str) -> None:
        client.force_login(alice)
        assert client.get(f"/accounts/workspace/default/{place}").headers["Location"] == "/"
        asked = {"workspace": "default", "next": f"/{place}"}
        assert client.post("/accounts/workspace/", asked).headers["Location"] == "/"

    @pytest.mark.parametrize("workspace", ["identity_provider", "nowhere", "%00"])
    def test_link_into_a_foreign_workspace_is_not_found(self, client: Client, alice: User, workspace: str) -> None:
        make_workspace(slug="elsewhere")
        client.force_login(alice)
        assert client.get(f"/accounts/workspace/{workspace}/review/").status_code == 404
