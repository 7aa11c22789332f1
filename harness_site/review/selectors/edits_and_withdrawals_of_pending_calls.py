"""What people did to calls that wait for a decision: changed their arguments, or withdrew a decision about them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from django.db.models import QuerySet

from checkpoints.decisions.vote_and_electorate_types import Electorate, map_decisions_to_votes_of_actors
from checkpoints.enums import DECIDING_KINDS, DecisionKind
from checkpoints.models import Decision, ToolCall
from checkpoints.models.decision import get_args_json_before_edit
from harness_site.core import masked_formatting
from harness_site.sessions.selectors.multi_person_decisions import has_votes_of_others


@dataclass(frozen=True, slots=True)
class ChangesOfWaitingCall:
    """Edits of the arguments, in their order, and the withdrawal after which the call waits again."""

    edits: tuple[Decision, ...] = ()
    withdrawal: Decision | None = None
    #: Whether the withdrawal cancelled the votes of other people, too.
    cancels_others: bool = False

    @property
    def editors(self) -> tuple[str, ...]:
        """Names of those who changed the arguments, each once."""
        return tuple(dict.fromkeys(edit.actor for edit in self.edits))

    def get_arguments_before_first_edit(self) -> Any:
        """Return the arguments before the first edit; None if they are not known."""
        before = get_args_json_before_edit(self.edits[0].evidence) if self.edits else None
        return None if before is None else masked_formatting.parse_json_or_text(before)


UNCHANGED: Final = ChangesOfWaitingCall()


def load_changes_of_waiting_calls(
    calls: Iterable[ToolCall], electorate: Electorate = map_decisions_to_votes_of_actors
) -> dict[int, ChangesOfWaitingCall]:
    """Load what people did to these calls, by primary key.

    This is one query, none if nobody has decided about them, and those of the electorate if a decision about which
    several people had to agree was withdrawn.
    """
    decided = {call.pk: call for call in calls if call.revision > 1}
    decisions: defaultdict[int, list[Decision]] = defaultdict(list)
    for decision in _select_decisions_in_order().filter(tool_call__pk__in=sorted(decided)) if decided else ():
        decisions[decision.tool_call_id].append(decision)
    withdrawn = {pk: ended for pk, made in decisions.items() if (ended := _find_withdrawn_decision(made))}
    of_several = [made for pk in withdrawn if decided[pk].approvals > 1 for made in decisions[pk]]
    votes = electorate(of_several) if of_several else {}
    return {
        pk: ChangesOfWaitingCall(
            tuple(decision for decision in final if decision.kind == DecisionKind.EDIT),
            final[-1] if final[-1].kind == DecisionKind.WITHDRAW else None,
            cancels_others=pk in withdrawn and has_votes_of_others(withdrawn[pk], decisions[pk], votes),
        )
        for pk, made in decisions.items()
        if (final := [decision for decision in made if decision.final])
    }


@cache
def _select_decisions_in_order() -> QuerySet[Decision]:
    return Decision.objects.filter(kind__in=sorted(DECIDING_KINDS)).order_by(*Decision.IN_ORDER)


def _find_withdrawn_decision(decisions: Sequence[Decision]) -> Decision | None:
    """Return the decision that the last final one, a withdrawal, has ended; None if that is no withdrawal."""
    final = [decision for decision in decisions if decision.final]
    return final[-2] if len(final) > 1 and final[-1].kind == DecisionKind.WITHDRAW else None
