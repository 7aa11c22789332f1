"""Events of the audit trail, and what its page and export say about them."""

import csv
import io
import re
from typing import Any

from django.http import StreamingHttpResponse

from checkpoints.audit import insert_unchained_events
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.models import AuditEvent, Session, Workspace
from tests.support.factories import make_workspace

SWAP_DAYS = r'href="([^"]+)">Swap the two days'


def happened(
    kind: AuditKind = AuditKind.DECIDED,
    *,
    actor: str = "alice",
    actor_kind: ActorKind = ActorKind.PERSON,
    session: Session | None = None,
    workspace: Workspace | None = None,
    **details: Any,
) -> AuditEvent:
    """Record an event, and return it."""
    insert_unchained_events.record_event_of_workspace(
        "default",
        (workspace or make_workspace()).pk,
        kind,
        session_pk=session.pk if session else None,
        actor=actor,
        actor_kind=actor_kind,
        details=details,
    )
    return AuditEvent.objects.latest("pk")


def lines(response: Any) -> list[list[str]]:
    """Return the rows of a complete export without their last column, which says how many there are."""
    assert isinstance(response, StreamingHttpResponse)
    rows = list(csv.reader(io.StringIO(response.getvalue().decode())))
    assert rows[-1][-1] == f"rows: {len(rows) - 1}, complete"
    return [row[:-1] for row in rows]


def get_link(page: Any, pattern: str) -> str:
    found = re.search(pattern, page.content.decode())
    assert found
    return found[1].replace("&amp;", "&")
