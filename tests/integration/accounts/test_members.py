"""Members of a workspace and their roles."""

import re
from datetime import UTC, datetime

import pytest
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from checkpoints.audit.insert_unchained_events import record_event_of_workspace
from checkpoints.enums import ActorKind, AuditKind, Role
from checkpoints.models import Workspace
from harness_site.accounts.models import Membership
from tests.support.audit_entries import list_entries
from tests.support.factories import PASSWORD, make_user, make_workspace
from tests.support.page_text import visible_text
from tests.support.second_factors import list_factor_types, make_totp

pytestmark = pytest.mark.django_db


def of(user: User) -> int:
    return Membership.objects.get(user=user).pk


def role_of(user: User) -> str:
    return Membership.objects.get(user=user).role


def test_page_lists_the_members(admin: Client, alice: User) -> None:
    page = visible_text(admin.get("/settings/members/"))
    assert "2 members" in page
    assert "bob (you)" in page
    assert "Auditors read everything. Approvers also decide calls and label sessions." in page


def test_role_can_be_changed(admin: Client, alice: User) -> None:
    response = admin.post(f"/settings/members/{of(alice)}/role/", {"role": "auditor"})
    assert response.headers["Location"] == "/settings/members/"
    assert role_of(alice) == Role.AUDITOR
    assert list_entries() == [("role_changed", "bob", {"before": "approver", "member": "alice", "role": "auditor"})]


def test_changed_role_has_effect_at_once(admin: Client, client: Client, alice: User) -> None:
    client.force_login(alice)
    assert client.get("/settings/members/").status_code == 403
    admin.post(f"/settings/members/{of(alice)}/role/", {"role": "admin"})
    assert client.get("/settings/members/").status_code == 200


def test_same_role_is_not_a_change(admin: Client, alice: User) -> None:
    admin.post(f"/settings/members/{of(alice)}/role/", {"role": "approver"})
    assert list_entries() == []


def test_last_admin_cannot_be_removed(admin: Client, bob: User, alice: User) -> None:
    for action, form in (("role", {"role": "auditor"}), ("remove", {})):
        response = admin.post(f"/settings/members/{of(bob)}/{action}/", form)
        assert response.status_code == 409
        assert "This is the only admin of the workspace. Make another member an admin first." in visible_text(response)
    assert role_of(bob) == Role.ADMIN
    assert list_entries() == []


def test_inactive_admin_does_not_count(admin: Client, bob: User) -> None:
    off = make_user(name="dave", role=Role.ADMIN)
    User.objects.filter(pk=off.pk).update(is_active=False)
    assert admin.post(f"/settings/members/{of(bob)}/remove/").status_code == 409


def test_one_of_two_admins_may_leave(admin: Client, bob: User) -> None:
    make_user(name="dave", role=Role.ADMIN)
    assert admin.post(f"/settings/members/{of(bob)}/remove/").status_code == 302
    assert admin.get("/settings/members/").status_code == 403


def test_member_is_removed_and_the_account_is_kept(admin: Client, client: Client, alice: User) -> None:
    client.force_login(alice)
    admin.post(f"/settings/members/{of(alice)}/remove/")
    assert client.get("/sessions/").status_code == 403
    assert User.objects.filter(username="alice").exists()
    assert list_entries() == [("member_removed", "bob", {"member": "alice", "role": "approver"})]


@pytest.mark.parametrize(
    ("action", "consequence"),
    [
        ("remove", "alice can no longer open this workspace"),
        ("deactivate", "alice is signed out and cannot sign in"),
        ("reset-factors", "alice is signed out, and signs in with the password alone"),
    ],
)
def test_action_that_harms_a_member_is_behind_its_consequence(
    admin: Client, alice: User, action: str, consequence: str
) -> None:
    make_totp(alice)
    page = admin.get("/settings/members/").content.decode()
    questions = re.findall(r'<details class="asks".*?</details>', page, re.DOTALL)
    address = f"/settings/members/{of(alice)}/{action}/"
    assert [consequence in question for question in questions if address in question] == [True]
    assert page.count(address) == 1


