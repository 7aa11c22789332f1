"""Where several people have to say the same about a call: who has said what so far."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from checkpoints.enums import DECIDING, DecisionKind
from checkpoints.models import Decision, ToolCall
from checkpoints.resuming.electorate import Electorate, Voice, everybody

_UNKNOWN = Voice("", counts=False)


@dataclass(frozen=True, slots=True)
class Agreement:
    """`voices` of the `needed` people have decided so, oldest first."""

    kind: DecisionKind
    needed: int
    voices: tuple[Decision, ...]
    #: Of how many people they are.
    people: int


def agreements(
    call: ToolCall, decisions: Sequence[Decision], electorate: Electorate = everybody
) -> tuple[Agreement, ...]:
    """What waits for somebody else to agree, by what was decided. `decisions` are all of the call's, in order.

    What was said before the last final decision, about other arguments, or by somebody who may not decide any more does
    not count.
    """
    spoken = electorate(decisions) if call.approvals > 1 else {}
    return _agreements(call, decisions, spoken)


def _agreements(call: ToolCall, decisions: Iterable[Decision], spoken: Mapping[int, Voice]) -> tuple[Agreement, ...]:
    said: defaultdict[str, list[Decision]] = defaultdict(list)
    for made in decisions:
        if made.kind not in DECIDING:
            continue
        if made.final:
            said.clear()
        elif made.args_digest == call.args_digest and spoken.get(made.pk, _UNKNOWN).counts:
            said[made.kind].append(made)
    return tuple(
        Agreement(DecisionKind(kind), call.approvals, tuple(voices), len({spoken[voice.pk].person for voice in voices}))
        for kind, voices in said.items()
    )


def of_calls(calls: Sequence[ToolCall], electorate: Electorate = everybody) -> dict[int, tuple[Agreement, ...]]:
    """The agreements of each call that needs several people, by its primary key; one query, and the electorate's."""
    shared = {call.pk: call for call in calls if call.approvals > 1}
    made: defaultdict[int, list[Decision]] = defaultdict(list)
    for decision in _decisions(sorted(shared)) if shared else ():
        made[decision.tool_call_id].append(decision)
    spoken = electorate([decision for each in made.values() for decision in each]) if made else {}
    return {pk: _agreements(call, made[pk], spoken) for pk, call in shared.items()}


def _decisions(calls: list[int]) -> QuerySet[Decision]:
    return Decision.objects.filter(tool_call__in=calls).order_by("pk")


def places(decisions: Iterable[Decision]) -> dict[int, int]:
    """Primary key of a decision → its number among those that said the same. `decisions`: a call's, in order."""
    said: defaultdict[str, int] = defaultdict(int)
    found: dict[int, int] = {}
    for made in decisions:
        if made.kind not in DECIDING:
            continue
        said[made.kind] += 1
        found[made.pk] = said[made.kind]
        if made.final:
            said.clear()
    return found
