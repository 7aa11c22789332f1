"""An audit trail to be tampered with."""

from collections.abc import Callable

import pytest

from checkpoints.audit import append_events
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.models import Workspace

Happens = Callable[..., None]


@pytest.fixture
def happens(workspace: Workspace) -> Happens:
    """Something happens `times` times."""

    def record(times: int = 1, *, in_: Workspace = workspace, **details: object) -> None:
        for number in range(times):
            append_events.append_event(
                "default",
                in_.pk,
                AuditKind.DECIDED,
                actor="alice",
                actor_kind=ActorKind.PERSON,
                details={"step": number, **details},
            )

    return record
