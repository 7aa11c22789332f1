"""Creating and accepting invitations."""

import re
from datetime import timedelta
from email.message import EmailMessage

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from checkpoints.db import clock
from checkpoints.enums import Role
from harness_site.accounts import invitation_mail
from harness_site.accounts.models import Invitation, Membership
from harness_site.mail_settings import MailServer, Security
from tests.support.audit_entries import list_entries
from tests.support.factories import PASSWORD, make_user, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def invited(admin: Client, role: str = "approver") -> str:
    """Create an invitation; return the path of its link."""
    page = admin.post("/settings/invitations/", {"role": role, "note": "the night shift"}, follow=True)
    found = re.search(r"<code>http://testserver(/accounts/invitations/invite_[\w-]{43}/)</code>", page.content.decode())
    assert found
    return found[1]


def test_invitation_link_is_shown_once_and_not_stored(admin: Client) -> None:
    """The form redirects: reloading the page that shows the link neither shows it again nor creates another one."""
    form = {"role": "auditor", "note": "the night shift"}
    assert admin.post("/settings/invitations/", form).headers["Location"] == "/settings/members/"
    assert "invite_" not in str(dict(admin.session))
    page = admin.get("/settings/members/")
    assert "Invitation link “the night shift”" in visible_text(page)
    found = re.search(r"/accounts/invitations/(invite_[\w-]{43})/", page.content.decode())
    assert found
    secret = found[1]
    assert secret not in admin.get("/settings/members/").content.decode()
    assert secret not in str(list(Invitation.objects.values_list()))
    assert "the night shift" in visible_text(admin.get("/settings/members/"))


def test_new_user_creates_an_account_and_joins(admin: Client, client: Client) -> None:
    path = invited(admin)
    assert "Join Harness" in visible_text(client.get(path)), "there is one workspace, whose name says nothing"
    assert (
        "bob invites you as approver. You can read everything and decide the calls that agents wait for."
        in visible_text(client.get(path))
    )
    response = client.post(path, {"username": "dave", "password": "a phrase of my own"})
    assert (response.status_code, response.headers["Location"]) == (302, "/")
    assert client.get("/sessions/").status_code == 200
    assert Membership.objects.get(user__username="dave").role == Role.APPROVER
    pk = Invitation.objects.get().pk
    assert list_entries() == [
        ("invited", "bob", {"invitation": pk, "role": "approver"}),
        ("member_added", "dave", {"before": None, "invitation": pk, "role": "approver"}),
        ("signed_in", "dave", {"methods": "password"}),
    ]


def test_signed_in_user_joins_with_the_existing_account(admin: Client, client: Client) -> None:
    identity_provider = make_workspace(slug="elsewhere")
    client.force_login(make_user(name="eve", role=Role.ADMIN, workspace=identity_provider))
    path = invited(admin, "auditor")
    assert "Join “Default”" in visible_text(client.get(path))
    assert "You join as eve." in visible_text(client.get(path))
    assert client.post(path).status_code == 302
    assert "Auditor in the workspace “Default”" in visible_text(client.get("/accounts/"))


def test_invitation_with_a_lower_role_does_not_reduce_the_role(admin: Client, client: Client, alice: User) -> None:
    client.force_login(alice)
    client.post(invited(admin, "auditor"))
    assert Membership.objects.get(user=alice).role == Role.APPROVER


def test_link_works_once(admin: Client, client: Client) -> None:
    path = invited(admin)
    client.post(path, {"username": "dave", "password": "a phrase of my own"})
    other = Client()
    response = other.get(path)
    assert response.status_code == 404
    assert "This invitation has been used. If you used it, sign in with your account." in visible_text(response)
    assert "You are signed in as dave." in visible_text(client.get(path))
    assert other.post(path, {"username": "eve", "password": "a phrase of my own"}).status_code == 404
    assert not User.objects.filter(username="eve").exists()


def test_revoked_link_does_not_work(admin: Client, client: Client) -> None:
    path = invited(admin)
    pk = Invitation.objects.get().pk
    assert admin.post(f"/settings/invitations/{pk}/revoke/").headers["Location"] == "/settings/members/"
    response = client.post(path, {"username": "dave", "password": "a phrase of my own"})
    assert response.status_code == 404
    assert "This invitation was revoked." in visible_text(response)
    assert not User.objects.filter(username="dave").exists()


