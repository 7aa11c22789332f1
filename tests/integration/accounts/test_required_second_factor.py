"""A workspace that requires a second factor of its members."""

import re
from urllib.parse import urlencode

import pytest
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import User
from django.test import Client

from checkpoints.enums import Role
from checkpoints.models import Decision
from harness_site.accounts.htmx_refusal_response import HEADER, SET_UP_HEADER
from harness_site.accounts.models import FactorScope, Membership, SecondFactorRequirement, TokenRole
from harness_site.accounts.permissions import WORKSPACE_KEY
from harness_site.accounts.refuse_page_of_other_reader import format_reader_key
from tests.support.api_client import ApiClient, make_token
from tests.support.audit_entries import list_entries
from tests.support.client_login import sign_in
from tests.support.factories import PASSWORD, THEN, make_call, make_session, make_user, make_workspace
from tests.support.page_text import visible_text
from tests.support.second_factors import compute_current_totp_code, list_factor_types, make_totp

pytestmark = pytest.mark.django_db

MEMBERS = "/settings/members/"
RULE = f"{MEMBERS}second-factor/"
SET_UP = "/accounts/second-factor/"


def require_factor(scope: FactorScope = FactorScope.EVERYBODY, *, slug: str = "default") -> SecondFactorRequirement:
    """Require a second factor in a workspace, as bob would."""
    return SecondFactorRequirement.objects.create(
        workspace=make_workspace(slug=slug), scope=scope, required_by="bob", required_at=THEN
    )


def of(user: User) -> int:
    return Membership.objects.get(user=user).pk


def stored_scope() -> str | None:
    return SecondFactorRequirement.objects.values_list("scope", flat=True).first()


class TestSetting:
    @pytest.mark.parametrize(("scope", "lacking"), [("approvers", 1), ("everybody", 2)])
    def test_requirement_is_recorded_with_the_number_of_members_without_one(
        self, admin: Client, bob: User, alice: User, carol: User, scope: str, lacking: int
    ) -> None:
        make_totp(bob)
        page = visible_text(admin.get(MEMBERS))
        assert "Approvers and admins (1 without one)" in page
        assert "All members (2 without one)" in page
        assert "API tokens are not affected, so agents keep working." in page
        page = visible_text(admin.post(RULE, {"scope": scope}, follow=True))
        assert re.search(rf"The second factor is required\. {lacking} members? ha(s|ve) none", page)
        assert "Required by bob, since" in page
        details = {"required_before": "nobody", "required_of": scope, "without_factor": lacking}
        assert list_entries() == [("factor_rule_changed", "bob", details)]
        label = FactorScope(scope).label
        sentence = f"bob changed who needs a second factor from “Nobody” to “{label}”"
        assert sentence in visible_text(admin.get("/audit/?subject=people"))

    def test_requirement_can_be_taken_back(self, admin: Client, bob: User) -> None:
        make_totp(bob)
        require_factor()
        page = visible_text(admin.post(RULE, {"scope": "nobody"}, follow=True))
        assert "Members no longer need a second factor." in page
        assert stored_scope() is None
        assert [entry[2]["required_of"] for entry in list_entries("factor_rule_changed")] == ["nobody"]

    def test_same_choice_is_not_a_change(self, admin: Client, bob: User) -> None:
        make_totp(bob)
        require_factor()
        assert admin.post(RULE, {"scope": "everybody"}).status_code == 302
        assert list_entries() == []

    def test_admin_without_a_factor_does_not_lock_themselves_out(self, admin: Client) -> None:
        assert "once you have one yourself" in visible_text(admin.get(MEMBERS))
        response = admin.post(RULE, {"scope": "approvers"})
        assert response.status_code == 409
        assert "You have no second factor yourself, so this would lock you out." in visible_text(response)
        assert stored_scope() is None
        assert list_entries() == []

    def test_unknown_choice_is_refused(self, admin: Client, bob: User) -> None:
        make_totp(bob)
        response = admin.post(RULE, {"scope": "everyone"})
        assert response.status_code == 422
        assert "This choice does not exist. Nothing was changed." in visible_text(response)

    def test_old_sign_in_requires_reauthentication(self, client: Client, bob: User) -> None:
        make_totp(bob)
        client.force_login(bob)
        response = client.post(RULE, {"scope": "everybody"})
        assert response.headers["Location"].startswith("/accounts/again/")
        assert "You are about to change who needs a second factor." in visible_text(
            client.get(response.headers["Location"])
        )
        assert stored_scope() is None

    def test_members_page_names_who_has_to_set_one_up(self, admin: Client, bob: User, alice: User, carol: User) -> None:
        make_totp(bob)
        require_factor(FactorScope.APPROVERS)
        rows = visible_text(admin.get(MEMBERS))
        assert re.search(r"alice\s+Must set up a second factor", rows)
        assert re.search(r"carol\s+No second factor", rows)


