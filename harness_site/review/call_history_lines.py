"""Lines of the history of a call: repeated events are folded into one, and a line begins a day where that changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby
from typing import Final

from django.utils import timezone
from django.utils.translation import ngettext

from checkpoints.db import clock
from harness_site.core.formatting import convert_to_zone
from harness_site.review.call_event_history import CallHistoryEvent

#: Events that say no more the second time: a check without an outcome and its request, and runs that come and go.
_REPEATED_KINDS: Final = frozenset({"probe", "requested", "took", "later_run", "lost"})
#: Fewer events in a row stay as they are.
_MIN_FOLDED_EVENTS: Final = 4


@dataclass(frozen=True, slots=True)
class CallHistoryLine:
    """Line of the history: one `event`, or several `folded` events; `day` is the day that begins with it, if one
    does."""

    event: CallHistoryEvent
    day: date | None
    folded: Sequence[CallHistoryLine] = ()

    @property
    def summaries(self) -> list[str]:
        """How often what has happened among the folded events, with a text for each kind of event."""
        kinds = [line.event.kind for line in self.folded]
        checks, losses, starts = (
            kinds.count("probe"),
            kinds.count("lost"),
            kinds.count("took") + kinds.count("later_run"),
        )
        texts = [
            ngettext(
                "The tool’s own check ran once: outcome still unknown",
                "The tool’s own check ran %(number)s times: outcome still unknown",
                checks,
            )
            % {"number": checks}
            if checks
            else "",
            ngettext("%(number)s run continued the session", "%(number)s runs continued the session", starts)
            % {"number": starts}
            if starts
            else "",
            ngettext("%(number)s run was lost", "%(number)s runs were lost", losses) % {"number": losses}
            if losses
            else "",
        ]
        return list(filter(None, texts))


def list_call_history_lines(events: Sequence[CallHistoryEvent]) -> list[CallHistoryLine]:
    """List the lines of the history of a call.

    A line has a `day` if it is the first one of another day than the line before it, in the reader's time zone; the
    first line has one unless it is of today.
    """
    return list(_build_lines(events, _get_day(clock.now()), is_folding=True))


def _build_lines(events: Sequence[CallHistoryEvent], last_day: date, *, is_folding: bool) -> Iterator[CallHistoryLine]:
    for group in _group_repeated_events(events) if is_folding else ([event] for event in events):
        first = group[0]
        day = last_day if first.at is None else _get_day(first.at)
        folded = tuple(_build_lines(group, day, is_folding=False)) if len(group) > 1 else ()
        yield CallHistoryLine(first, None if day == last_day else day, folded)
        last_day = day


def _group_repeated_events(events: Sequence[CallHistoryEvent]) -> Iterator[list[CallHistoryEvent]]:
    for is_repeated, group in groupby(_pair_events_with_whether_foldable(events), key=lambda pair: pair[0]):
        members = [event for _is_repeated, event in group]
        if is_repeated and len(members) >= _MIN_FOLDED_EVENTS:
            yield members
        else:
            yield from ([event] for event in members)


def _pair_events_with_whether_foldable(events: Iterable[CallHistoryEvent]) -> Iterator[tuple[bool, CallHistoryEvent]]:
    """Pair each event with whether it may be folded: not a takeover, and not the loss that has interrupted the call."""
    before = ""
    for event in events:
        is_loss_of_call = event.kind == "lost" and before == "gap"
        yield event.kind in _REPEATED_KINDS and event.takeover is None and not is_loss_of_call, event
        before = event.kind


def _get_day(moment: datetime) -> date:
    return convert_to_zone(moment, timezone.get_current_timezone()).date()
