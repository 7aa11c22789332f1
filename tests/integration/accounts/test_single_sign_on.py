"""Signing in with an OpenID Connect provider: a real one, over HTTP, that belongs to the test."""

import http.client
from collections.abc import Iterator
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from checkpoints.enums import Role
from harness_site.accounts.models import Membership
from tests.integration.site.test_settings import refused, shown
from tests.support.audit_entries import entries
from tests.support.factories import make_workspace
from tests.support.openid_provider import CLIENT, SECRET, Provider, provider
from tests.support.page_text import visible_text
from tests.support.second_factors import make_totp

LOGIN = "/accounts/oidc/sso/login/"
CALLBACK = "/accounts/oidc/sso/login/callback/"


@pytest.fixture
def elsewhere(db: None, settings: Settings) -> Iterator[Provider]:
    with provider() as running:
        app = {
            "provider_id": "sso",
            "name": "Shop account",
            "client_id": CLIENT,
            "secret": SECRET,
            "settings": {"server_url": running.address, "oauth_pkce_enabled": True},
        }
        settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [app]}}
        yield running


def sent_away(client: Client, next_page: str = "") -> dict[str, list[str]]:
    """Press the button; returns what the provider is asked."""
    response = client.post(LOGIN, {"next": next_page})
    assert response.status_code == 302
    return parse_qs(urlsplit(response.headers["Location"]).query)


def let_in(elsewhere: Provider, asked: dict[str, list[str]]) -> dict[str, list[str]]:
    """What the provider, which lets everybody in, sends a browser back with."""
    connection = http.client.HTTPConnection("127.0.0.1", elsewhere.port)
    connection.request("GET", f"/authorize?{urlencode(asked, doseq=True)}")
    location = connection.getresponse().headers["Location"]
    connection.close()
    return parse_qs(urlsplit(location).query)


def comes_back(client: Client, asked: dict[str, list[str]], elsewhere: Provider) -> str:
    response = client.get(CALLBACK, let_in(elsewhere, asked))
    assert response.status_code == 302, visible_text(response)
    return response.headers["Location"]


def test_the_sign_in_page_offers_it(client: Client, elsewhere: Provider) -> None:
    assert "Continue with Shop account" in visible_text(client.get("/accounts/login/"))


def test_without_a_provider_there_is_nothing(client: Client, db: None) -> None:
    assert "Go on with" not in visible_text(client.get("/accounts/login/"))
    assert client.post(LOGIN).status_code == 404


def test_the_provider_is_asked_with_proof_and_without_secrets(client: Client, elsewhere: Provider) -> None:
    asked = sent_away(client)
    assert asked["client_id"] == [CLIENT]
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["redirect_uri"] == [f"http://testserver{CALLBACK}"]
    assert "client_secret" not in asked
    comes_back(client, asked, elsewhere)
    assert set(elsewhere.asked[0]) >= {"code", "code_verifier", "client_secret"}


def test_the_code_is_exchanged_and_the_person_asked_for(client: Client, elsewhere: Provider) -> None:
    comes_back(client, sent_away(client), elsewhere)
    expected = {"/.well-known/openid-configuration", "/authorize", "/token", "/userinfo"}
    assert set(elsewhere.visited) == expected


def test_a_code_that_was_used_or_is_another_ones_lets_nobody_in(client: Client, elsewhere: Provider) -> None:
    other = Client()
    stolen = let_in(elsewhere, sent_away(other))["code"]
    asked = sent_away(client)
    response = client.get(CALLBACK, {"code": stolen, "state": asked["state"][0]})
    assert response.status_code == 401
    assert not User.objects.exists()


def test_somebody_new_has_an_account_and_no_rights(client: Client, elsewhere: Provider) -> None:
    assert comes_back(client, sent_away(client), elsewhere) == "/"
    user = User.objects.get()
    assert (user.username, user.email, user.has_usable_password()) == ("erin", "erin@example.com", False)
    response = client.get("/", follow=True)
    assert response.status_code == 403
    assert "Ask an admin for an invitation, and open its link as erin" in visible_text(response)


def test_somebody_known_is_let_in_and_recorded(client: Client, elsewhere: Provider) -> None:
    comes_back(client, sent_away(client), elsewhere)
    Membership.objects.create(user=User.objects.get(), workspace=make_workspace(), role=Role.AUDITOR)
    later = Client()
    assert comes_back(later, sent_away(later, "/sessions/?q=lamp"), elsewhere) == "/sessions/?q=lamp"
    assert later.get("/sessions/").status_code == 200
    assert entries("signed_in") == [("signed_in", "erin", {"methods": "single sign-on"})]


