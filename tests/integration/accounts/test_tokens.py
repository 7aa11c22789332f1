"""API tokens: creation, revocation and authentication."""

import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.test import Client
from django.urls import path

from checkpoints.db import clock
from checkpoints.enums import ActorKind, Role
from checkpoints.models import AuditEvent
from harness_site import urls as site_urls
from harness_site.accounts import api_tokens
from harness_site.accounts.models import ApiToken, TokenRole
from harness_site.accounts.token_authentication import TokenRequest, require_token
from harness_site.core import deferred_writes
from harness_site.core.distinguish_site_from_project_requests import mark_views_of_site
from tests.support.audit_entries import list_entries
from tests.support.factories import make_user, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


BY = api_tokens.TokenIssuer(ActorKind.MACHINE, "test")


def make_token(
    role: TokenRole = TokenRole.APPROVER, *, name: str = "nightly", lifetime: timedelta | None = None
) -> tuple[ApiToken, str]:
    return api_tokens.create_token_with_secret(make_workspace(), name=name, role=role, lifetime=lifetime, by=BY)


@require_token(TokenRole.AUDITOR)
def whoami(request: TokenRequest) -> HttpResponse:
    actor = api_tokens.build_token_actor(request.token)
    return JsonResponse({"name": actor.name, "kind": actor.kind, "role": actor.role, "user": str(request.user)})


@require_token(TokenRole.AGENT)
def work(request: TokenRequest) -> HttpResponse:
    return HttpResponse(status=204)


def plain(request: HttpRequest) -> HttpResponse:
    return HttpResponse("in")


_OWN = [path("whoami/", whoami), path("work/", work), path("plain/", plain)]
mark_views_of_site(_OWN)
urlpatterns = [*_OWN, *site_urls.urlpatterns]


def ask(secret: str, place: str = "/whoami/", scheme: str = "Bearer") -> Any:
    client = Client(enforce_csrf_checks=True)
    return client.post(place, headers={"Authorization": f"{scheme} {secret}"})


class TestPage:
    def test_token_is_shown_once_and_not_stored(self, admin: Client) -> None:
        created = admin.post("/settings/tokens/create/", {"name": "ci", "role": "auditor", "days": "30"})
        assert created.headers["Location"] == "/settings/tokens/"
        assert "harness_" not in str(dict(admin.session))
        response = admin.get(created.headers["Location"])
        found = re.search(r"<code>(harness_[\w-]{43})</code>", response.content.decode())
        assert found
        assert "This token is shown only now." in visible_text(response)
        assert found[1] not in admin.get("/settings/tokens/").content.decode()
        assert found[1] not in str(list(ApiToken.objects.values_list()))
        token = ApiToken.objects.get()
        assert (token.hint, token.role, token.created_by) == (found[1][:14], "auditor", "bob")
        assert token.expires_at is not None
        assert timedelta(days=29) < token.expires_at - clock.now() < timedelta(days=31)
        assert api_tokens.authenticate_bearer_header_or_raise(f"Bearer {found[1]}") == token

    def test_creation_and_revocation_are_recorded(self, admin: Client) -> None:
        admin.post("/settings/tokens/create/", {"name": "ci", "role": "agent", "days": ""})
        token = ApiToken.objects.get()
        for _ in range(2):
            assert admin.post(f"/settings/tokens/{token.pk}/revoke/").headers["Location"] == "/settings/tokens/"
        assert list_entries() == [
            ("token_created", "bob", {"role": "agent", "token_name": "ci"}),
            ("token_revoked", "bob", {"token_name": "ci"}),
        ]

    def test_page_shows_the_state_of_tokens(self, admin: Client) -> None:
        make_token(name="one")
        make_token(name="two", lifetime=timedelta(seconds=-1))
        api_tokens.revoke_token(make_token(name="three")[0], by=BY)
        page = visible_text(admin.get("/settings/tokens/"))
        assert "revoked just now · never used Revoked" in page
        assert [page.count(word) for word in ("Valid Revoke one Programs", "Expired", "Revoked", "never used")] == [
            1,
            1,
            1,
            3,
        ]

    def test_name_is_taken_until_its_token_is_revoked(self, admin: Client) -> None:
        form = {"name": "ci", "role": "agent", "days": ""}
        admin.post("/settings/tokens/create/", form)
        response = admin.post("/settings/tokens/create/", form)
        assert response.status_code == 422
        assert "A token named “ci” already exists." in visible_text(response)
        admin.post(f"/settings/tokens/{ApiToken.objects.get().pk}/revoke/")
        assert admin.post("/settings/tokens/create/", form).status_code == 302

    @pytest.mark.parametrize(
        "wrong", [{"role": "admin"}, {"role": ""}, {"name": ""}, {"days": "7"}, {"name": "x" * 101}]
    )
    def test_invalid_form_creates_no_token(self, admin: Client, wrong: dict[str, str]) -> None:
        form = {"name": "ci", "role": "agent", "days": "30"} | wrong
        assert admin.post("/settings/tokens/create/", form).status_code == 422
        assert not ApiToken.objects.exists()

    def test_token_of_another_workspace_is_not_found(self, admin: Client) -> None:
        token, secret = api_tokens.create_token_with_secret(
            make_workspace(slug="elsewhere"), name="theirs", role=TokenRole.AGENT, lifetime=None, by=BY
        )
        assert "theirs" not in visible_text(admin.get("/settings/tokens/"))
        for pk in (token.pk, 2**63):
            assert admin.post(f"/settings/tokens/{pk}/revoke/").status_code == 404
        assert api_tokens.authenticate_bearer_header_or_raise(f"Bearer {secret}") == token


