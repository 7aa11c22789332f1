"""Sign-in with name and password, and its rate limits."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from checkpoints.models import AuditEvent
from harness_site.accounts.models import ThrottleEntry
from harness_site.accounts.sign_in_links import build_sign_in_link
from tests.support.audit_entries import list_entries
from tests.support.factories import PASSWORD, make_user, make_workspace
from tests.support.page_text import visible_text
from tests.support.second_factors import compute_current_totp_code, create_recovery_codes, make_totp

LOGIN = "/accounts/login/"
PATIENCE = "Too many attempts. Wait a few minutes and try again."
MISMATCH = "Wrong name or password. Both are case-sensitive."


def signs_in(client: Client, name: str, password: str = PASSWORD) -> bool:
    return client.post(LOGIN, {"username": name, "password": password}).status_code == 302


def test_sign_in_is_recorded_with_its_method(client: Client, alice: User) -> None:
    assert signs_in(client, "alice")
    assert list_entries() == [("signed_in", "alice", {"methods": "password"})]


def test_sign_in_is_recorded_in_every_workspace_of_the_user(client: Client, alice: User) -> None:
    alice.memberships.create(workspace=make_workspace(slug="second"), role="admin")
    assert signs_in(client, "alice")
    found = AuditEvent.objects.order_by("workspace__slug").values_list("workspace__slug", "kind")
    assert list(found) == [("default", "signed_in"), ("second", "signed_in")]


def test_client_address_is_recorded(client: Client, alice: User) -> None:
    client.post(LOGIN, {"username": "alice", "password": PASSWORD}, REMOTE_ADDR="203.0.113.9")
    assert '"address":"203.0.113.9"' in AuditEvent.objects.get().details


def test_wrong_password_is_recorded(client: Client, alice: User) -> None:
    response = client.post(LOGIN, {"username": "Alice", "password": "guess"})
    assert MISMATCH in visible_text(response)
    assert list_entries() == [("sign_in_failed", "alice", {"why": "password"})]


def test_next_field_to_fill_in_has_the_focus(client: Client, alice: User) -> None:
    make_totp(alice)
    pages = [client.get(LOGIN), client.post(LOGIN, {"username": "alice", "password": "guess"})]
    assert client.post(LOGIN, {"username": "alice", "password": PASSWORD}).status_code == 302
    pages.append(client.get("/accounts/login/code/"))
    focused = [re.findall(r'<input[^>]*name="(\w+)"[^>]* autofocus', page.content.decode()) for page in pages]
    assert focused == [["username"], ["password"], ["code"]]


def test_unknown_name_is_not_recorded(client: Client, alice: User) -> None:
    response = client.post(LOGIN, {"username": "hunter2-my-password", "password": "guess"})
    assert MISMATCH in visible_text(response)
    assert list_entries() == [("sign_in_failed", "unknown", {"why": "password"})]
    assert AuditEvent.objects.filter(details__contains="hunter2").count() == 0


def test_five_wrong_passwords_block_a_name(client: Client, alice: User) -> None:
    for _ in range(5):
        assert not signs_in(client, "alice", "guess")
    response = client.post(LOGIN, {"username": "alice", "password": PASSWORD})
    assert PATIENCE in visible_text(response)
    assert client.get("/").status_code == 302
    assert client.get("/").headers["Location"].startswith(LOGIN)


def guess_from_elsewhere(name: str, times: int) -> None:
    """Send wrong passwords, each from another address."""
    for number in range(times):
        client = Client(REMOTE_ADDR=f"203.0.{number // 250}.{number % 250}")
        client.post(LOGIN, {"username": name, "password": "guess"})


def test_guesses_from_another_address_do_not_block_a_user(client: Client, alice: User) -> None:
    guess_from_elsewhere("ALICE", 10)
    assert signs_in(client, "alice")


def test_many_guesses_from_one_address_do_not_block_a_user(client: Client, alice: User) -> None:
    for _ in range(15):
        client.post(LOGIN, {"username": "alice", "password": "guess"}, REMOTE_ADDR="203.0.113.9")
    assert signs_in(client, "alice")


class TestGuessesFromManyPlaces:
    """A hundred guesses in an hour block a name without a second factor."""

    @pytest.fixture(autouse=True)
    def few(self, settings: Settings) -> None:
        settings.ACCOUNT_RATE_LIMITS = {**settings.ACCOUNT_RATE_LIMITS, "login_failed_anywhere": "6/h/key"}

    @pytest.mark.parametrize("name", ["alice", "nobody"])
    def test_user_without_a_second_factor_is_blocked_for_a_while(self, client: Client, alice: User, name: str) -> None:
        guess_from_elsewhere(name, 6)
        assert PATIENCE in visible_text(client.post(LOGIN, {"username": name, "password": PASSWORD}))

    def test_user_with_a_second_factor_is_not_blocked(self, client: Client, alice: User) -> None:
        make_totp(alice)
        guess_from_elsewhere("alice", 8)
        response = client.post(LOGIN, {"username": "alice", "password": PASSWORD})
        assert response.headers["Location"].startswith("/accounts/login/code/")

    def test_known_address_of_the_user_is_not_blocked(self, client: Client, alice: User) -> None:
        assert signs_in(client, "alice")
        guess_from_elsewhere("alice", 8)
        assert signs_in(Client(), "alice")

    def test_right_passwords_do_not_count(self, alice: User) -> None:
        for _ in range(8):
            assert signs_in(Client(), "alice")

    def test_blocked_attempts_of_one_address_do_not_count(self, client: Client, alice: User) -> None:
        for _ in range(9):
            client.post(LOGIN, {"username": "alice", "password": "guess"}, REMOTE_ADDR="203.0.113.9")
        assert signs_in(client, "alice")


def test_other_users_can_still_sign_in(client: Client, alice: User, carol: User) -> None:
    for _ in range(5):
        signs_in(client, "alice", "guess")
    assert signs_in(client, "carol")


@pytest.fixture
def attempts_of_an_hour_count(settings: Settings) -> None:
    """Count attempts for an hour instead of a minute, in which a busy machine may not make them all."""
    limits = settings.ACCOUNT_RATE_LIMITS
    settings.ACCOUNT_RATE_LIMITS = limits | {
        name: limits[name].replace("/m/", "/h/") for name in ("login", "login_failed")
    }


@pytest.mark.usefixtures("attempts_of_an_hour_count")
def test_twenty_wrong_passwords_block_an_address(client: Client, alice: User) -> None:
    for number in range(20):
        assert not signs_in(client, f"nobody-{number}", "guess")
    assert PATIENCE in visible_text(client.post(LOGIN, {"username": "alice", "password": PASSWORD}))


def test_right_passwords_do_not_count(client: Client, alice: User) -> None:
    for _ in range(10):
        assert signs_in(Client(), "alice")


def test_attempts_are_counted_in_the_database(client: Client, alice: User) -> None:
    signs_in(client, "alice", "guess")
    assert ThrottleEntry.objects.filter(cache_key__contains="login_failed").count() == 3


@pytest.mark.usefixtures("attempts_of_an_hour_count")
def test_too_many_submissions_in_a_short_time_are_refused(client: Client, alice: User) -> None:
    for _ in range(60):
        client.post(LOGIN, {})
    response = client.post(LOGIN, {"username": "alice", "password": PASSWORD})
    assert response.status_code == 429
    assert "Too many attempts in a short time" in visible_text(response)


def test_inactive_account_is_reported(client: Client, alice: User) -> None:
    User.objects.update(is_active=False)
    response = client.post(LOGIN, {"username": "alice", "password": PASSWORD}, follow=True)
    assert "This account is deactivated" in visible_text(response)
    assert client.get("/sessions/").status_code == 302


def test_user_without_membership_is_shown_the_admins(client: Client, db: None) -> None:
    user = make_user(name="mallory", role=None)
    user.set_password(PASSWORD)
    user.save()
    assert signs_in(client, "mallory")
    response = client.get("/", follow=True)
    assert response.status_code == 403
    assert list_entries() == []


def test_self_registration_is_closed(client: Client, db: None) -> None:
    for path in ("/accounts/signup/", "/accounts/password/reset/", "/accounts/email/"):
        assert client.get(path).status_code == 404


def test_sign_out_is_recorded(client: Client, alice: User) -> None:
    signs_in(client, "alice")
    client.post("/accounts/logout/")
    assert [kind for kind, _, _ in list_entries()] == ["signed_in", "signed_out"]


class TestForgottenPassword:
    """New passwords after a sign-in by a link."""

    NEW = "another horse battery"

    def set_password(self, client: Client) -> str:
        page = client.post("/accounts/password/", {"password1": self.NEW, "password2": self.NEW}, follow=True)
        return visible_text(page)

    def test_password_is_set_without_the_current_one(self, client: Client, alice: User) -> None:
        client.get(build_sign_in_link(alice))
        page = visible_text(client.get("/accounts/password/"))
        assert "your current password is not asked for" in page
        assert "Current password" not in page
        mismatch = client.post("/accounts/password/", {"password1": self.NEW, "password2": "other"})
        assert "Repeat password" in visible_text(mismatch)
        self.set_password(client)
        assert client.get("/sessions/").status_code == 200
        alice.refresh_from_db()
        assert alice.check_password(self.NEW)

    def test_current_password_is_asked_for_later(self, client: Client, alice: User, settings: Settings) -> None:
        client.get(build_sign_in_link(alice))
        settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = 0
        assert "Current password" in visible_text(client.get("/accounts/password/"))
        self.set_password(client)
        alice.refresh_from_db()
        assert alice.check_password(PASSWORD)

    def test_current_password_is_asked_for_after_a_sign_in_with_it(self, client: Client, alice: User) -> None:
        assert signs_in(client, "alice")
        self.set_password(client)
        alice.refresh_from_db()
        assert alice.check_password(PASSWORD)


class TestSecondFactor:
    """Sign-in of accounts with a second factor."""

    def test_pages_are_closed_before_the_code(self, client: Client, alice: User) -> None:
        make_totp(alice)
        response = client.post(LOGIN, {"username": "alice", "password": PASSWORD, "next": "/review/"})
        assert response.headers["Location"].startswith("/accounts/login/code/")
        assert client.get("/sessions/").headers["Location"].startswith(LOGIN)
        assert list_entries() == []

    def test_code_of_the_app_completes_the_sign_in(self, client: Client, alice: User) -> None:
        secret = make_totp(alice)
        response = client.post(LOGIN, {"username": "alice", "password": PASSWORD, "next": "/review/"})
        page = client.get(response.headers["Location"])
        assert "Second factor Enter the code" in visible_text(page)
        assert "Use a passkey" not in visible_text(page)
        response = client.post("/accounts/login/code/", {"code": compute_current_totp_code(secret)})
        assert (response.status_code, response.headers["Location"]) == (302, "/review/")
        assert client.get("/sessions/").status_code == 200
        assert list_entries() == [("signed_in", "alice", {"methods": "password, totp"})]

    def test_code_works_once(self, client: Client, alice: User) -> None:
        secret = make_totp(alice)
        code = compute_current_totp_code(secret)
        assert signs_in(client, "alice")
        client.post("/accounts/login/code/", {"code": code})
        other = Client()
        assert signs_in(other, "alice")
        assert other.post("/accounts/login/code/", {"code": code}).status_code == 200
        assert other.get("/sessions/").status_code == 302

    def test_recovery_code_works_once(self, client: Client, alice: User) -> None:
        make_totp(alice)
        code = create_recovery_codes(alice)[0]
        for answer in (302, 200):
            visitor = Client()
            assert signs_in(visitor, "alice")
            assert visitor.post("/accounts/login/code/", {"code": code}).status_code == answer

    def test_wrong_code_is_recorded(self, client: Client, alice: User) -> None:
        make_totp(alice)
        assert signs_in(client, "alice")
        page = visible_text(client.post("/accounts/login/code/", {"code": "000000"}))
        assert "Wrong or expired code. Enter the code that the app shows now." in page
        assert list_entries() == [("sign_in_failed", "alice", {"why": "totp"})]

    def test_code_guesses_are_limited(self, client: Client, alice: User) -> None:
        secret = make_totp(alice)
        assert signs_in(client, "alice")
        for _ in range(5):
            client.post("/accounts/login/code/", {"code": "000000"})
        response = client.post("/accounts/login/code/", {"code": compute_current_totp_code(secret)})
        assert PATIENCE in visible_text(response)

    def test_another_user_can_sign_in_instead(self, client: Client, alice: User, carol: User) -> None:
        make_totp(alice)
        assert signs_in(client, "alice")
        client.post("/accounts/logout/")
        assert signs_in(client, "carol")
        assert client.get("/sessions/").status_code == 200


@pytest.mark.parametrize(
    "credential", ["{}", "null", "[]", "1", '{"id": 1}', '{"response": {"userHandle": "AA"}}', "x"]
)
def test_forged_passkey_is_refused(client: Client, alice: User, credential: str) -> None:
    response = client.post("/accounts/login/passkey/", {"credential": credential})
    assert (response.status_code, response.headers["Location"]) == (302, "/accounts/login/?passkey=refused")
    assert "This passkey is unknown here" in visible_text(client.get(response.headers["Location"]))
    assert list_entries() == [("sign_in_failed", "unknown", {"why": "passkey"})]


def test_passkey_challenge_is_served_to_scripts(client: Client, db: None) -> None:
    response = client.get("/accounts/login/passkey/", headers={"Accept": "application/json"})
    assert set(response.json()["request_options"]["publicKey"]) >= {"challenge", "rpId"}