def test_new_link_replaces_the_previous_one(admin: Client, client: Client) -> None:
    first = invited(admin)
    place = f"/settings/invitations/{Invitation.objects.get().pk}/replace/"
    page = admin.post(place, follow=True)
    found = re.search(r"<code>http://testserver(/accounts/invitations/[^<]+)</code>", page.content.decode())
    assert found
    assert "This invitation was revoked." in visible_text(client.get(first))
    assert "bob invites you as approver." in visible_text(client.get(found[1]))
    replaced = admin.post(place)
    assert replaced.status_code == 409
    assert "This invitation was revoked. Ask for a new one." in visible_text(replaced)
    assert [invitation.note for invitation in Invitation.objects.filter(revoked_at=None)] == ["the night shift"]


def test_expired_link_does_not_work(admin: Client, client: Client) -> None:
    path = invited(admin)
    Invitation.objects.update(expires_at=clock.now() - timedelta(seconds=1))
    assert "This invitation has expired." in visible_text(client.get(path))
    assert "the night shift" not in visible_text(admin.get("/settings/members/"))


def test_invitation_revoked_while_the_form_is_open_creates_no_account(admin: Client, client: Client) -> None:
    """The state of the row at the submission decides."""
    from harness_site.accounts import member_and_invitation_services

    path = invited(admin)
    stale = member_and_invitation_services.find_open_or_closed_invitation_by_secret(path.split("/")[3])
    assert stale is not None
    Invitation.objects.update(revoked_at=clock.now())
    request = client.get("/accounts/login/").wsgi_request
    with pytest.raises(member_and_invitation_services.InvitationClosed, match="was revoked"):
        member_and_invitation_services.accept_invitation(stale, make_user(name="dave", role=None), request=request)
    assert not Membership.objects.filter(user__username="dave").exists()


def test_invalid_link_reveals_nothing(client: Client) -> None:
    response = client.get("/accounts/invitations/invite_made-up/")
    assert response.status_code == 404
    assert "There is no invitation at this address." in visible_text(response)


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        ({"username": "ALICE", "password": "a phrase of my own"}, "This name is taken. Choose another one."),
        ({"username": "dave", "password": "12345678"}, "This password is too common."),
        ({"username": "dave", "password": ""}, "Enter the password."),
        ({"username": "", "password": "a phrase of my own"}, "Enter a name."),
        ({"username": "da ve", "password": "a phrase of my own"}, "A name has letters, digits and the characters"),
    ],
)
def test_invalid_form_shows_its_errors(
    admin: Client, client: Client, alice: User, form: dict[str, str], complaint: str
) -> None:
    response = client.post(invited(admin), form)
    assert response.status_code == 422
    assert complaint in visible_text(response)
    assert Invitation.objects.get().is_open


def test_invitation_of_another_workspace_cannot_be_revoked(admin: Client) -> None:
    invited(admin)
    theirs = Invitation.objects.get()
    Invitation.objects.update(workspace=make_workspace(slug="elsewhere"))
    assert admin.post(f"/settings/invitations/{theirs.pk}/revoke/").status_code == 404
    theirs.refresh_from_db()
    assert theirs.revoked_at is None


def test_refused_invitation_keeps_the_chosen_role(admin: Client) -> None:
    page = admin.post("/settings/invitations/", {"note": "x" * 201, "role": "auditor"})
    assert page.status_code == 422
    assert '<option value="auditor" selected>' in page.content.decode()
    assert re.search(r'href="/settings/members/" aria-current="page"><span>', page.content.decode()), "in the main menu"


@pytest.mark.parametrize("form", [{"role": "owner"}, {"role": ""}, {}])
def test_invitation_without_a_valid_role_is_refused(admin: Client, form: dict[str, str]) -> None:
    assert admin.post("/settings/invitations/", form).status_code == 422
    assert not Invitation.objects.exists()


