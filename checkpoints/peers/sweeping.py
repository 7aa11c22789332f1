"""The rounds that somebody has to make: runs that are gone, and other agents that have not answered in time."""

from __future__ import annotations

from dataclasses import dataclass

from checkpoints.models import Workspace
from checkpoints.peers import deadlines
from checkpoints.resuming import sweeping
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store


@dataclass(frozen=True)
class Round:
    """What one round did: sessions whose run was gone, calls that were given up, and (session, join) that this
    completed."""

    lost: tuple[str, ...] = ()
    expired: tuple[str, ...] = ()
    complete: tuple[tuple[str, str], ...] = ()


def sweep(using: str, *, workspace: str | None = None, limit: int = sweeping.LIMIT) -> Round:
    """Make one round through `workspace`, or through all of them. Any number of processes may do this at once.

    `limit` is for each workspace and each kind. Raises `WorkspaceNotFound`.
    """
    done = Round()
    for slug in _all(using) if workspace is None else [workspace]:
        store = Store(using, slug)
        lost = sweeping.sweep_lost_runs(store, limit=limit)
        swept = deadlines.sweep(store, limit=limit)
        done = Round((*done.lost, *lost), (*done.expired, *swept.expired), (*done.complete, *swept.complete))
    return done


def _all(using: str) -> list[str]:
    with operation(using, writes=False):
        return list(Workspace.objects.using(using).order_by("pk").values_list("slug", flat=True))
