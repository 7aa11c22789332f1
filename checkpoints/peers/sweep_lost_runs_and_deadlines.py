"""Periodic sweep: lost runs, and calls to other agents whose deadline has passed."""

from __future__ import annotations

from dataclasses import dataclass

from checkpoints import constants
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.models import Workspace
from checkpoints.peers import extend_and_sweep_agent_deadlines
from checkpoints.sessions import sweep_lost_runs
from checkpoints.store.database_client_state import Store


@dataclass(frozen=True)
class SweepRound:
    """Result of one sweep: sessions whose run was lost, calls that expired, and the (session, join) that this
    completed."""

    lost: tuple[str, ...] = ()
    expired: tuple[str, ...] = ()
    complete: tuple[tuple[str, str], ...] = ()


def sweep_lost_runs_and_deadlines_of_workspaces(
    using: str, *, workspace: str | None = None, limit: int = constants.BATCH_LIMIT
) -> SweepRound:
    """Sweep `workspace`, or all of them. Any number of processes may do this at once.

    `limit` is for each workspace and each kind. Raises `WorkspaceNotFound`.
    """
    total = SweepRound()
    for slug in _list_workspace_slugs(using) if workspace is None else [workspace]:
        store = Store(using, slug)
        session_ids = sweep_lost_runs.sweep_lost_runs(store, limit=limit)
        expiry = extend_and_sweep_agent_deadlines.expire_overdue_calls_and_early_responses(store, limit=limit)
        total = SweepRound(
            (*total.lost, *session_ids), (*total.expired, *expiry.expired), (*total.complete, *expiry.complete)
        )
    return total


def _list_workspace_slugs(using: str) -> list[str]:
    with database_operation(using, writes=False):
        return list(Workspace.objects.using(using).order_by("pk").values_list("slug", flat=True))