def test_a_name_that_somebody_has_is_not_taken_over(client: Client, elsewhere: Provider, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(email="alice@example.com")
    elsewhere.person = {"sub": "2", "preferred_username": "alice", "email": "alice@example.com", "email_verified": True}
    comes_back(client, sent_away(client), elsewhere)
    assert User.objects.count() == 2
    assert client.get("/sessions/").status_code == 403


def test_a_second_factor_is_asked_for_here_too(client: Client, elsewhere: Provider) -> None:
    comes_back(client, sent_away(client), elsewhere)
    make_totp(User.objects.get())
    later = Client()
    assert comes_back(later, sent_away(later), elsewhere).startswith("/accounts/login/code/")
    assert later.get("/sessions/").headers["Location"].startswith("/accounts/login/")


def test_a_switched_off_account_stays_out(client: Client, elsewhere: Provider) -> None:
    comes_back(client, sent_away(client), elsewhere)
    User.objects.update(is_active=False)
    later = Client()
    assert comes_back(later, sent_away(later), elsewhere) == "/accounts/inactive/"


def test_an_answer_nobody_asked_for_is_refused(client: Client, elsewhere: Provider) -> None:
    asked = sent_away(Client())
    response = client.get(CALLBACK, {"code": "c", "state": asked["state"][0]})
    assert response.status_code == 401
    assert "You are not signed in" in visible_text(response)
    assert not User.objects.exists()


def test_a_cancelled_sign_in_is_said(client: Client, elsewhere: Provider) -> None:
    asked = sent_away(client)
    response = client.get(CALLBACK, {"error": "access_denied", "state": asked["state"][0]}, follow=True)
    assert "The sign-in was cancelled" in visible_text(response)


def test_link_without_confirmation_signs_nobody_out(client: Client, elsewhere: Provider) -> None:
    """Another site could otherwise sign people in under an account of its own."""
    assert "Sign in with Shop account" in visible_text(client.get(LOGIN))
    strict = Client(enforce_csrf_checks=True)
    assert strict.post(LOGIN).status_code == 403


def test_who_came_by_single_sign_on_may_set_a_password(client: Client, elsewhere: Provider) -> None:
    comes_back(client, sent_away(client), elsewhere)
    assert "No password. You sign in with single sign-on." in visible_text(client.get("/accounts/"))
    form = {"password1": "a phrase of my own", "password2": "a phrase of my own"}
    assert client.post("/accounts/password/set/", form).status_code == 302
    assert User.objects.get().check_password("a phrase of my own")


def test_who_has_no_password_can_add_a_factor(client: Client, elsewhere: Provider) -> None:
    comes_back(client, sent_away(client), elsewhere)
    assert client.get("/accounts/app/").status_code == 200
    assert not Authenticator.objects.exists()


class TestEnvironment:
    def test_nothing_is_set_up_by_itself(self) -> None:
        assert shown("s.SOCIALACCOUNT_PROVIDERS") == "{'openid_connect': {'APPS': []}}"

    def test_the_provider_comes_from_the_environment(self) -> None:
        environment = {
            "HARNESS_OIDC_URL": "https://id.example/realms/shop",
            "HARNESS_OIDC_CLIENT_ID": "harness",
            "HARNESS_OIDC_CLIENT_SECRET": "s",
            "HARNESS_OIDC_NAME": "Shop",
        }
        app = "s.SOCIALACCOUNT_PROVIDERS['openid_connect']['APPS'][0]"
        expression = f"[{app}[name] for name in ('provider_id', 'name', 'client_id', 'secret')]"
        assert shown(expression, **environment) == "['sso', 'Shop', 'harness', 's']"
        targets = "s.CONTENT_SECURITY_POLICY['DIRECTIVES']['form-action']"
        assert shown(targets, **environment) == "[\"'self'\", 'https://id.example']"

    def test_an_address_without_a_client_is_refused(self) -> None:
        said_ = refused(HARNESS_OIDC_URL="https://id.example")
        assert said_.endswith("HARNESS_OIDC_URL is set: set HARNESS_OIDC_CLIENT_ID as well.")
