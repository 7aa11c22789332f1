"""Every address there is, asked for by everybody who could ask: the outcome of each is a line of the table below.

An address without a line fails. So does a line without an address.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from checkpoints.enums import ActorKind, DecisionKind, Role
from checkpoints.models import Workspace
from checkpoints.serde import canonical
from harness_site.accounts import tokens
from harness_site.accounts.models import Invitation, Membership, TokenRole
from harness_site.notifications.models import Delivery, Event, Notice, Webhook
from harness_site.review import evidence
from harness_site.saved.models import SavedView
from tests.integration.notifications.conftest import make_webhook
from tests.support.factories import (
    make_call,
    make_checkpoint,
    make_decision,
    make_message,
    make_run,
    make_session,
    make_user,
    make_workspace,
)
from tests.support.signing import sign_in

pytestmark = pytest.mark.django_db

WHO: Final = ("anonymous", "stranger", "auditor", "approver", "admin", "revoked token")
PIXEL: Final = "data:image/png;base64,AAAA"


class Line(NamedTuple):
    """Route, how it is asked for, and the statuses of GET and POST for each of `WHO`."""

    route: str
    path: str
    get: tuple[int, ...]
    post: tuple[int, ...]


def line(route: str, get: str, post: str, path: str = "") -> Line:
    """`get` and `post` in the order of `WHO`; the path is the route itself unless it takes values."""
    return Line(route, path or f"/{route}", tuple(map(int, get.split())), tuple(map(int, post.split())))


TABLE: Final = (
    line("", "302 403 302 302 302 302", "302 405 405 405 405 302"),
    line("health/", "200 200 200 200 200 200", "405 405 405 405 405 405"),
    line("accounts/", "302 200 200 200 200 302", "302 405 405 405 405 302"),
    line("accounts/login/", "200 302 302 302 302 200", "200 302 302 302 302 200"),
    line("accounts/login/code/", "302 302 302 302 302 302", "302 302 302 302 302 302"),
    line("accounts/login/passkey/", "302 302 302 302 302 302", "302 302 302 302 302 302"),
    line("accounts/logout/", "405 405 405 405 405 405", "302 302 302 302 302 302"),
    line("accounts/inactive/", "200 200 200 200 200 200", "405 405 405 405 405 405"),
    line(
        "accounts/invitations/<str:secret>/",
        "404 404 404 404 404 404",
        "404 404 404 404 404 404",
        "/accounts/invitations/invite_none/",
    ),
    line("accounts/workspace/", "302 405 405 405 405 302", "302 404 404 404 404 302"),
    line(
        "accounts/workspace/<str:workspace>/<path:place>",
        "302 404 302 302 302 302",
        "302 405 405 405 405 302",
        "/accounts/workspace/default/review/",
    ),
    line("accounts/secrets/", "302 405 405 405 405 302", "302 403 403 403 302 302"),
    line("accounts/secrets/hide/", "302 405 405 405 405 302", "302 403 302 302 302 302"),
    line("accounts/sign-ins/end/", "302 405 405 405 405 302", "302 302 302 302 302 302"),
    line("accounts/notifications/", "302 200 200 200 200 302", "302 302 302 302 302 302"),
    line(
        "accounts/notifications/confirm/<str:token>/",
        "302 404 404 404 404 302",
        "302 404 404 404 404 302",
        "/accounts/notifications/confirm/none/",
    ),
    line("accounts/password/", "302 200 200 200 200 302", "302 200 200 200 200 302"),
    line("accounts/password/set/", "302 302 302 302 302 302", "302 302 302 302 302 302"),
    line("accounts/again/", "302 200 200 200 200 302", "302 200 200 200 200 302"),
    line("accounts/again/code/", "302 302 302 302 302 302", "302 302 302 302 302 302"),
    line("accounts/again/passkey/", "302 302 302 302 302 302", "302 302 302 302 302 302"),
    line("accounts/app/", "302 302 302 302 302 302", "302 302 302 302 302 302"),
    line("accounts/app/remove/", "302 404 404 404 404 302", "302 404 404 404 404 302"),
    line("accounts/codes/", "302 404 404 404 404 302", "302 405 405 405 405 302"),
    line("accounts/codes/new/", "302 302 302 302 302 302", "302 302 302 302 302 302"),
    line("accounts/passkeys/add/", "302 302 302 302 302 302", "302 302 302 302 302 302"),
    line("accounts/passkeys/<int:pk>/", "302 302 302 302 302 302", "302 302 302 302 302 302", "/accounts/passkeys/1/"),
    line(
        "accounts/passkeys/<int:pk>/remove/",
        "302 302 302 302 302 302",
        "302 302 302 302 302 302",
        "/accounts/passkeys/1/remove/",
    ),
    line("accounts/oidc/cancelled/", "200 200 200 200 200 200", "405 405 405 405 405 405"),
    line(
        "accounts/oidc/<str:provider_id>/login/",
        "404 404 404 404 404 404",
        "404 404 404 404 404 404",
        "/accounts/oidc/sso/login/",
    ),
    line(
        "accounts/oidc/<str:provider_id>/login/callback/",
        "404 404 404 404 404 404",
        "404 404 404 404 404 404",
        "/accounts/oidc/sso/login/callback/",
    ),
    line("review/", "302 403 200 200 200 302", "302 405 405 405 405 302"),
    line(
        "review/news/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/review/news/?since=2025-03-04T10:00:00Z",
    ),
    line("review/count/", "302 403 200 200 200 302", "302 405 405 405 405 302"),
    line(
        "review/evidence/<int:pk>/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/review/evidence/{file}/",
    ),
    line(
        "review/outages/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/review/outages/?tool=x&from=2025-03-04T10:00:00Z&to=2025-03-04T11:00:00Z",
    ),
    line("review/outages/verify/", "302 405 405 405 405 302", "302 403 403 400 400 302"),
    line("review/outages/settle/", "302 405 405 405 405 302", "302 403 403 400 400 302"),
    line("review/calls/<int:pk>/", "302 403 200 200 200 302", "302 403 403 422 422 302", "/review/calls/{call}/"),
    line(
        "review/calls/<int:pk>/claim/",
        "302 405 405 405 405 302",
        "302 403 403 302 302 302",
        "/review/calls/{call}/claim/",
    ),
    line(
        "review/calls/<int:pk>/release/",
        "302 405 405 405 405 302",
        "302 403 403 302 302 302",
        "/review/calls/{call}/release/",
    ),
    line(
        "review/calls/<int:pk>/present/",
        "302 405 405 405 405 302",
        "302 403 200 200 200 302",
        "/review/calls/{call}/present/",
    ),
    line(
        "review/calls/<int:pk>/change/",
        "302 405 405 405 405 302",
        "302 403 403 200 200 302",
        "/review/calls/{call}/change/",
    ),
    line(
        "review/calls/<int:pk>/verify/",
        "302 405 405 405 405 302",
        "302 403 403 302 302 302",
        "/review/calls/{call}/verify/",
    ),
    line("sessions/", "302 403 200 200 200 302", "302 405 405 405 405 302"),
    line("sessions/export/", "302 403 200 200 200 302", "302 405 405 405 405 302"),
    line("sessions/<int:pk>/jump/", "302 403 302 302 302 302", "302 405 405 405 405 302", "/sessions/{session}/jump/"),
    line(
        "sessions/<int:pk>/export/<str:form>/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/export/jsonl/",
    ),
    line("sessions/labels/", "302 405 405 405 405 302", "302 403 422 422 422 302"),
    line("sessions/find/", "302 403 302 302 302 302", "302 405 405 405 405 302", "/sessions/find/?id={id}"),
    line("sessions/<int:pk>/", "302 403 200 200 200 302", "302 405 405 405 405 302", "/sessions/{session}/"),
    line(
        "sessions/<int:pk>/messages/<int:position>/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/messages/0/",
    ),
    line(
        "sessions/<int:pk>/messages/<int:position>/images/<int:index>/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/messages/0/images/1/",
    ),
    line(
        "sessions/<int:pk>/versions/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/versions/",
    ),
    line(
        "sessions/<int:pk>/compare/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/compare/?a=1&b=2",
    ),
    line(
        "sessions/<int:pk>/calls/", "302 403 200 200 200 302", "302 405 405 405 405 302", "/sessions/{session}/calls/"
    ),
    line(
        "sessions/<int:pk>/calls/<int:call_pk>/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/calls/{call}/",
    ),
    line("sessions/<int:pk>/fork/", "302 403 200 200 200 302", "302 403 403 422 422 302", "/sessions/{session}/fork/"),
    line(
        "sessions/<int:pk>/timeline/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/timeline/",
    ),
    line(
        "sessions/<int:pk>/workflows/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/workflows/",
    ),
    line(
        "sessions/<int:pk>/peers/", "302 403 200 200 200 302", "302 405 405 405 405 302", "/sessions/{session}/peers/"
    ),
    line("sessions/<int:pk>/plan/", "302 403 200 200 200 302", "302 405 405 405 405 302", "/sessions/{session}/plan/"),
    line(
        "sessions/<int:pk>/history/",
        "302 403 200 200 200 302",
        "302 405 405 405 405 302",
        "/sessions/{session}/history/",
    ),
    line("overview/", "302 403 200 200 200 302", "302 405 405 405 405 302"),
    line("saved/<str:page>/", "302 405 405 405 405 302", "302 403 422 422 422 302", "/saved/sessions/"),
    line(
        "saved/views/<int:pk>/remove/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/saved/views/{view}/remove/",
    ),
    line("calls/", "302 403 200 200 200 302", "302 405 405 405 405 302"),
    line("audit/", "302 403 200 200 200 302", "302 405 405 405 405 302"),
    line("audit/verify/", "302 405 405 405 405 302", "302 403 302 302 302 302"),
    line("audit/export/", "302 403 200 200 200 302", "302 405 405 405 405 302"),
    line("settings/members/", "302 403 403 403 200 302", "302 405 405 405 405 302"),
    line(
        "settings/members/<int:pk>/role/",
        "302 405 405 405 405 302",
        "302 403 403 403 422 302",
        "/settings/members/{member}/role/",
    ),
    line(
        "settings/members/<int:pk>/remove/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/settings/members/{member}/remove/",
    ),
    line(
        "settings/members/<int:pk>/reset-factors/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/settings/members/{member}/reset-factors/",
    ),
    line("settings/invitations/", "302 405 405 405 405 302", "302 403 403 403 422 302"),
    line(
        "settings/invitations/<int:pk>/revoke/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/settings/invitations/{invitation}/revoke/",
    ),
    line("settings/notifications/", "302 403 403 403 200 302", "302 405 405 405 405 302"),
    line("settings/notifications/create/", "302 405 405 405 405 302", "302 403 403 403 422 302"),
    line(
        "settings/notifications/<int:pk>/test/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/settings/notifications/{webhook}/test/",
    ),
    line(
        "settings/notifications/<int:pk>/pause/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/settings/notifications/{webhook}/pause/",
    ),
    line(
        "settings/notifications/<int:pk>/resume/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/settings/notifications/{webhook}/resume/",
    ),
    line(
        "settings/notifications/<int:pk>/delete/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/settings/notifications/{webhook}/delete/",
    ),
    line("settings/notifications/log/", "302 403 403 403 200 302", "302 405 405 405 405 302"),
    line(
        "settings/notifications/log/<uuid:pk>/again/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/settings/notifications/log/{delivery}/again/",
    ),
    line("settings/masking/", "302 403 403 403 200 302", "302 403 403 403 422 302"),
    line("settings/tokens/", "302 403 403 403 200 302", "302 405 405 405 405 302"),
    line("settings/tokens/create/", "302 405 405 405 405 302", "302 403 403 403 422 302"),
    line(
        "settings/tokens/<int:pk>/revoke/",
        "302 405 405 405 405 302",
        "302 403 403 403 302 302",
        "/settings/tokens/{token}/revoke/",
    ),
)

#: Addresses that name an object, with one of another workspace: nothing for a member, and the same for who is none.
FOREIGN: Final = (
    ("/review/calls/{foreign_call}/", "get"),
    ("/review/calls/{foreign_call}/", "post"),
    ("/review/evidence/{foreign_file}/", "get"),
    ("/review/calls/{foreign_call}/claim/", "post"),
    ("/review/calls/{foreign_call}/release/", "post"),
    ("/review/calls/{foreign_call}/present/", "post"),
    ("/review/calls/{foreign_call}/change/", "post"),
    ("/review/calls/{foreign_call}/verify/", "post"),
    ("/sessions/{foreign_session}/", "get"),
    ("/sessions/{foreign_session}/messages/0/", "get"),
    ("/sessions/{foreign_session}/messages/0/images/1/", "get"),
    ("/sessions/{foreign_session}/jump/?to=error", "get"),
    ("/sessions/{foreign_session}/export/jsonl/", "get"),
    ("/sessions/{foreign_session}/export/html/", "get"),
    ("/sessions/{foreign_session}/export/file/", "get"),
    ("/sessions/{foreign_session}/versions/", "get"),
    ("/sessions/{foreign_session}/compare/?a=1&b=2", "get"),
    ("/sessions/{foreign_session}/calls/", "get"),
    ("/sessions/{foreign_session}/calls/{foreign_call}/", "get"),
    ("/sessions/{session}/calls/{foreign_call}/", "get"),
    ("/sessions/{foreign_session}/fork/", "get"),
    ("/sessions/{foreign_session}/fork/", "post"),
    ("/sessions/{foreign_session}/timeline/", "get"),
    ("/sessions/{foreign_session}/workflows/", "get"),
    ("/sessions/{foreign_session}/peers/", "get"),
    ("/sessions/{foreign_session}/plan/", "get"),
    ("/sessions/{foreign_session}/history/", "get"),
    ("/sessions/find/?id={foreign_id}", "get"),
    ("/saved/views/{foreign_view}/remove/", "post"),
    ("/settings/members/{foreign_member}/role/", "post"),
    ("/settings/members/{foreign_member}/remove/", "post"),
    ("/settings/members/{foreign_member}/reset-factors/", "post"),
    ("/settings/invitations/{foreign_invitation}/revoke/", "post"),
    ("/settings/tokens/{foreign_token}/revoke/", "post"),
    ("/settings/notifications/{foreign_webhook}/test/", "post"),
    ("/settings/notifications/{foreign_webhook}/pause/", "post"),
    ("/settings/notifications/{foreign_webhook}/resume/", "post"),
    ("/settings/notifications/{foreign_webhook}/delete/", "post"),
    ("/settings/notifications/log/{foreign_delivery}/again/", "post"),
)


def routes(patterns: list[URLPattern | URLResolver], before: str = "") -> Iterator[str]:
    for pattern in patterns:
        route = f"{before}{pattern.pattern}"
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        else:
            yield route


def things(workspace: Workspace, prefix: str = "") -> dict[str, Any]:
    """One of everything an address can name."""
    session = make_session(workspace=workspace, session_id=f"{prefix}order-17")
    make_run(session=session)
    make_message(session=session, blocks=[{"kind": "text", "text": "Look."}, {"kind": "image", "url": PIXEL}])
    make_checkpoint(session=session)
    make_checkpoint(session=session)
    member = Membership.objects.get(user=make_user(name=f"{prefix}dave", role=Role.AUDITOR, workspace=workspace))
    maker = tokens.Maker(ActorKind.MACHINE, "test")
    token, secret = tokens.create(workspace, name="ci", role=TokenRole.APPROVER, lifetime=None, by=maker)
    invitation = Invitation.objects.create(
        workspace=workspace, role=Role.ADMIN, digest=f"{prefix}d", invited_by="x", expires_at="2999-01-01T00:00Z"
    )
    webhook = make_webhook(workspace=workspace)
    notice = Notice.objects.create(workspace=workspace, event=Event.TEST, send_at="2999-01-01T00:00Z")
    delivery = Delivery.objects.create(notice=notice, webhook=webhook, due_at="2999-01-01T00:00Z")
    call = make_call(session=session, verifiable=True)
    file = evidence.keep(call, SimpleUploadedFile("seen.txt", b"seen"), given_by="dave")
    make_decision(call=call, kind=DecisionKind.PROBE_UNKNOWN, evidence=canonical({"file": evidence.cited(file)}))
    named = {
        "webhook": webhook.pk,
        "delivery": delivery.pk,
        "session": session.pk,
        "id": session.session_id,
        "call": call.pk,
        "file": file.pk,
        "member": member.pk,
        "token": token.pk,
        "invitation": invitation.pk,
        "secret": secret,
        "view": SavedView.objects.create(workspace=workspace, page="sessions", name="Mine", query="status=failed").pk,
    }
    return {f"{prefix}{name}": value for name, value in named.items()}


@pytest.fixture
def named(db: None) -> dict[str, Any]:
    return things(make_workspace()) | things(make_workspace(slug="elsewhere"), "foreign_")


@pytest.fixture
def clients(named: dict[str, Any]) -> dict[str, Client]:
    maker = tokens.Maker(ActorKind.MACHINE, "test")
    token, secret = tokens.create(make_workspace(), name="old", role=TokenRole.APPROVER, lifetime=None, by=maker)
    tokens.revoke(token, by=maker)
    found = {"anonymous": Client(), "revoked token": Client(headers={"Authorization": f"Bearer {secret}"})}
    for name, role in (("stranger", None), *((str(role), role) for role in Role)):
        found[name] = sign_in(Client(), make_user(name=f"the-{name}", role=role))
    return found


def asked(client: Client, method: str, path: str) -> int:
    # A page that fails is a finding like any other.
    client.raise_request_exception = False
    return int(getattr(client, method)(path).status_code)


def test_every_address_has_a_line_and_every_line_an_address() -> None:
    assert sorted({each.route for each in TABLE}) == sorted(set(routes(get_resolver().url_patterns)))


@pytest.mark.parametrize("each", TABLE, ids=lambda each: each.route)
def test_the_outcome_for_everybody(clients: dict[str, Client], named: dict[str, Any], each: Line) -> None:
    path = each.path.format(**named)
    assert {who: asked(clients[who], "get", path) for who in WHO} == dict(zip(WHO, each.get, strict=True))
    assert {who: asked(clients[who], "post", path) for who in WHO} == dict(zip(WHO, each.post, strict=True))


@pytest.mark.parametrize(("path", "method"), FOREIGN, ids=lambda part: str(part))
def test_nothing_of_another_workspace_is_there(
    clients: dict[str, Client], named: dict[str, Any], path: str, method: str
) -> None:
    before = _state()
    outcome = {who: asked(clients[who], method, path.format(**named)) for who in WHO}
    assert (outcome["anonymous"], outcome["stranger"], outcome["revoked token"]) == (302, 403, 302)
    assert outcome["admin"] == 404
    # A role that is too small is told so before anything is looked for.
    assert {outcome["auditor"], outcome["approver"]} <= {403, 404}
    assert _state() == before


@pytest.mark.parametrize(
    "path", ["/nowhere/", "/accounts/nowhere/", "/admin/", "/static/../settings.py", "/development/policy/"]
)
def test_there_is_nothing_else(clients: dict[str, Client], path: str) -> None:
    assert {asked(clients[who], "get", path) for who in WHO} == {404}


def _state() -> list[Any]:
    """What a request could have changed."""
    return [
        list(Membership.objects.order_by("pk").values()),
        list(Invitation.objects.order_by("pk").values()),
        list(User.objects.order_by("pk").values("pk", "is_active")),
        list(Webhook.objects.order_by("pk").values()),
        list(Delivery.objects.order_by("pk").values()),
    ]
