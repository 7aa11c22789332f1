import re

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError
from django.test import Client

from checkpoints.enums import Role
from harness_site.accounts.models import Membership
from harness_site.accounts.permissions import find_membership_in_workspace_or_oldest
from tests.support.factories import PASSWORD, make_user, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    user = make_user(name="alice")
    user.set_password(PASSWORD)
    user.save()
    return user


def test_sign_in_redirects_to_the_requested_page(client: Client, alice: User) -> None:
    response = client.post("/accounts/login/?next=/review/", {"username": "alice", "password": PASSWORD})
    assert (response.status_code, response.headers["Location"]) == (302, "/review/")


def test_sign_in_never_leaves_the_site(client: Client, alice: User) -> None:
    form = {"username": "alice", "password": PASSWORD, "next": "https://elsewhere.example/"}
    assert client.post("/accounts/login/", form).headers["Location"] == "/"


def test_wrong_password_is_reported_and_the_name_kept(client: Client, alice: User) -> None:
    response = client.post("/accounts/login/", {"username": "alice", "password": "guess"})
    assert response.status_code == 200
    assert "Wrong name or password. Both are case-sensitive." in visible_text(response)
    assert 'value="alice"' in response.content.decode()


def test_sign_in_without_a_password_names_the_field(client: Client, alice: User) -> None:
    assert "Enter the password." in visible_text(client.post("/accounts/login/", {"username": "alice"}))


def test_sign_out_ends_the_session(client: Client, alice: User) -> None:
    client.force_login(alice)
    assert "You are signed out." not in visible_text(client.get("/accounts/login/", follow=True))
    response = client.post("/accounts/logout/", follow=True)
    assert response.redirect_chain == [("/accounts/login/?signed-out", 302)]
    assert "You are signed out." in visible_text(response)
    assert "You are signed out." not in visible_text(client.post("/accounts/login/", {"username": "alice"}))
    assert client.get("/review/").status_code == 302


def test_cross_site_form_is_refused(alice: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    response = client.post("/accounts/logout/")
    assert response.status_code == 403
    assert "Nothing was recorded. Your text is still on the previous page." in visible_text(response)


def test_form_of_a_signed_out_reader_leads_to_the_sign_in(alice: User) -> None:
    client = Client(enforce_csrf_checks=True)
    response = client.post("/audit/verify/")
    assert response.status_code == 403
    assert "You are signed out, so the form was not accepted" in visible_text(response)
    assert 'class="btn primary" href="/accounts/login/"' in response.content.decode()
    assert "because its page is out of date" in visible_text(client.post("/accounts/login/"))


def test_automatic_request_adds_no_message(alice: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    response = client.post("/review/calls/1/present/", headers={"HX-Request": "true"})
    assert (response.status_code, response.content) == (403, b"")
    assert (response["HX-Reswap"], response["HX-Trigger"]) == ("none", "live:any")


def test_fragment_keeps_its_form_when_the_csrf_token_is_old(alice: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    response = client.post("/review/calls/1/", headers={"HX-Request": "true"})
    assert response.status_code == 403
    assert visible_text(response) == (
        "Not sent: your sign-in has changed since this page was loaded. Nothing was recorded, and your text is "
        "still here. Press the button again."
    )
    assert response.headers["HX-Retarget"] == "#refusal"
    assert response.headers["HX-Trigger"] == "live:any"


def test_signed_out_fragment_without_a_csrf_token_says_only_that_its_reader_is_signed_out() -> None:
    response = Client(enforce_csrf_checks=True).post("/review/calls/1/", headers={"HX-Request": "true"})
    assert (response.status_code, response.content) == (401, b"You are signed out.")
    assert "HX-Retarget" not in response.headers


def test_fetched_csrf_token_is_accepted(alice: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    found = re.search(r'data-token="(\w{64})"', client.get("/review/count/").content.decode())
    assert found
    assert client.post("/accounts/logout/", {"csrfmiddlewaretoken": found[1]}).status_code == 302


@pytest.mark.parametrize(
    ("role", "covered"),
    [
        (Role.AUDITOR, [True, False, False]),
        (Role.APPROVER, [True, True, False]),
        (Role.ADMIN, [True, True, True]),
    ],
)
def test_each_role_includes_the_lower_ones(role: Role, covered: list[bool]) -> None:
    assert [Membership(role=role).has_role(other) for other in Role] == covered


def test_one_membership_per_workspace() -> None:
    user = make_user(role=Role.AUDITOR)
    with pytest.raises(IntegrityError):
        Membership.objects.create(user=user, workspace=make_workspace(), role=Role.ADMIN)


def test_oldest_membership_is_the_default() -> None:
    user = make_user(role=Role.AUDITOR)
    Membership.objects.create(user=user, workspace=make_workspace(slug="second"), role=Role.ADMIN)
    found = find_membership_in_workspace_or_oldest(user)
    assert found is not None
    assert (found.workspace.slug, found.role) == ("default", "auditor")
