"""Deciding about many calls, each by what a late witness says about it: one decision, one record, one refusal each."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from checkpoints.enums import DecisionKind
from checkpoints.exceptions import CheckpointsError
from checkpoints.models import LateResult, ToolCall
from checkpoints.queries import outages
from checkpoints.queries.outages import Witness
from checkpoints.resuming.actors import Actor
from checkpoints.resuming.decisions import decide
from checkpoints.saving.store import Store
from harness_site import wording
from harness_site.accounts.models import Membership
from harness_site.review import claims
from harness_site.review.problems import NOTHING, Problem, problem
from harness_site.review.recording import call_target


@dataclass(frozen=True, slots=True)
class Chosen:
    """A call as somebody saw it: its key, its revision, and what its evidence said then."""

    pk: int
    revision: int
    kind: DecisionKind

    @classmethod
    def parse(cls, text: str) -> Self | None:
        pk, _, rest = text.partition(".")
        revision, _, kind = rest.partition(".")
        if kind not in DecisionKind.values or not all(part.isdecimal() and len(part) < 19 for part in (pk, revision)):
            return None
        return cls(int(pk), int(revision), DecisionKind(kind))

    def __str__(self) -> str:
        return f"{self.pk}.{self.revision}.{self.kind}"


@dataclass(frozen=True, slots=True)
class Settled:
    """What came of it for one call; `refused` is None where it was recorded. `final` is False where others still have
    to agree."""

    call: ToolCall
    kind: DecisionKind
    refused: Problem | None
    final: bool = True


def settle_all(chosen: Sequence[Chosen], *, by: Membership, actor: Actor, reason: str) -> list[Settled]:
    """Record a decision about each of these calls of the workspace, in this order. None depends on another."""
    store = Store(workspace=by.workspace.slug)
    pks = [one.pk for one in chosen]
    calls = ToolCall.objects.filter(workspace=by.workspace, pk__in=pks).select_related("session", "run")
    found = {call.pk: call for call in calls}
    late: defaultdict[int, list[LateResult]] = defaultdict(list)
    for result in LateResult.objects.filter(tool_call__in=found).select_related("run").order_by("pk"):
        late[result.tool_call_id].append(result)
    return [
        _settle(store, found[one.pk], one, outages.witness(late[one.pk]), by=by, actor=actor, reason=reason)
        for one in chosen
        if one.pk in found
    ]


def _settle(
    store: Store,
    call: ToolCall,
    seen: Chosen,
    witness: Witness | None,
    *,
    by: Membership,
    actor: Actor,
    reason: str,
) -> Settled:
    if witness is None or witness.kind != seen.kind:
        what = "The late results say something else since you looked, or no longer the same."
        return Settled(call, seen.kind, Problem(409, what, f"{NOTHING} Look at the call by itself."))
    try:
        _decide(store, call, seen, witness, actor, reason)
    except CheckpointsError as error:
        call.refresh_from_db()
        return Settled(call, seen.kind, problem(error, call))
    claims.settle(call, by=by)
    return Settled(call, seen.kind, None, final=not call.undecided)


def _decide(store: Store, call: ToolCall, seen: Chosen, witness: Witness, actor: Actor, reason: str) -> None:
    late = witness.late
    told = f"reported {'success' if late.success else 'a failure'} at {wording.exact(late.received_at)}."
    decide(
        store,
        call_target(call, seen.revision),
        seen.kind,
        actor=actor,
        reason=reason,
        result=witness.result if seen.kind == DecisionKind.CONFIRM_LANDED else None,
        evidence={"text": f"Run {'?' if late.run is None else late.run.number} {told}", "late_result": late.pk},
    )