def test_sign_in_returns_to_the_invitation(admin: Client, client: Client, carol: User) -> None:
    path = invited(admin, "admin")
    found = re.search(r'href="(/accounts/login/\?next=[^"]+)"', client.get(path).content.decode())
    assert found
    response = client.post(found[1], {"username": "carol", "password": PASSWORD})
    assert response.headers["Location"] == path


class TestByMail:
    """The link is sent only to the address, so that whoever opens it owns the address."""

    @pytest.fixture(autouse=True)
    def mail_server(self, settings: Settings) -> None:
        settings.MAIL_SERVER = MailServer(Security.CONSOLE)
        settings.MAIL_FROM = "Harness <harness@example.com>"
        settings.SITE_ADDRESS, settings.SITE_ADDRESS_IS_GUESSED = "https://harness.example", False

    def test_link_is_sent_and_its_address_is_confirmed(
        self, admin: Client, client: Client, capsys: pytest.CaptureFixture[str]
    ) -> None:
        form = {"email": "dave@example.com", "role": "approver", "note": "the night shift"}
        admin.post("/settings/invitations/", form)
        capsys.readouterr()
        page = admin.post(f"/settings/invitations/{Invitation.objects.get().pk}/replace/", follow=True)
        assert "The invitation was sent to dave@example.com." in visible_text(page)
        assert "dave@example.com (the night shift)" in visible_text(page)
        printed = capsys.readouterr().err
        assert "E-mail to dave@example.com" in printed
        path = printed.split("https://harness.example")[1].strip()
        assert path not in page.content.decode()
        client.post(path, {"username": "dave", "password": "a phrase of my own"})
        assert User.objects.get(username="dave").email == "dave@example.com"
        assert "dave@example.com" in visible_text(admin.get("/settings/members/"))

    def test_message_has_a_button_and_says_until_when_the_link_works(
        self, admin: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sent: list[tuple[EmailMessage, str]] = []
        monkeypatch.setattr(invitation_mail, "send_email_through_server", lambda *message: sent.append(message))
        admin.cookies["harness_zone"] = "Europe/Berlin"
        admin.post("/settings/invitations/", {"email": "dave@example.com", "role": "approver"})
        ((email, link),) = sent
        text, page = (email.get_body((kind,)) for kind in ("plain", "html"))
        assert text is not None
        assert page is not None
        assert link in text.get_content().splitlines()
        assert page.get_content().count(f'href="{link}"') == 1
        until = r"This link works once, until \w{3} \d+ \w{3} \d{4}, \d\d:\d\d \(Europe/Berlin\)\."
        assert all(re.search(until, " ".join(part.get_content().split())) for part in (text, page))

    def test_link_is_shown_when_the_mail_server_refuses(
        self, admin: Client, client: Client, settings: Settings
    ) -> None:
        settings.MAIL_SERVER = MailServer(Security.PLAIN, "127.0.0.1", 9)
        page = admin.post("/settings/invitations/", {"email": "dave@example.com", "role": "approver"}, follow=True)
        assert (
            "The invitation could not be sent to dave@example.com. The server refused the connection."
            in visible_text(page)
        )
        found = re.search(r"<code>https://harness.example(/accounts/invitations/[^<]+)</code>", page.content.decode())
        assert found
        client.post(found[1], {"username": "dave", "password": "a phrase of my own"})
        assert User.objects.get(username="dave").email == "", "nobody has proved that it is theirs"

    def test_link_without_an_address_is_created_only_on_demand(self, admin: Client) -> None:
        page = admin.post("/settings/invitations/", {"email": "", "role": "approver"})
        assert page.status_code == 422
        assert "Enter the address, or create a link without an address." in visible_text(page)
        assert not Invitation.objects.exists()
        form = {"email": "carol@example.org", "role": "approver", "without_address": "on"}
        page = admin.post("/settings/invitations/", form, follow=True)
        assert "This link is shown only now." in visible_text(page)
        assert "carol@example.org" not in page.content.decode(), "the link is not for the address that was typed"

    def test_invalid_address_is_reported(self, admin: Client) -> None:
        page = admin.post("/settings/invitations/", {"email": "dave", "role": "approver"})
        assert page.status_code == 422
        assert "Enter a complete e-mail address, such as name@example.org." in visible_text(page)
        assert not Invitation.objects.exists()
