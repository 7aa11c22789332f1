"""Access to the site's own pages for every role."""

import pytest
from django.test import Client

from checkpoints.enums import CallStatus, Role
from tests.support.factories import make_call, make_run, make_session, make_user, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

#: Address → method, and the status for: nobody, a stranger, an auditor, an approver, an admin. The table of all
#: URLs (tests/support/url_table) has the others.
TABLE = [
    ("/review/?tab=decided", "get", (302, 403, 200, 200, 200)),
    ("/review/?tab=awaiting", "get", (302, 403, 200, 200, 200)),
    ("/review/calls/{waiting}/", "get", (302, 403, 200, 200, 200)),
    ("/review/calls/{waiting}/", "post", (302, 403, 403, 422, 422)),
    ("/review/calls/{waiting}/change/", "post", (302, 403, 403, 200, 200)),
    ("/review/calls/999999999999999999999999/", "get", (302, 403, 404, 404, 404)),
    ("/review/calls/{call}/", "put", (302, 405, 405, 405, 405)),
]
ROLES = [None, "stranger", Role.AUDITOR, Role.APPROVER, Role.ADMIN]


@pytest.fixture
def calls() -> dict[str, int]:
    session = make_session()
    make_run(session=session)
    call = make_call(session=session, verifiable=True)
    waiting = make_call(session=call.session, run=call.run, call_id="call_10", status=CallStatus.AWAITING_APPROVAL)
    return {"call": call.pk, "waiting": waiting.pk}


@pytest.mark.parametrize(("place", "method", "statuses"), TABLE)
@pytest.mark.parametrize("position", range(len(ROLES)), ids=["anonymous", "stranger", "auditor", "approver", "admin"])
def test_access(
    client: Client, calls: dict[str, int], place: str, method: str, statuses: tuple[int, ...], position: int
) -> None:
    if position:
        role = ROLES[position]
        client.force_login(make_user(name="carol", role=None if role == "stranger" else Role(str(role))))
    response = getattr(client, method)(place.format(**calls))
    assert response.status_code == statuses[position]


def test_anonymous_is_redirected_to_sign_in_and_back(client: Client) -> None:
    response = client.get("/review/calls/7/?x=1")
    assert response.headers["Location"] == "/accounts/login/?next=/review/calls/7/%3Fx%3D1"


def test_form_of_a_signed_out_reader_is_reported_as_not_saved(client: Client) -> None:
    response = client.post("/accounts/display/", {"language": "de"}, follow=True)
    assert response.redirect_chain == [("/accounts/login/?next=/accounts/display/&not-saved", 302)]
    assert "Your change was not saved, because you were signed out." in visible_text(response)
    assert "was not saved" not in visible_text(client.get("/accounts/display/", follow=True))


def test_anonymous_fragment_request_gets_no_form(client: Client) -> None:
    response = client.get("/review/count/", headers={"HX-Request": "true"})
    assert (response.status_code, response.content) == (401, b"You are signed out.")


def test_home_of_an_approver_is_the_queue(client: Client) -> None:
    client.force_login(make_user(role=Role.APPROVER))
    assert client.get("/").headers["Location"] == "/review/"


def test_home_of_an_auditor_is_the_session_list(client: Client) -> None:
    client.force_login(make_user(role=Role.AUDITOR))
    assert client.get("/").headers["Location"] == "/sessions/"


def test_user_without_membership_is_shown_the_admins(client: Client) -> None:
    client.force_login(make_user(name="charlie", role=None))
    page = visible_text(client.get("/review/"))
    assert "You are signed in, but not a member of any workspace" in page
    assert "Ask an admin for an invitation, and open its link as charlie." in page


def test_auditor_is_told_who_has_permission(client: Client, calls: dict[str, int]) -> None:
    make_user(name="alice", role=Role.APPROVER)
    make_user(name="bob", role=Role.ADMIN)
    make_user(name="mallory", role=Role.ADMIN, workspace=make_workspace(slug="elsewhere"))
    client.force_login(make_user(name="charlie", role=Role.AUDITOR))
    page = visible_text(client.post(f"/review/calls/{calls['call']}/verify/"))
    assert "Your role (auditor) does not permit this" in page
    assert "This needs the role approver. These members can: alice, bob." in page


def test_inactive_member_is_signed_out(client: Client) -> None:
    user = make_user()
    client.force_login(user)
    user.is_active = False
    user.save()
    assert client.get("/review/").status_code == 302
