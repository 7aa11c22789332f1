"""Fixture that appends events to an audit trail."""

from collections.abc import Callable

import pytest

from checkpoints.audit import insert_unchained_events
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.models import Workspace

RecordEvents = Callable[..., None]


@pytest.fixture
def record_events(workspace: Workspace) -> RecordEvents:
    """Append events to the audit trail of a workspace."""

    def record(times: int = 1, *, in_: Workspace = workspace, **details: object) -> None:
        for number in range(times):
            insert_unchained_events.record_event_of_workspace(
                "default",
                in_.pk,
                AuditKind.DECIDED,
                actor="alice",
                actor_kind=ActorKind.PERSON,
                details={"step": number, **details},
            )

    return record
