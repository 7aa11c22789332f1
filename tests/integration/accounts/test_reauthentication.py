"""Changes of security settings require a recent sign-in or a reauthentication."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from harness_site.accounts import reauthentication
from harness_site.accounts.models import ApiToken, Invitation, MaskingSettings, Membership
from harness_site.notifications.models import Webhook
from tests.integration.notifications.conftest import make_webhook
from tests.support.client_login import sign_in
from tests.support.factories import PASSWORD
from tests.support.page_text import visible_text

LONG: timedelta = timedelta(minutes=16)

pytestmark = pytest.mark.django_db


@pytest.fixture
def stale_client(bob: User) -> Client:
    """Client of bob, a quarter of an hour after the sign-in."""
    return sign_in(Client(), bob, ago=LONG)


def state() -> list[Any]:
    models = (ApiToken, Invitation, MaskingSettings, Membership, Webhook)
    return [list(model._default_manager.order_by("pk").values()) for model in models]


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/settings/members/{member}/role/", {"role": "admin"}),
        ("/settings/members/{member}/remove/", {}),
        ("/settings/members/{member}/reset-factors/", {}),
        ("/settings/invitations/", {"role": "admin"}),
        ("/settings/tokens/create/", {"name": "ci", "role": "agent", "days": ""}),
        ("/settings/masking/", {"reveal_role": "auditor"}),
        (
            "/settings/notifications/create/",
            {"name": "n", "address": "https://x.example/", "format": "json", "events": "reminder"},
        ),
        (
            "/settings/notifications/{webhook}/edit/",
            {"name": "n", "address": "https://x.example/", "format": "json", "events": "reminder"},
        ),
        ("/settings/notifications/{webhook}/delete/", {}),
    ],
)
def test_nothing_is_changed_before_the_reauthentication(
    stale_client: Client, alice: User, path: str, sent: dict[str, str]
) -> None:
    place = path.format(member=alice.memberships.get().pk, webhook=make_webhook().pk)
    before = state()
    response = stale_client.post(place, sent)
    assert response.headers["Location"].startswith("/accounts/again/?next=")
    assert state() == before
    assert stale_client.post("/accounts/again/", {"password": "wrong"}).status_code == 200
    assert state() == before


@pytest.mark.parametrize(
    ("path", "sent", "complaint"),
    [
        ("/settings/invitations/", {"role": ""}, "Choose a role."),
        ("/settings/tokens/create/", {"name": "", "role": "agent", "days": ""}, "Enter a name."),
        ("/settings/tokens/create/", {"name": "taken", "role": "agent", "days": ""}, "A token named “taken” already"),
        ("/settings/masking/", {"reveal_role": "auditor", "words": "***"}, "needs at least four letters"),
        (
            "/settings/notifications/create/",
            {"name": "n", "address": "ftp://x", "format": "json", "events": "reminder"},
            "The address has to begin with https://",
        ),
    ],
)
def test_invalid_form_is_refused_before_the_password(
    stale_client: Client, path: str, sent: dict[str, str], complaint: str
) -> None:
    ApiToken.objects.create(workspace=Membership.objects.get().workspace, name="taken", role="agent", digest="d")
    before = state()
    response = stale_client.post(path, sent)
    assert response.status_code == 422
    assert complaint in visible_text(response)
    assert state() == before


def test_form_that_became_invalid_before_the_password_is_refused_after_it(stale_client: Client) -> None:
    asked = stale_client.post("/settings/tokens/create/", {"name": "ci", "role": "agent", "days": ""}).headers[
        "Location"
    ]
    ApiToken.objects.create(workspace=Membership.objects.get().workspace, name="ci", role="agent", digest="d")
    response = stale_client.post(asked, {"password": PASSWORD, "next": "/settings/tokens/create/"})
    assert response.status_code == 422
    assert "A token named “ci” already exists." in visible_text(response)
    # The password counts, so that the corrected form is not interrupted again.
    stale_client.post("/settings/tokens/create/", {"name": "ci-2", "role": "agent", "days": ""})
    assert ApiToken.objects.filter(name="ci-2").exists()


def test_submitted_form_is_continued_after_the_password(stale_client: Client, alice: User) -> None:
    member = alice.memberships.get()
    asked = stale_client.post(f"/settings/members/{member.pk}/role/", {"role": "admin"}).headers["Location"]
    page = stale_client.get(asked)
    assert "You are about to change the role of a member. You can then work for 15 minutes" in visible_text(page)
    # The address of the form leads to the page that has it.
    assert f'href="/settings/members/{member.pk}/role/">Cancel' in page.content.decode()
    assert stale_client.get(f"/settings/members/{member.pk}/role/").headers["Location"] == "/settings/members/"
    assert (
        stale_client.post(asked, {"password": PASSWORD, "next": f"/settings/members/{member.pk}/role/"}).status_code
        == 302
    )
    assert alice.memberships.get().role == "admin"
    stale_client.post(f"/settings/members/{member.pk}/role/", {"role": "auditor"})
    assert alice.memberships.get().role == "auditor"


def test_reason_is_stated_and_cancelling_returns_to_the_page_before(stale_client: Client) -> None:
    before = "/sessions/?q=lamp&status=failed"
    asked = stale_client.post("/accounts/secrets/", {"next": before}).headers["Location"]
    page = stale_client.get(asked)
    assert (
        "You are about to show secrets for ten minutes. This is recorded in the audit trail. You are asked each "
        in (visible_text(page))
    )
    assert 'href="/sessions/?q=lamp&amp;status=failed">Cancel' in page.content.decode()
    wrong = stale_client.post(asked, {"password": "wrong", "next": "/accounts/secrets/"})
    assert 'href="/sessions/?q=lamp&amp;status=failed">Cancel' in wrong.content.decode()
    # The page of another tab has the reason of its own address.
    other = stale_client.get("/accounts/again/?next=/accounts/app/")
    assert "You are about to set up an authenticator app." in visible_text(other)
    assert 'href="/accounts/">Cancel' in other.content.decode()
    for unknown in ("", "?next=/nowhere/", "?next=https://elsewhere.example/accounts/app/"):
        page = stale_client.get(f"/accounts/again/{unknown}")
        assert "changes how an account or this workspace is protected" in visible_text(page)
        assert 'href="/accounts/">Cancel' in page.content.decode()


@pytest.mark.parametrize("place", ["https://elsewhere.example/", "//elsewhere.example/", "javascript:alert(1)"])
def test_cancelling_never_leaves_the_site(stale_client: Client, place: str) -> None:
    asked = stale_client.post("/accounts/secrets/", {"next": place}).headers["Location"]
    page = stale_client.get(asked).content.decode()
    assert "elsewhere" not in page
    assert "javascript:" not in page
    assert 'href="/">Cancel' in page


def test_every_view_with_a_reason_exists() -> None:
    for name in reauthentication._INTENTIONS:
        has_pk = name.startswith(("harness_settings:member-", "mfa_edit", "mfa_remove")) or name.endswith(
            ("-replace", "-delete", "webhook-edit")
        )
        assert reverse(name, args=[1] if has_pk else [])


def test_new_token_is_shown_after_the_password(stale_client: Client) -> None:
    asked = stale_client.post("/settings/tokens/create/", {"name": "ci", "role": "agent", "days": ""}).headers[
        "Location"
    ]
    response = stale_client.post(asked, {"password": PASSWORD, "next": "/settings/tokens/create/"}, follow=True)
    assert "This token is shown only now." in visible_text(response)


def test_submitted_form_is_stored_encrypted(stale_client: Client) -> None:
    private = "https://hooks.example/very-private"
    sent = {"name": "pager", "address": private, "format": "json", "events": "reminder"}
    asked = stale_client.post("/settings/notifications/create/", sent).headers["Location"]
    assert "very-private" not in str(dict(stale_client.session))
    response = stale_client.post(asked, {"password": PASSWORD, "next": "/settings/notifications/create/"}, follow=True)
    assert "This secret is shown only now." in visible_text(response)
    assert Webhook.objects.get().host == "hooks.example"


def test_reauthentication_for_another_action_submits_nothing(stale_client: Client) -> None:
    stale_client.post("/settings/tokens/create/", {"name": "ci", "role": "agent", "days": ""})
    response = stale_client.post("/accounts/again/", {"password": PASSWORD, "next": "/settings/masking/"})
    assert response.headers["Location"] == "/settings/masking/"
    assert not ApiToken.objects.exists()


def test_recent_sign_in_needs_no_reauthentication(bob: User) -> None:
    client = Client()
    client.post("/accounts/login/", {"username": "bob", "password": PASSWORD})
    response = client.post("/settings/tokens/create/", {"name": "ci", "role": "agent", "days": ""}, follow=True)
    assert "This token is shown only now." in visible_text(response)


def test_reading_and_removing_rights_need_no_reauthentication(stale_client: Client) -> None:
    for page in ("members", "tokens", "masking", "notifications"):
        assert stale_client.get(f"/settings/{page}/").status_code == 200
    token = ApiToken.objects.create(workspace=Membership.objects.get().workspace, name="ci", role="agent", digest="d")
    stale_client.post(f"/settings/tokens/{token.pk}/revoke/")
    assert ApiToken.objects.get().status == "revoked"


def test_missing_permission_is_refused_without_reauthentication(alice: User) -> None:
    client = sign_in(Client(), alice, ago=LONG)
    assert client.post("/settings/tokens/create/").status_code == 403
