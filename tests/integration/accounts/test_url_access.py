"""Every URL, requested by every kind of user; `tests.support.url_table` has the expected statuses.

An address without a line fails. So does a line without an address.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, Final

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from checkpoints.db import clock
from checkpoints.enums import ActorKind, DecisionKind, Role
from checkpoints.formats import to_canonical_json
from checkpoints.models import Workspace
from harness_site.accounts import api_tokens
from harness_site.accounts.models import FactorScope, Invitation, Membership, SecondFactorRequirement, TokenRole
from harness_site.notifications.models import Delivery, Event, Notice, Webhook
from harness_site.review import evidence_files
from harness_site.review.models import BulkDecision, BulkDecisionEntry
from harness_site.saved_views.models import SavedView
from tests.integration.notifications.conftest import make_webhook
from tests.support.client_login import sign_in
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
from tests.support.url_table import FOREIGN, TABLE
from tests.support.url_table.line import WHO

pytestmark = pytest.mark.django_db

PIXEL: Final = "data:image/png;base64,AAAA"
SOUND: Final = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}


def routes(patterns: list[URLPattern | URLResolver], before: str = "") -> Iterator[str]:
    for pattern in patterns:
        route = f"{before}{pattern.pattern}"
        if route.startswith(("api/v1/", "v1/")):  # tests/integration/api has these
            continue
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        else:
            yield route


def things(workspace: Workspace, prefix: str = "") -> dict[str, Any]:
    """Create one object of each kind that a URL can name."""
    session = make_session(workspace=workspace, session_id=f"{prefix}order-17")
    make_run(session=session)
    make_message(session=session, blocks=[{"kind": "text", "text": "Look."}, {"kind": "image", "url": PIXEL}, SOUND])
    make_checkpoint(session=session)
    make_checkpoint(session=session)
    member = Membership.objects.get(user=make_user(name=f"{prefix}dave", role=Role.AUDITOR, workspace=workspace))
    maker = api_tokens.TokenIssuer(ActorKind.MACHINE, "test")
    token, secret = api_tokens.create_token_with_secret(
        workspace, name="ci", role=TokenRole.APPROVER, lifetime=None, by=maker
    )
    invitation = Invitation.objects.create(
        workspace=workspace, role=Role.ADMIN, digest=f"{prefix}d", invited_by="x", expires_at="2999-01-01T00:00Z"
    )
    webhook = make_webhook(workspace=workspace)
    notice = Notice.objects.create(workspace=workspace, event=Event.TEST, send_at="2999-01-01T00:00Z")
    delivery = Delivery.objects.create(notice=notice, webhook=webhook, due_at="2999-01-01T00:00Z")
    call = make_call(session=session, verifiable=True)
    file = evidence_files.delete_orphans_and_store_evidence_file(
        call, SimpleUploadedFile("seen.txt", b"seen"), given_by="dave"
    )
    decision = make_decision(
        call=call,
        kind=DecisionKind.PROBE_UNKNOWN,
        evidence=to_canonical_json({"file": evidence_files.build_evidence_reference(file)}),
    )
    named = {
        "webhook": webhook.pk,
        "delivery": delivery.pk,
        "session": session.pk,
        "id": session.session_id,
        "call": call.pk,
        "file": file.pk,
        "bulk": BulkDecisionEntry.objects.create(
            decision=decision, bulk=BulkDecision.objects.create(workspace=workspace, author="dave")
        ).bulk_id,
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
    maker = api_tokens.TokenIssuer(ActorKind.MACHINE, "test")
    token, secret = api_tokens.create_token_with_secret(
        make_workspace(), name="old", role=TokenRole.APPROVER, lifetime=None, by=maker
    )
    api_tokens.revoke_token(token, by=maker)
    found = {"anonymous": Client(), "revoked token": Client(headers={"Authorization": f"Bearer {secret}"})}
    for name, role in (("stranger", None), *((str(role), role) for role in Role)):
        found[name] = sign_in(Client(), make_user(name=f"the-{name}", role=role))
    return found


def asked(client: Client, method: str, path: str) -> int:
    # A page that fails is a finding like any other.
    client.raise_request_exception = False
    return int(getattr(client, method)(path).status_code)


def test_url_table_lists_every_url() -> None:
    assert sorted({each.route for each in TABLE}) == sorted(set(routes(get_resolver().url_patterns)))


#: The table in parts of one set-up each.
PARTS: Final = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_status_of_every_url_for_every_user(clients: dict[str, Client], named: dict[str, Any], part: int) -> None:
    expected = {each.route: _by_method(each.get, each.post) for each in TABLE[part::PARTS]}
    assert {each.route: _outcome(clients, each.path.format(**named)) for each in TABLE[part::PARTS]} == expected


def _by_method(get: Sequence[int], post: Sequence[int]) -> dict[str, dict[str, int]]:
    return {"get": dict(zip(WHO, get, strict=True)), "post": dict(zip(WHO, post, strict=True))}


def _outcome(clients: dict[str, Client], path: str) -> dict[str, dict[str, int]]:
    """Return the status of a path for each kind of user; the database is rolled back afterwards."""
    signed_in = {who: deepcopy(clients[who].cookies) for who in WHO}
    before = transaction.savepoint()
    found = {method: {who: asked(clients[who], method, path) for who in WHO} for method in ("get", "post")}
    transaction.savepoint_rollback(before)
    for who in WHO:
        clients[who].cookies = signed_in[who]
    return found


def test_every_url_of_a_workspace_asks_for_a_required_second_factor(
    clients: dict[str, Client], named: dict[str, Any]
) -> None:
    SecondFactorRequirement.objects.create(
        workspace=make_workspace(), scope=FactorScope.EVERYBODY, required_by="bob", required_at=clock.now()
    )
    stranger, before, wrong, checked = WHO.index("stranger"), _state(), [], 0
    for each in TABLE:
        for method, statuses in (("get", each.get), ("post", each.post)):
            if statuses[stranger] != 403:
                continue
            checked += 1
            path = each.path.format(**named)
            for who in ("auditor", "approver", "admin"):
                response = getattr(clients[who], method)(path)
                if not response.headers.get("Location", "").startswith("/accounts/second-factor/?"):
                    wrong.append((method, path, who, response.status_code))
    assert (wrong, _state()) == ([], before)
    assert checked > len(TABLE) / 2


def test_objects_of_another_workspace_are_not_found(clients: dict[str, Client], named: dict[str, Any]) -> None:
    before = _state()
    wrong = []
    for path, method in FOREIGN:
        outcome = {who: asked(clients[who], method, path.format(**named)) for who in WHO}
        expected = {"anonymous": 302, "stranger": 403, "revoked token": 302, "admin": 404}
        # A role that is too small is told so before anything is looked for.
        small = {outcome["auditor"], outcome["approver"]} <= {403, 404}
        if not small or outcome != outcome | expected or _state() != before:
            wrong.append((path, method, outcome))
    assert wrong == []


@pytest.mark.parametrize(
    "path", ["/nowhere/", "/accounts/nowhere/", "/admin/", "/static/../settings.py", "/development/policy/"]
)
def test_unknown_urls_are_not_found(clients: dict[str, Client], path: str) -> None:
    assert {asked(clients[who], "get", path) for who in WHO} == {404}


def _state() -> list[Any]:
    """Return the rows that a request could have changed."""
    return [
        list(Membership.objects.order_by("pk").values()),
        list(Invitation.objects.order_by("pk").values()),
        list(User.objects.order_by("pk").values("pk", "is_active")),
        list(Webhook.objects.order_by("pk").values()),
        list(Delivery.objects.order_by("pk").values()),
    ]
