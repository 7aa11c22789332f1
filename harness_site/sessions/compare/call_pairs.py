"""Logged calls of two sessions side by side, with those that ended differently."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher

from harness_site.sessions.selectors.call_records import CallRecord
from harness_site.sessions.selectors.calls_between_versions import FirstCallsAndCount
from harness_site.sessions.session_and_call_status_chips import get_call_record_shape_and_label


@dataclass(frozen=True, slots=True)
class CallPair:
    """The calls of the same tool at the same place of two sessions; None where a session has no such call."""

    first: CallRecord | None
    second: CallRecord | None

    @property
    def ended_differently(self) -> bool:
        if self.first is None or self.second is None:
            return False
        return get_call_record_shape_and_label(self.first) != get_call_record_shape_and_label(self.second)


def pair_calls_of_two_sessions(first: FirstCallsAndCount, second: FirstCallsAndCount) -> tuple[CallPair, ...]:
    """Pair the calls of two sessions in their order: those of the same tool with each other, the others with none."""
    tools = [record.tool for record in first.first], [record.tool for record in second.first]
    pairs: list[CallPair] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, *tools, autojunk=False).get_opcodes():
        before, after = first.first[i1:i2], second.first[j1:j2]
        if tag == "equal":
            pairs += map(CallPair, before, after)
        else:
            pairs += [CallPair(one, None) for one in before]
            pairs += [CallPair(None, other) for other in after]
    return tuple(pairs)