class TestMemberWithoutFactor:
    def test_way_from_sign_in_over_set_up_to_the_page_that_was_refused(self, client: Client, alice: User) -> None:
        require_factor()
        response = client.post("/accounts/login/?next=/sessions/", {"username": "alice", "password": PASSWORD})
        response = client.get(response.headers["Location"])
        assert response.headers["Location"] == f"{SET_UP}?{urlencode({'next': '/sessions/'})}"
        page = visible_text(client.get(response.headers["Location"]))
        assert "bob requires a second factor of all members of the workspace “Default”" in page
        assert "Until you have one, you can neither read nor change anything there." in page
        secret = re.search(r"<code>([A-Z2-7]{32})</code>", client.get("/accounts/app/").text)
        assert secret
        client.post("/accounts/app/", {"code": compute_current_totp_code(secret[1])})
        assert f'href="{SET_UP}"' in client.get("/accounts/codes/").text
        assert client.get(SET_UP).headers["Location"] == "/sessions/"
        assert client.get("/sessions/").status_code == 200
        assert "second-factor" not in client.get("/accounts/codes/").text

    def test_page_names_approvers_and_admins_if_it_is_about_them(self, client: Client, alice: User) -> None:
        require_factor(FactorScope.APPROVERS)
        client.force_login(alice)
        assert "of all approvers and admins of the workspace “Default”" in visible_text(client.get(SET_UP))

    def test_decision_is_refused_and_not_recorded(self, client: Client, alice: User) -> None:
        call = make_call(session=make_session())
        require_factor()
        client.force_login(alice)
        form = {"kind": "mark_failed", "reason": "No.", "revision": call.revision}
        response = client.post(f"/review/calls/{call.pk}/", form)
        assert response.headers["Location"] == f"{SET_UP}?not-saved="
        assert "Your change was not saved, because you have no second factor." in visible_text(
            client.get(response.headers["Location"])
        )
        assert not Decision.objects.exists()
        assert [entry[0] for entry in list_entries()] == []

    def test_htmx_request_gets_a_sentence_for_its_page(self, client: Client, alice: User) -> None:
        call = make_call(session=make_session())
        require_factor()
        client.force_login(alice)
        key = format_reader_key(Membership.objects.get(user=alice))
        headers = {"HX-Request": "true", HEADER: key}
        form = {"kind": "mark_failed", "reason": "No.", "revision": call.revision}
        for response in (
            client.get("/review/count/", headers=headers),
            client.post(f"/review/calls/{call.pk}/", form, headers=headers),
        ):
            assert response.status_code == 412
            assert response.text == "The workspace Default requires a second factor now."
            assert response.headers[HEADER] == str(alice.pk)
            assert response.headers[SET_UP_HEADER] == SET_UP
        assert not Decision.objects.exists()

    def test_own_pages_show_nothing_of_the_workspace(self, client: Client, alice: User) -> None:
        make_call(session=make_session(), tool="refund_card")
        client.force_login(alice)
        assert "refund_card" in client.get("/accounts/notifications/").text
        require_factor()
        for path in ("/accounts/", "/accounts/notifications/", "/accounts/app/", "/accounts/display/", "/nowhere/"):
            page = client.get(path).text
            assert "/review/" not in page, path
            assert "data-reader" not in page, path
            assert "refund_card" not in page, path
        assert "The workspace “Default” requires a second factor of you." in visible_text(client.get("/accounts/"))

    def test_sign_out_is_possible(self, client: Client, alice: User) -> None:
        require_factor()
        client.force_login(alice)
        client.post("/accounts/logout/")
        assert client.get(SET_UP).headers["Location"].startswith("/accounts/login/")

    def test_next_address_of_another_site_is_not_followed(self, client: Client, alice: User) -> None:
        requirement = require_factor()
        client.force_login(alice)
        client.get(f"{SET_UP}?next=https://elsewhere.example/")
        requirement.delete()
        assert client.get(SET_UP).headers["Location"] == "/"

    def test_other_workspace_stays_open(self, client: Client, alice: User) -> None:
        other = make_workspace(slug="billing")
        Membership.objects.create(user=alice, workspace=other, role=Role.AUDITOR)
        require_factor()
        client.force_login(alice)
        assert "Switch to the workspace “Billing”" in visible_text(client.get(SET_UP))
        client.post("/accounts/workspace/", {"workspace": "billing"})
        assert client.session[WORKSPACE_KEY] == other.pk
        assert client.get("/sessions/").status_code == 200