def test_what_would_be_refused_or_change_nothing_is_not_offered(admin: Client, alice: User, bob: User) -> None:
    page = admin.get("/settings/members/").content.decode()
    assert f"/settings/members/{of(alice)}/remove/" in page
    assert f"/settings/members/{of(bob)}/remove/" not in page
    assert "/reset-factors/" not in page
    make_user(name="dave", role=Role.ADMIN)
    assert f"/settings/members/{of(bob)}/remove/" in admin.get("/settings/members/").content.decode()


@pytest.mark.parametrize("role", ["owner", "", "Admin"])
def test_invalid_role_changes_nothing(admin: Client, alice: User, role: str) -> None:
    assert admin.post(f"/settings/members/{of(alice)}/role/", {"role": role}).status_code == 422
    assert role_of(alice) == Role.APPROVER


@pytest.mark.parametrize("action", ["role", "remove", "reset-factors"])
def test_member_of_another_workspace_is_not_found(admin: Client, action: str) -> None:
    theirs = make_user(name="mallory", role=Role.AUDITOR, workspace=make_workspace(slug="elsewhere"))
    make_totp(theirs)
    for pk in (of(theirs), 999999, 2**63, 10**30):
        assert admin.post(f"/settings/members/{pk}/{action}/", {"role": "admin"}).status_code == 404
    assert (role_of(theirs), list_factor_types(theirs)) == (Role.AUDITOR, ["totp"])


def test_second_factors_can_be_reset(admin: Client, client: Client, alice: User) -> None:
    client.post("/accounts/login/", {"username": "alice", "password": PASSWORD})
    make_totp(alice)
    admin.post(f"/settings/members/{of(alice)}/reset-factors/")
    assert list_factor_types(alice) == []
    assert client.get("/sessions/").status_code == 302
    assert list_entries("factor_removed") == [("factor_removed", "bob", {"ended": 1, "factors": 1, "member": "alice"})]


def test_factors_of_a_member_of_other_workspaces_are_not_reset(admin: Client, alice: User) -> None:
    alice.memberships.create(workspace=make_workspace(slug="elsewhere"), role=Role.ADMIN)
    make_totp(alice)
    pk = Membership.objects.get(user=alice, workspace__slug="default").pk
    response = admin.post(f"/settings/members/{pk}/reset-factors/")
    assert response.status_code == 409
    assert "alice is also a member of other workspaces" in visible_text(response)
    assert list_factor_types(alice) == ["totp"]


class TestCommand:
    def test_command_creates_the_first_admin(self) -> None:
        user = make_user(name="root", role=None)
        call_command("add_member", "root", "admin")
        assert role_of(user) == Role.ADMIN
        details = {"before": None, "member": "root", "role": "admin"}
        assert list_entries() == [("member_added", "manage.py add_member", details)]

    def test_command_creates_a_missing_workspace(self, alice: User) -> None:
        call_command("add_member", "alice", "admin", "--workspace", "second")
        assert Workspace.objects.get(slug="second").memberships.get().user == alice

    def test_unknown_account_is_named(self) -> None:
        with pytest.raises(CommandError, match="There is no account 'nobody'"):
            call_command("add_member", "nobody", "admin")


def test_deactivated_member_is_signed_out_and_may_be_reactivated(
    admin: Client, client: Client, alice: User, bob: User
) -> None:
    client.force_login(alice)
    client.get("/accounts/")
    page = admin.post(f"/settings/members/{of(alice)}/deactivate/", follow=True)
    assert "alice is deactivated and signed out." in visible_text(page)
    assert client.get("/review/").status_code == 302
    assert Membership.objects.filter(user=alice).exists()
    page = admin.post(f"/settings/members/{of(alice)}/reactivate/", follow=True)
    assert "alice can sign in again." in visible_text(page)
    alice.refresh_from_db()
    assert alice.is_active
    assert [kind for kind, _, _ in list_entries()] == ["member_deactivated", "member_reactivated"]
    refused = admin.post(f"/settings/members/{of(bob)}/deactivate/")
    assert (refused.status_code, "You cannot deactivate your own account." in visible_text(refused)) == (409, True)


