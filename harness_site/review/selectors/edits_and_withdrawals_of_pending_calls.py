"""What people did to calls that wait for a decision: changed their arguments, or withdrew a decision about them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from checkpoints.enums import DECIDING_KINDS, DecisionKind
from checkpoints.models import Decision, ToolCall
from harness_site.core import formatting


@dataclass(frozen=True, slots=True)
class ChangesOfWaitingCall:
    """Edits of the arguments, in their order, and the withdrawal after which the call waits again."""

    edits: tuple[Decision, ...] = ()
    withdrawal: Decision | None = None

    @property
    def editors(self) -> tuple[str, ...]:
        """Names of those who changed the arguments, each once."""
        return tuple(dict.fromkeys(edit.actor for edit in self.edits))

    def get_arguments_before(self) -> Any:
        """Return the arguments before the first edit; None if they are not known."""
        evidence = formatting.parse_json_or_text(self.edits[0].evidence or "{}") if self.edits else {}
        before = evidence.get("args_before") if isinstance(evidence, dict) else None
        return formatting.parse_json_or_text(before) if isinstance(before, str) else None


UNCHANGED: Final = ChangesOfWaitingCall()


def load_changes_of_waiting_calls(calls: Iterable[ToolCall]) -> dict[int, ChangesOfWaitingCall]:
    """Load what people did to these calls, by primary key; one query, none if nobody has decided about them."""
    pks = sorted(call.pk for call in calls if call.revision > 1)
    decisions: defaultdict[int, list[Decision]] = defaultdict(list)
    final = Decision.objects.filter(tool_call__in=pks, kind__in=sorted(DECIDING_KINDS), final=True)
    for decision in final.order_by(*Decision.IN_ORDER) if pks else ():
        decisions[decision.tool_call_id].append(decision)
    return {
        pk: ChangesOfWaitingCall(
            tuple(decision for decision in made if decision.kind == DecisionKind.EDIT),
            made[-1] if made[-1].kind == DecisionKind.WITHDRAW else None,
        )
        for pk, made in decisions.items()
    }