@pytest.mark.urls(__name__)
class TestAuthentication:
    def test_valid_token_authenticates(self) -> None:
        _, secret = make_token()
        response = ask(secret)
        assert response.status_code == 200
        assert b'"name": "token nightly"' in response.content
        assert b'"user": "AnonymousUser"' in response.content

    @pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
    def test_scheme_is_case_insensitive(self, scheme: str) -> None:
        assert ask(make_token()[1], scheme=scheme).status_code == 200

    @pytest.mark.parametrize(
        "header", ["", "Bearer", "Bearer ", "Basic YTpi", "Token x", "Bearer harness_made-up", "\xff"]
    )
    def test_other_credentials_are_refused(self, client: Client, header: str) -> None:
        response = client.get("/whoami/", headers={"Authorization": header})
        assert response.status_code == 401
        assert response.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'

    def test_session_cookie_is_not_accepted(self, client: Client) -> None:
        client.force_login(make_user(role=Role.ADMIN))
        assert client.get("/whoami/").status_code == 401

    def test_token_does_not_open_pages(self, client: Client) -> None:
        _, secret = make_token()
        for place in ("/sessions/", "/settings/tokens/", "/audit/", "/plain/"):
            response = client.get(place, headers={"Authorization": f"Bearer {secret}"})
            assert response.headers["Location"].startswith("/accounts/login/")

    @pytest.mark.parametrize(
        ("role", "whoami_status", "work_status"),
        [(TokenRole.AGENT, 403, 204), (TokenRole.AUDITOR, 200, 403), (TokenRole.APPROVER, 200, 403)],
    )
    def test_each_role_has_its_permissions(self, role: TokenRole, whoami_status: int, work_status: int) -> None:
        _, secret = make_token(role)
        assert (ask(secret).status_code, ask(secret, "/work/").status_code) == (whoami_status, work_status)

    def test_revoked_token_is_refused_at_once(self) -> None:
        token, secret = make_token()
        api_tokens.revoke_token(token, by=BY)
        assert ask(secret).status_code == 401

    def test_expired_token_is_refused(self) -> None:
        _, secret = make_token(lifetime=timedelta(seconds=-1))
        assert ask(secret).status_code == 401

    def test_use_of_a_token_is_recorded_at_intervals(self) -> None:
        token, secret = make_token()
        for _ in range(3):
            ask(secret)
        assert list_entries("token_used") == []  # no request waits for it
        deferred_writes.flush_all()
        token.refresh_from_db()
        assert token.last_used_at is not None
        assert list_entries("token_used") == [("token_used", "token nightly", {"token_name": "nightly"})]

    def test_use_is_recorded_again_after_the_interval(self) -> None:
        token, secret = make_token()
        ask(secret)
        deferred_writes.flush_all()
        long_ago = clock.now() - timedelta(hours=2)
        ApiToken.objects.update(last_used_at=long_ago)
        AuditEvent.objects.filter(kind="token_used").update(created_at=long_ago)
        ask(secret)
        deferred_writes.flush_all()
        token.refresh_from_db()
        assert token.last_used_at is not None
        assert token.last_used_at > clock.now() - timedelta(minutes=1)
        assert len(list_entries("token_used")) == 2

    def test_refused_token_is_recorded_at_intervals(self) -> None:
        token, secret = make_token()
        api_tokens.revoke_token(token, by=BY)
        for _ in range(3):
            ask(secret)
        assert list_entries("token_refused") == [
            ("token_refused", "token nightly", {"token_name": "nightly", "why": "revoked"})
        ]


def test_token_acts_under_its_name_with_its_role() -> None:
    assert api_tokens.build_token_actor(make_token(name="alice")[0]).name == "token alice"
    assert api_tokens.build_token_actor(make_token(TokenRole.AGENT)[0]).role is None
    assert api_tokens.build_token_actor(make_token(TokenRole.AUDITOR, name="b")[0]).role == Role.AUDITOR


def test_database_constraint_keeps_names_of_valid_tokens_unique() -> None:
    token, _ = make_token()
    with pytest.raises(IntegrityError):
        ApiToken.objects.create(workspace=token.workspace, name=token.name, role="agent", digest="x", hint="x")


class TestCommand:
    def test_command_prints_only_the_token(self) -> None:
        out = StringIO()
        call_command("create_token", "ci", "agent", "--days", "7", stdout=out)
        token = api_tokens.authenticate_bearer_header_or_raise(f"Bearer {out.getvalue().strip()}")
        assert (token.name, token.role, token.created_by) == ("ci", "agent", "manage.py create_token")
        assert token.expires_at is not None
        assert list_entries("token_created")[0][1] == "manage.py create_token"

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            (["--workspace", "nowhere"], "There is no workspace 'nowhere'"),
            (["--days", "0"], "--days has to be between 1 and 3650"),
        ],
    )
    def test_command_reports_errors(self, options: list[str], complaint: str) -> None:
        with pytest.raises(CommandError, match=complaint):
            call_command("create_token", "ci", "agent", *options)

    def test_taken_name_is_refused(self) -> None:
        make_token(name="ci")
        with pytest.raises(CommandError, match="A token named “ci” already exists"):
            call_command("create_token", "ci", "agent")