class TestWhoIsCovered:
    def test_auditor_is_not_covered_by_a_requirement_of_approvers(self, client: Client, carol: User) -> None:
        require_factor(FactorScope.APPROVERS)
        client.force_login(carol)
        assert client.get("/sessions/").status_code == 200
        Membership.objects.filter(user=carol).update(role=Role.APPROVER)
        assert client.get("/sessions/").headers["Location"].startswith(SET_UP)

    def test_unknown_scope_covers_everybody(self, client: Client, carol: User) -> None:
        SecondFactorRequirement.objects.filter(pk=require_factor().pk).update(scope="newer")
        client.force_login(carol)
        assert client.get("/sessions/").headers["Location"].startswith(SET_UP)

    @pytest.mark.parametrize("kind", ["totp", "webauthn"])
    def test_member_with_a_factor_works_as_before(self, client: Client, alice: User, kind: str) -> None:
        require_factor()
        Authenticator.objects.create(user=alice, type=kind, data={})
        client.force_login(alice)
        assert client.get("/sessions/").status_code == 200

    def test_recovery_codes_alone_are_no_factor(self, client: Client, alice: User) -> None:
        require_factor()
        Authenticator.objects.create(user=alice, type="recovery_codes", data={})
        client.force_login(alice)
        assert client.get("/sessions/").headers["Location"].startswith(SET_UP)

    def test_single_sign_on_without_a_password_is_not_covered(self, client: Client, alice: User) -> None:
        require_factor()
        SocialAccount.objects.create(user=alice, provider="sso", uid="1")
        client.force_login(alice)
        assert client.get("/sessions/").headers["Location"].startswith(SET_UP)
        alice.set_unusable_password()
        alice.save()
        client.force_login(alice)
        assert client.get("/sessions/").status_code == 200

    def test_api_token_is_not_affected(self, alice: User) -> None:
        require_factor()
        assert ApiClient(make_token(TokenRole.APPROVER)).get("/sessions").status_code == 200


class TestRemovalOfFactor:
    def test_last_factor_cannot_be_removed(self, client: Client, alice: User) -> None:
        make_totp(alice)
        require_factor()
        sign_in(client, alice)
        account = client.get("/accounts/")
        assert "Required by the workspace Default" in visible_text(account)
        assert "/accounts/app/remove/" not in account.text
        for response in (client.get("/accounts/app/remove/"), client.post("/accounts/app/remove/")):
            assert "A workspace requires a second factor of you, and this is your only one." in visible_text(response)
        assert list_factor_types(alice) == ["totp"]

    def test_last_passkey_cannot_be_removed(self, client: Client, alice: User) -> None:
        passkey = Authenticator.objects.create(user=alice, type="webauthn", data={"name": "Key", "credential": {}})
        require_factor()
        sign_in(client, alice)
        path = f"/accounts/passkeys/{passkey.pk}/remove/"
        assert path not in client.get("/accounts/").text
        assert "this is your only one" in visible_text(client.get(path))
        response = client.post(path)
        assert response.status_code == 409
        assert "this is your only one" in visible_text(response)
        assert list_factor_types(alice) == ["webauthn"]

    def test_one_of_two_factors_can_be_removed(self, client: Client, alice: User) -> None:
        make_totp(alice)
        passkey = Authenticator.objects.create(user=alice, type="webauthn", data={"name": "Key", "credential": {}})
        require_factor()
        sign_in(client, alice)
        assert client.post(f"/accounts/passkeys/{passkey.pk}/remove/").headers["Location"] == "/accounts/"
        assert list_factor_types(alice) == ["totp"]

    def test_admin_resets_a_lost_factor(self, admin: Client, client: Client, bob: User, alice: User) -> None:
        make_totp(bob)
        make_totp(alice)
        require_factor()
        assert "alice is signed out, and has to set up a second factor" in visible_text(admin.get(MEMBERS))
        assert admin.post(f"{MEMBERS}{of(alice)}/reset-factors/").headers["Location"] == MEMBERS
        assert list_factor_types(alice) == []
        client.post("/accounts/login/", {"username": "alice", "password": PASSWORD})
        assert client.get("/sessions/").headers["Location"].startswith(SET_UP)
        assert client.get("/accounts/app/").status_code == 200

    def test_admin_does_not_reset_their_own_factors(self, admin: Client, bob: User) -> None:
        make_totp(bob)
        assert f"{of(bob)}/reset-factors/" in admin.get(MEMBERS).text
        require_factor()
        assert f"{of(bob)}/reset-factors/" not in admin.get(MEMBERS).text
        response = admin.post(f"{MEMBERS}{of(bob)}/reset-factors/")
        assert response.status_code == 409
        assert "A workspace requires a second factor of you." in visible_text(response)
        assert list_factor_types(bob) == ["totp"]


def test_requirement_of_another_workspace_covers_nobody_here(client: Client, alice: User) -> None:
    require_factor(slug="elsewhere")
    make_user(name="erin", workspace=make_workspace(slug="elsewhere"))
    client.force_login(alice)
    assert client.get("/sessions/").status_code == 200
