"""Pages that were rendered for another user, another workspace or another role."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from checkpoints.enums import Role
from checkpoints.models import AuditEvent, Decision
from harness_site.accounts.htmx_refusal_response import HEADER
from harness_site.accounts.models import ApiToken, Membership
from harness_site.accounts.permissions import WORKSPACE_KEY
from harness_site.accounts.refuse_page_of_other_reader import FIELD, format_reader_key
from tests.support.factories import make_call, make_session, make_user, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def sign_in_as_another(client: Client, bob: User) -> str:
    client.force_login(make_user(name="ana"))
    return "You are now signed in as ana."


def sign_in_as_no_member(client: Client, bob: User) -> str:
    client.force_login(make_user(name="mallory", role=None))
    return "You are now signed in as mallory."


def switch_workspace(client: Client, bob: User) -> str:
    workspace = make_workspace(slug="billing")
    Membership.objects.create(user=bob, workspace=workspace, role=Role.ADMIN)
    session = client.session
    session[WORKSPACE_KEY] = workspace.pk
    session.save()
    return f"You are now in the workspace {workspace.name}."


def lose_role(client: Client, bob: User) -> str:
    Membership.objects.filter(user=bob).update(role=Role.AUDITOR)
    return "You now have another role: Auditor."


CHANGES = [sign_in_as_another, sign_in_as_no_member, switch_workspace, lose_role]


@pytest.mark.parametrize("change_reader", CHANGES)
def test_request_of_a_page_for_another_reader_is_refused(
    client: Client, bob: User, change_reader: Callable[[Client, User], str]
) -> None:
    client.force_login(bob)
    key = format_reader_key(Membership.objects.get(user=bob))
    assert f'data-reader="{key}"' in client.get("/review/").text
    headers = {"HX-Request": "true", HEADER: key}
    call = make_call(session=make_session())
    decision = {"kind": "mark_failed", "reason": "No.", "revision": call.revision}
    assert client.get("/review/count/", headers=headers).status_code == 200
    sentence = change_reader(client, bob)
    events = AuditEvent.objects.count()
    for response in (
        client.get("/review/count/", headers=headers),
        client.post(f"/review/calls/{call.pk}/", decision, headers=headers),
    ):
        assert (response.status_code, response.text) == (412, sentence)
    page = client.post("/settings/tokens/create/", {"name": "ci", "role": "auditor", FIELD: key})
    assert page.status_code == 412
    assert sentence in visible_text(page)
    assert "Nothing was recorded." in visible_text(page)
    recorded = (Decision.objects.count(), ApiToken.objects.count(), AuditEvent.objects.count())
    assert recorded == (0, 0, events)


def test_new_sign_in_of_the_same_reader_is_no_other_reader(client: Client, bob: User) -> None:
    client.force_login(bob)
    key = format_reader_key(Membership.objects.get(user=bob))
    client.logout()
    headers = {"HX-Request": "true", HEADER: key}
    assert client.get("/review/count/", headers=headers).status_code == 401
    client.force_login(bob)
    assert client.get("/review/count/", headers=headers).status_code == 200


def test_reader_who_is_no_member_any_more_is_not_taken_for_somebody_else(client: Client, bob: User) -> None:
    client.force_login(bob)
    headers = {"HX-Request": "true", HEADER: format_reader_key(Membership.objects.get(user=bob))}
    Membership.objects.filter(user=bob).delete()
    refusal = client.get("/review/count/", headers=headers)
    assert refusal.status_code == 403
    assert "signed in as" not in refusal.text


def test_form_with_the_token_of_the_previous_user_is_refused_with_the_name_of_the_new_one(bob: User) -> None:
    client = Client(enforce_csrf_checks=True)
    key = format_reader_key(Membership.objects.get(user=bob))
    client.force_login(make_user(name="ana", role=Role.ADMIN))
    form = {"name": "ci", "role": "auditor", "csrfmiddlewaretoken": "a" * 64}
    assert client.post("/settings/tokens/create/", form).status_code == 403
    refusal = client.post("/settings/tokens/create/", form, headers={"HX-Request": "true", HEADER: key})
    assert (refusal.status_code, refusal.text) == (412, "You are now signed in as ana.")
