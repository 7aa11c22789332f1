"""Sign-in with an OpenID Connect provider, which the test runs over HTTP."""

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
from tests.support.audit_entries import list_entries
from tests.support.factories import make_workspace
from tests.support.openid_provider import CLIENT, SECRET, Provider, run_provider
from tests.support.page_text import visible_text
from tests.support.second_factors import make_totp

LOGIN = "/accounts/oidc/sso/login/"
CALLBACK = "/accounts/oidc/sso/login/callback/"


@pytest.fixture
def identity_provider(db: None, settings: Settings) -> Iterator[Provider]:
    with run_provider() as running:
        app = {
            "provider_id": "sso",
            "name": "Shop account",
            "client_id": CLIENT,
            "secret": SECRET,
            "settings": {"server_url": running.address, "oauth_pkce_enabled": True},
        }
        settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [app]}}
        yield running


def start_sign_in(client: Client, next_page: str = "") -> dict[str, list[str]]:
    """Start the sign-in; return the parameters of the authorization request."""
    response = client.post(LOGIN, {"next": next_page})
    assert response.status_code == 302
    return parse_qs(urlsplit(response.headers["Location"]).query)


def authorize(identity_provider: Provider, asked: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the parameters with which the provider redirects back."""
    connection = http.client.HTTPConnection("127.0.0.1", identity_provider.port)
    connection.request("GET", f"/authorize?{urlencode(asked, doseq=True)}")
    location = connection.getresponse().headers["Location"]
    connection.close()
    return parse_qs(urlsplit(location).query)


def finish_sign_in(client: Client, asked: dict[str, list[str]], identity_provider: Provider) -> str:
    response = client.get(CALLBACK, authorize(identity_provider, asked))
    assert response.status_code == 302, visible_text(response)
    return response.headers["Location"]


def test_sign_in_page_offers_single_sign_on(client: Client, identity_provider: Provider) -> None:
    assert "Continue with Shop account" in visible_text(client.get("/accounts/login/"))


def test_sign_in_page_without_a_provider(client: Client, db: None) -> None:
    assert "Go on with" not in visible_text(client.get("/accounts/login/"))
    assert client.post(LOGIN).status_code == 404


def test_authorization_request_uses_pkce_and_contains_no_secret(client: Client, identity_provider: Provider) -> None:
    asked = start_sign_in(client)
    assert asked["client_id"] == [CLIENT]
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["redirect_uri"] == [f"http://testserver{CALLBACK}"]
    assert "client_secret" not in asked
    finish_sign_in(client, asked, identity_provider)
    assert set(identity_provider.asked[0]) >= {"code", "code_verifier", "client_secret"}


def test_code_is_exchanged_and_user_info_requested(client: Client, identity_provider: Provider) -> None:
    finish_sign_in(client, start_sign_in(client), identity_provider)
    expected = {"/.well-known/openid-configuration", "/authorize", "/token", "/userinfo"}
    assert set(identity_provider.visited) == expected


def test_used_or_foreign_code_is_refused(client: Client, identity_provider: Provider) -> None:
    other = Client()
    stolen = authorize(identity_provider, start_sign_in(other))["code"]
    asked = start_sign_in(client)
    response = client.get(CALLBACK, {"code": stolen, "state": asked["state"][0]})
    assert response.status_code == 401
    assert not User.objects.exists()


def test_new_user_gets_an_account_without_membership(client: Client, identity_provider: Provider) -> None:
    assert finish_sign_in(client, start_sign_in(client), identity_provider) == "/"
    user = User.objects.get()
    assert (user.username, user.email, user.has_usable_password()) == ("erin", "erin@example.com", False)
    response = client.get("/", follow=True)
    assert response.status_code == 403
    assert "Ask an admin for an invitation, and open its link as erin" in visible_text(response)


def test_known_user_signs_in_and_is_recorded(client: Client, identity_provider: Provider) -> None:
    finish_sign_in(client, start_sign_in(client), identity_provider)
    Membership.objects.create(user=User.objects.get(), workspace=make_workspace(), role=Role.AUDITOR)
    later = Client()
    assert finish_sign_in(later, start_sign_in(later, "/sessions/?q=lamp"), identity_provider) == "/sessions/?q=lamp"
    assert later.get("/sessions/").status_code == 200
    assert list_entries("signed_in") == [("signed_in", "erin", {"methods": "single sign-on"})]


def test_existing_name_is_not_taken_over(client: Client, identity_provider: Provider, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(email="alice@example.com")
    identity_provider.person = {
        "sub": "2",
        "preferred_username": "alice",
        "email": "alice@example.com",
        "email_verified": True,
    }
    finish_sign_in(client, start_sign_in(client), identity_provider)
    assert User.objects.count() == 2
    assert client.get("/sessions/").status_code == 403


def test_second_factor_is_required_after_single_sign_on(client: Client, identity_provider: Provider) -> None:
    finish_sign_in(client, start_sign_in(client), identity_provider)
    make_totp(User.objects.get())
    later = Client()
    assert finish_sign_in(later, start_sign_in(later), identity_provider).startswith("/accounts/login/code/")
    assert later.get("/sessions/").headers["Location"].startswith("/accounts/login/")


def test_inactive_account_cannot_sign_in(client: Client, identity_provider: Provider) -> None:
    finish_sign_in(client, start_sign_in(client), identity_provider)
    User.objects.update(is_active=False)
    later = Client()
    assert finish_sign_in(later, start_sign_in(later), identity_provider) == "/accounts/inactive/"


def test_unrequested_callback_is_refused(client: Client, identity_provider: Provider) -> None:
    asked = start_sign_in(Client())
    response = client.get(CALLBACK, {"code": "c", "state": asked["state"][0]})
    assert response.status_code == 401
    assert "You are not signed in" in visible_text(response)
    assert not User.objects.exists()


def test_cancelled_sign_in_is_reported(client: Client, identity_provider: Provider) -> None:
    asked = start_sign_in(client)
    response = client.get(CALLBACK, {"error": "access_denied", "state": asked["state"][0]}, follow=True)
    assert "The sign-in was cancelled" in visible_text(response)


def test_link_without_confirmation_signs_nobody_out(client: Client, identity_provider: Provider) -> None:
    """Otherwise another site could sign users in to its own account."""
    assert "Sign in with Shop account" in visible_text(client.get(LOGIN))
    strict = Client(enforce_csrf_checks=True)
    assert strict.post(LOGIN).status_code == 403


def test_single_sign_on_user_may_set_a_password(client: Client, identity_provider: Provider) -> None:
    finish_sign_in(client, start_sign_in(client), identity_provider)
    assert "No password. You sign in with single sign-on." in visible_text(client.get("/accounts/"))
    form = {"password1": "a phrase of my own", "password2": "a phrase of my own"}
    assert client.post("/accounts/password/set/", form).status_code == 302
    assert User.objects.get().check_password("a phrase of my own")


def test_user_without_a_password_can_add_a_factor(client: Client, identity_provider: Provider) -> None:
    finish_sign_in(client, start_sign_in(client), identity_provider)
    assert client.get("/accounts/app/").status_code == 200
    assert not Authenticator.objects.exists()


class TestEnvironment:
    def test_no_provider_by_default(self) -> None:
        assert shown("s.SOCIALACCOUNT_PROVIDERS") == "{'openid_connect': {'APPS': []}}"

    def test_provider_is_read_from_the_environment(self) -> None:
        environment = {
            "HARNESS_OIDC_URL": "https://id.example/realms/shop",
            "HARNESS_OIDC_CLIENT_ID": "harness",
            "HARNESS_OIDC_CLIENT_SECRET": "s",
            "HARNESS_OIDC_NAME": "Shop",
        }
        app = "s.SOCIALACCOUNT_PROVIDERS['openid_connect']['APPS'][0]"
        expression = f"[{app}[name] for name in ('provider_id', 'name', 'client_id', 'secret')]"
        assert shown(expression, **environment) == "['sso', 'Shop', 'harness', 's']"
        targets = "s.SITE_CONTENT_SECURITY_POLICY['form-action']"
        assert shown(targets, **environment) == "[\"'self'\", 'https://id.example']"

    def test_provider_without_a_client_id_is_refused(self) -> None:
        said_ = refused(HARNESS_OIDC_URL="https://id.example")
        assert said_.endswith("HARNESS_OIDC_URL is set: set HARNESS_OIDC_CLIENT_ID as well.")
