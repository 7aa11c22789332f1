"""Second factors of an account: activation, removal and storage."""

import re

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import DjangoCaptureOnCommitCallbacks as CaptureCallbacks
from pytest_django.fixtures import Settings

from harness_site.accounts import encrypt_stored_secrets
from tests.support.audit_entries import list_entries
from tests.support.factories import PASSWORD
from tests.support.page_text import visible_text
from tests.support.second_factors import compute_current_totp_code, create_recovery_codes, list_factor_types, make_totp


@pytest.fixture
def fresh(client: Client, alice: User) -> Client:
    """Client of alice, just after a reauthentication."""
    client.post("/accounts/login/", {"username": "alice", "password": PASSWORD})
    client.post("/accounts/again/", {"password": PASSWORD})
    return client


def activated(client: Client) -> str:
    """Activate an authenticator app; return its secret."""
    page = client.get("/accounts/app/").content.decode()
    found = re.search(r"<code>([A-Z2-7]{32})</code>", page)
    assert found
    response = client.post("/accounts/app/", {"code": compute_current_totp_code(found[1])})
    assert response.headers["Location"] == "/accounts/codes/"
    return found[1]


def test_authenticator_app_is_activated_with_its_first_code(
    fresh: Client, alice: User, django_capture_on_commit_callbacks: CaptureCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        activated(fresh)
    assert list_factor_types(alice) == ["recovery_codes", "totp"]
    assert [entry for entry in list_entries() if entry[0] == "factor_added"] == [
        ("factor_added", "alice", {"factor": "totp"}),
        ("factor_added", "alice", {"factor": "recovery_codes"}),
    ]


def test_qr_code_needs_no_inline_style(fresh: Client) -> None:
    page = fresh.get("/accounts/app/").content.decode()
    assert '<svg class="qr"' in page
    assert "data:image" not in page
    assert "style=" not in page


def test_wrong_first_code_activates_nothing(fresh: Client, alice: User) -> None:
    fresh.get("/accounts/app/")
    page = visible_text(fresh.post("/accounts/app/", {"code": "000000"}))
    assert "Wrong or expired code." in page
    assert list_factor_types(alice) == []


def test_secret_is_stored_encrypted(fresh: Client, alice: User) -> None:
    secret = activated(fresh)
    for factor in Authenticator.objects.filter(user=alice):
        assert secret not in str(factor.data)
    stored = Authenticator.objects.get(user=alice, type="totp").data["secret"]
    assert encrypt_stored_secrets.decrypt_field(stored) == secret


def test_factor_works_after_a_key_rotation(alice: User, settings: Settings) -> None:
    stored = encrypt_stored_secrets.encrypt_field("seed")
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another"
    assert encrypt_stored_secrets.decrypt_field(stored) == "seed"


def test_factor_under_a_lost_key_is_reported(alice: User, settings: Settings) -> None:
    stored = encrypt_stored_secrets.encrypt_field("seed")
    settings.SECRET_KEY = "another"
    with pytest.raises(ImproperlyConfigured, match="HARNESS_OLD_SECRET_KEYS, or reset the second factors"):
        encrypt_stored_secrets.decrypt_field(stored)


def test_recovery_codes_are_shown_once(fresh: Client, alice: User) -> None:
    activated(fresh)
    first = fresh.get("/accounts/codes/").content.decode()
    codes = [code.replace(" ", "") for code in re.findall(r"<li>(\d{4} \d{4})</li>", first)]
    assert len(codes) == 10
    assert f'data-copy="{"&#10;".join(codes)}"' in first  # one line for each
    assert f'href="data:text/plain,{"%0A".join(codes)}"' in first
    again = fresh.get("/accounts/codes/")
    assert re.findall(r"\d{4} ?\d{4}", visible_text(again)) == []
    assert "10 of 10 codes are left. They were shown when they were created and cannot be shown again." in visible_text(
        again
    )


def test_new_recovery_codes_replace_the_old_ones(fresh: Client, alice: User) -> None:
    activated(fresh)
    before = set(re.findall(r"<li>(\d{4} \d{4})</li>", fresh.get("/accounts/codes/").content.decode()))
    assert fresh.post("/accounts/codes/new/").headers["Location"] == "/accounts/codes/"
    after = set(re.findall(r"<li>(\d{4} \d{4})</li>", fresh.get("/accounts/codes/").content.decode()))
    assert (len(after), before & after) == (10, set())


def test_authenticator_app_can_be_deactivated(fresh: Client, alice: User) -> None:
    activated(fresh)
    assert "Then your password alone is enough" in visible_text(fresh.get("/accounts/app/remove/"))
    assert fresh.post("/accounts/app/remove/").headers["Location"] == "/accounts/"
    assert list_factor_types(alice) == []
    assert ("factor_removed", "alice", {"factor": "totp"}) in list_entries()


@pytest.mark.parametrize("path", ["app/", "app/remove/", "codes/new/", "passkeys/add/"])
def test_old_sign_in_requires_reauthentication(client: Client, alice: User, path: str) -> None:
    make_totp(alice)
    create_recovery_codes(alice)
    client.force_login(alice)
    response = client.get(f"/accounts/{path}")
    if path == "app/":
        Authenticator.objects.all().delete()
        response = client.get(f"/accounts/{path}")
    assert response.status_code == 302
    assert response.headers["Location"].startswith("/accounts/again/")


def test_reauthentication_by_password(client: Client, alice: User) -> None:
    client.force_login(alice)
    asked = client.get("/accounts/app/").headers["Location"]
    assert "Confirm it is you, alice" in visible_text(client.get(asked))
    assert "Wrong password. It is case-sensitive." in visible_text(client.post(asked, {"password": "guess"}))
    assert client.post(asked, {"password": PASSWORD}).headers["Location"] == "/accounts/app/"
    assert client.get("/accounts/app/").status_code == 200


def test_reauthentication_by_code(client: Client, alice: User) -> None:
    secret = make_totp(alice)
    client.force_login(alice)
    response = client.post("/accounts/again/code/?next=/accounts/", {"code": compute_current_totp_code(secret)})
    assert response.headers["Location"] == "/accounts/"


def test_forged_new_passkey_is_refused(fresh: Client, alice: User) -> None:
    fresh.get("/accounts/passkeys/add/")
    for credential in ("{}", "[]", "null", '{"id": "x", "rawId": "eA", "type": "public-key", "response": {}}', "junk"):
        response = fresh.post("/accounts/passkeys/add/", {"name": "Key", "credential": credential})
        assert response.status_code == 200
    assert list_factor_types(alice) == []


def test_passkey_of_another_user_is_not_found(fresh: Client, bob: User) -> None:
    theirs = Authenticator.objects.create(user=bob, type="webauthn", data={"name": "Key", "credential": {}})
    for path in (f"passkeys/{theirs.pk}/", f"passkeys/{theirs.pk}/remove/"):
        assert fresh.get(f"/accounts/{path}").status_code == 404
        assert fresh.post(f"/accounts/{path}", {"name": "Mine"}).status_code == 404
    assert list_factor_types(bob) == ["webauthn"]


class TestPassword:
    def test_password_change_ends_other_sign_ins(self, fresh: Client, alice: User) -> None:
        other = Client()
        other.post("/accounts/login/", {"username": "alice", "password": PASSWORD})
        new = "another long phrase"
        form = {"oldpassword": PASSWORD, "password1": new, "password2": new}
        assert fresh.post("/accounts/password/", form).status_code == 302
        assert fresh.get("/sessions/").status_code == 200
        assert other.get("/sessions/").status_code == 302
        assert list_entries("password_changed") == [("password_changed", "alice", {})]

    def test_current_password_is_required(self, fresh: Client, alice: User) -> None:
        form = {"oldpassword": "guess", "password1": "another long phrase", "password2": "another long phrase"}
        assert "Wrong password. It is case-sensitive." in visible_text(fresh.post("/accounts/password/", form))
        alice.refresh_from_db()
        assert alice.check_password(PASSWORD)

    def test_common_password_is_refused(self, fresh: Client, alice: User) -> None:
        form = {"oldpassword": PASSWORD, "password1": "password", "password2": "password"}
        assert "This password is too common." in visible_text(fresh.post("/accounts/password/", form))


class TestReset:
    """Reset of lost factors by an operator."""

    def test_command_removes_the_factors(self, fresh: Client, alice: User) -> None:
        activated(fresh)
        call_command("reset_factors", "alice")
        assert list_factor_types(alice) == []
        assert fresh.get("/sessions/").status_code == 302
        assert list_entries("factor_removed") == [
            ("factor_removed", "manage.py reset_factors", {"member": "alice", "factors": 2, "ended": 1})
        ]

    def test_unknown_account_is_named(self, db: None) -> None:
        with pytest.raises(CommandError, match="There is no account 'nobody'"):
            call_command("reset_factors", "nobody")
