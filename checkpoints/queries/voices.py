"""Where several people have to say the same about a call: who has said what so far."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from checkpoints.enums import DECIDING, DecisionKind
from checkpoints.models import Decision, ToolCall


@dataclass(frozen=True, slots=True)
class Agreement:
    """`voices` of the `needed` people have decided so, oldest first."""

    kind: DecisionKind
    needed: int
    voices: tuple[Decision, ...]

    @property
    def people(self) -> int:
        return len({voice.actor for voice in self.voices})

    def includes(self, actor: str) -> bool:
        return any(voice.actor == actor for voice in self.voices)


def agreements(call: ToolCall, decisions: Iterable[Decision]) -> tuple[Agreement, ...]:
    """What waits for somebody else to agree, by what was decided. `decisions` are all of the call's, in order.

    What was said before the last final decision, or about other arguments, does not count any more.
    """
    said: defaultdict[str, list[Decision]] = defaultdict(list)
    for made in decisions:
        if made.kind not in DECIDING:
            continue
        if made.final:
            said.clear()
        elif made.args_digest == call.args_digest:
            said[made.kind].append(made)
    return tuple(Agreement(DecisionKind(kind), call.approvals, tuple(voices)) for kind, voices in said.items())


def of_calls(calls: Sequence[ToolCall]) -> dict[int, tuple[Agreement, ...]]:
    """The agreements of each call that needs several people, by its primary key; one query."""
    shared = {call.pk: call for call in calls if call.approvals > 1}
    made: defaultdict[int, list[Decision]] = defaultdict(list)
    for decision in Decision.objects.filter(tool_call__in=sorted(shared)).order_by("pk"):
        made[decision.tool_call_id].append(decision)
    return {pk: agreements(call, made[pk]) for pk, call in shared.items()}


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