def test_member_of_other_workspaces_cannot_be_deactivated(admin: Client, alice: User) -> None:
    member = of(alice)
    alice.memberships.create(workspace=make_workspace(slug="elsewhere"), role=Role.AUDITOR)
    assert admin.post(f"/settings/members/{member}/deactivate/").status_code == 409
    alice.refresh_from_db()
    assert alice.is_active


def test_list_shows_address_last_visit_and_second_factor(admin: Client, alice: User, bob: User) -> None:
    User.objects.filter(pk=alice.pk).update(email="alice@example.com")
    make_totp(bob)
    text = visible_text(admin.get("/settings/members/"))
    assert "alice No second factor alice@example.com · never signed in" in text
    assert "bob (you) Second factor No e-mail address · signed in now" in text


def test_last_visit_stays_when_its_sign_in_has_ended(admin: Client, alice: User) -> None:
    person = Client()
    person.post("/accounts/login/", {"username": "alice", "password": PASSWORD})
    User.objects.filter(pk=alice.pk).update(last_login=datetime(2025, 1, 1, tzinfo=UTC))
    seen_now = r"alice No second factor No e-mail address · last seen (just now|\d+ s ago)"
    assert re.search(seen_now, visible_text(admin.get("/settings/members/")))
    person.post("/accounts/logout/")
    UserSession.objects.filter(user=alice).delete()
    assert re.search(seen_now, visible_text(admin.get("/settings/members/")))


def test_last_visit_is_not_what_somebody_else_did(admin: Client, alice: User) -> None:
    Client().post("/accounts/login/", {"username": "alice", "password": "guess"})
    record_event_of_workspace(
        "default",
        Membership.objects.get(user=alice).workspace_id,
        AuditKind.TAKEOVER,
        actor="alice",
        actor_kind=ActorKind.PERSON,
        details={"why": "a program took it over under this name"},
    )
    assert "never signed in" in visible_text(admin.get("/settings/members/"))


def test_last_visit_is_known_after_a_change_of_the_password(admin: Client, alice: User) -> None:
    person = Client()
    person.post("/accounts/login/", {"username": "alice", "password": PASSWORD})
    User.objects.filter(pk=alice.pk).update(last_login=datetime(2025, 1, 1, tzinfo=UTC))
    new = "another long phrase"
    person.post("/accounts/password/", {"oldpassword": PASSWORD, "password1": new, "password2": new})
    assert re.search(r"alice.*? last seen (just now|\d s ago)", visible_text(admin.get("/settings/members/")))


def test_member_with_single_sign_on_alone_needs_no_second_factor_here(admin: Client, alice: User) -> None:
    SocialAccount.objects.create(user=alice, provider="sso", uid="a")
    assert "alice No second factor" in visible_text(admin.get("/settings/members/"))
    alice.set_unusable_password()
    alice.save()
    assert "alice Single sign-on" in visible_text(admin.get("/settings/members/"))


def test_long_list_has_a_filter(admin: Client, alice: User) -> None:
    assert "Name or e-mail address" not in visible_text(admin.get("/settings/members/"))
    for number in range(10):
        make_user(name=f"person-{number}", role=Role.AUDITOR)
    User.objects.filter(username="person-3").update(is_active=False)
    text = visible_text(admin.get("/settings/members/"))
    assert "12 members" in text
    assert "Auditors (10)" in text
    assert "Without second factor (11)" in text
    found = visible_text(admin.get("/settings/members/?find=SON-3"))
    assert "1 of 12 members" in found
    assert "person-3 Deactivated No e-mail" in found
    assert "person-4" not in found
    assert "1 of 12 members" in visible_text(admin.get("/settings/members/?show=deactivated"))
    assert "No member matches the filter." in visible_text(admin.get("/settings/members/?find=nobody"))
    assert "12 members" in visible_text(admin.get("/settings/members/?show=unknown"))
