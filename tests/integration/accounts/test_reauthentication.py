"""Who signed in a while ago shows once more who they are, before anything that changes how a workspace is protected."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from harness_site.accounts.models import ApiToken, Invitation, MaskingSettings, Membership
from harness_site.notifications.models import Webhook
from tests.integration.notifications.conftest import make_webhook
from tests.support.client_login import sign_in
from tests.support.factories import PASSWORD
from tests.support.page_text import visible_text

LONG: timedelta = timedelta(minutes=16)

pytestmark = pytest.mark.django_db


@pytest.fixture
def tired(bob: User) -> Client:
    """Bob's browser, a quarter of an hour after he signed in."""
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
        ("/settings/notifications/{webhook}/delete/", {}),
    ],
)
def test_nothing_is_changed_before(tired: Client, alice: User, path: str, sent: dict[str, str]) -> None:
    place = path.format(member=alice.memberships.get().pk, webhook=make_webhook().pk)
    before = state()
    response = tired.post(place, sent)
    assert response.headers["Location"].startswith("/accounts/again/?next=")
    assert state() == before
    assert tired.post("/accounts/again/", {"password": "wrong"}).status_code == 200
    assert state() == before


def test_what_was_sent_goes_on_after_the_password(tired: Client, alice: User) -> None:
    member = alice.memberships.get()
    asked = tired.post(f"/settings/members/{member.pk}/role/", {"role": "admin"}).headers["Location"]
    assert "changes how an account or this workspace is protected" in visible_text(tired.get(asked))
    assert tired.post(asked, {"password": PASSWORD, "next": f"/settings/members/{member.pk}/role/"}).status_code == 302
    assert alice.memberships.get().role == "admin"
    tired.post(f"/settings/members/{member.pk}/role/", {"role": "auditor"})
    assert alice.memberships.get().role == "auditor"


def test_a_new_token_is_shown_after_the_password(tired: Client) -> None:
    asked = tired.post("/settings/tokens/create/", {"name": "ci", "role": "agent", "days": ""}).headers["Location"]
    response = tired.post(asked, {"password": PASSWORD, "next": "/settings/tokens/create/"})
    assert "This token is shown only now." in visible_text(response)


def test_what_was_sent_waits_sealed(tired: Client) -> None:
    private = "https://hooks.example/very-private"
    sent = {"name": "pager", "address": private, "format": "json", "events": "reminder"}
    asked = tired.post("/settings/notifications/create/", sent).headers["Location"]
    assert "very-private" not in str(dict(tired.session))
    response = tired.post(asked, {"password": PASSWORD, "next": "/settings/notifications/create/"})
    assert "This secret is shown only now." in visible_text(response)
    assert Webhook.objects.get().host == "hooks.example"


def test_a_proof_for_something_else_sends_nothing(tired: Client) -> None:
    tired.post("/settings/tokens/create/", {"name": "ci", "role": "agent", "days": ""})
    response = tired.post("/accounts/again/", {"password": PASSWORD, "next": "/settings/masking/"})
    assert response.headers["Location"] == "/settings/masking/"
    assert not ApiToken.objects.exists()


def test_who_has_just_signed_in_is_not_asked(bob: User) -> None:
    client = Client()
    client.post("/accounts/login/", {"username": "bob", "password": PASSWORD})
    response = client.post("/settings/tokens/create/", {"name": "ci", "role": "agent", "days": ""})
    assert "This token is shown only now." in visible_text(response)


def test_nobody_is_asked_for_reading_or_for_taking_rights_away(tired: Client) -> None:
    for page in ("members", "tokens", "masking", "notifications"):
        assert tired.get(f"/settings/{page}/").status_code == 200
    token = ApiToken.objects.create(workspace=Membership.objects.get().workspace, name="ci", role="agent", digest="d")
    tired.post(f"/settings/tokens/{token.pk}/revoke/")
    assert ApiToken.objects.get().status == "revoked"


def test_who_may_not_is_refused_without_being_asked(alice: User) -> None:
    client = sign_in(Client(), alice, ago=LONG)
    assert client.post("/settings/tokens/create/").status_code == 403
