from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import Role, RunStatus, SessionStatus
from checkpoints.models import Run, ToolCall
from tests.support.factories import THEN, make_call, make_run, make_session, make_user, make_workspace

Lost = Callable[..., ToolCall]
#: The page of the calls that `lost` makes in its first minute, and what a form on it sends of where it stands.
PAGE = "/review/outages/?tool=refund_card&from=2025-03-04T10:42:07.000Z&to=2025-03-04T10:43:07.000Z"
WINDOW = {"tool": "refund_card", "from": "2025-03-04T10:42:07Z", "to": "2025-03-04T10:43:07Z"}


class SignedInClients(dict[str, Client]):
    """Clients of users by name, each of which is signed in when a test first asks for it."""

    def __init__(self, roles: dict[str, Role]) -> None:
        super().__init__()
        self._users = {name: make_user(name=name, role=role) for name, role in roles.items()}

    def __missing__(self, name: str) -> Client:
        client = self[name] = Client()
        client.force_login(self._users[name])
        return client


@pytest.fixture
def people(db: None) -> dict[str, Client]:
    """Signed-in clients of two approvers, an auditor and an admin."""
    roles = {"alice": Role.APPROVER, "bob": Role.APPROVER, "carol": Role.AUDITOR, "dora": Role.ADMIN}
    return SignedInClients(roles)


@pytest.fixture
def lost(db: None) -> Lost:
    """Create interrupted calls, each in its own session, `second` seconds after `THEN`."""

    def made(second: float = 0, *, workspace: str = "default", agent: str = "refund-desk", **fields: Any) -> ToolCall:
        session = make_session(agent=agent, workspace=make_workspace(slug=workspace), status=SessionStatus.NEEDS_REVIEW)
        make_run(session=session)
        return make_call(session=session, interrupted_at=THEN + timedelta(seconds=second), **fields)

    return made


def waited_for(call: ToolCall) -> ToolCall:
    """Mark the session of a call as waiting at the gate."""
    Run.objects.filter(session=call.session).update(status=RunStatus.WAITING)
    return call


@pytest.fixture
def reader(client: Client) -> Client:
    """Client of alice, an approver."""
    client.force_login(make_user(name="alice"))
    return client
