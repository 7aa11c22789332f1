"""From an empty database to an admin: a superuser, a printed link, and links that sign in once."""

from datetime import timedelta
from io import StringIO
from unittest.mock import patch

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from checkpoints.enums import Role
from harness_site.accounts import first_admin, sign_in_links
from harness_site.accounts.models import Membership
from tests.support.audit_entries import list_entries
from tests.support.factories import PASSWORD, make_session, make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db
FORM = {"username": "ada", "email": "ada@example.com", "password": "a phrase of my own"}


def printed_path(*command: str) -> str:
    """Return the path of the link that a management command prints."""
    output = StringIO()
    call_command(*command, stdout=output, stderr=StringIO())
    return "/" + output.getvalue().strip().split("/", 3)[3]


def sign_in_with_password(client: Client, user: User) -> str:
    return client.post("/accounts/login/", {"username": user.username, "password": PASSWORD}).headers["Location"]


def test_first_superuser_becomes_admin_and_sees_the_first_steps(client: Client) -> None:
    root = User.objects.create_superuser("root", "root@example.com", PASSWORD)
    assert sign_in_with_password(client, root) == "/"
    assert client.get("/").headers["Location"] == "/settings/first-steps/"
    assert Membership.objects.get(user=root).role == Role.ADMIN
    assert [kind for kind, _, _ in list_entries()] == ["member_added", "signed_in"]
    make_session()
    assert client.get("/").headers["Location"] == "/review/"


def test_other_users_do_not_become_admin_by_signing_in(client: Client) -> None:
    plain = make_user(name="plain", role=None)
    second = User.objects.create_superuser("second", "", PASSWORD)
    plain.set_password(PASSWORD)
    plain.save()
    sign_in_with_password(client, plain)
    assert not Membership.objects.exists()
    make_user(name="bob", role=Role.ADMIN)
    sign_in_with_password(Client(), second)
    assert Membership.objects.filter(role=Role.ADMIN).count() == 1


def test_printed_link_creates_the_first_account_once(client: Client) -> None:
    assert "No account exists yet." in visible_text(client.get("/accounts/login/"))
    path = printed_path("setup_link")
    assert "Enter the password." in visible_text(client.post(path, FORM | {"password": ""}))
    assert client.post(path, FORM).headers["Location"] == "/"
    assert client.get("/").headers["Location"] == "/settings/first-steps/"
    ada = User.objects.get()
    assert (ada.email, ada.memberships.get().role) == ("ada@example.com", Role.ADMIN)
    other = Client()
    again = other.post(path, FORM | {"username": "eve"})
    assert (again.status_code, "The first account exists already." in visible_text(again)) == (404, True)
    assert User.objects.count() == 1
    with pytest.raises(CommandError, match="This installation has accounts"):
        call_command("setup_link")


def test_expired_or_invalid_link_explains_how_to_get_a_new_one(client: Client) -> None:
    path = printed_path("setup_link")
    with patch.object(first_admin, "LIFETIME", timedelta(seconds=-1)):
        expired = client.post(path, FORM)
    for response in (expired, client.get("/accounts/first/none/")):
        assert response.status_code == 404
        assert "python manage.py setup_link" in visible_text(response)
    assert not User.objects.exists()


def test_sign_in_link_works_once(client: Client) -> None:
    alice = make_user(name="alice")
    path = printed_path("sign_in_link", "alice")
    assert client.get(path).headers["Location"] == "/"
    assert client.get("/review/").status_code == 200
    assert [(kind, details["methods"]) for kind, _, details in list_entries()] == [("signed_in", "sign-in link")]
    refused = Client().get(path)
    assert (refused.status_code, "Each link works once." in visible_text(refused)) == (404, True)
    fresh = printed_path("sign_in_link", "alice")
    alice.refresh_from_db()
    alice.set_password("another phrase")
    alice.save()
    assert Client().get(fresh).status_code == 404, "a link from before a change of the password"
    fresh = printed_path("sign_in_link", "alice")
    with patch.object(sign_in_links, "LIFETIME", timedelta(seconds=-1)):
        assert Client().get(fresh).status_code == 404, "an expired link"
    User.objects.update(is_active=False)
    assert Client().get(fresh).status_code == 404, "a link of a deactivated account"
    for name, reason in (("alice", "is deactivated"), ("nobody", "There is no account")):
        with pytest.raises(CommandError, match=reason):
            call_command("sign_in_link", name)
