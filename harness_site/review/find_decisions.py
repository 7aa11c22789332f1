"""Search of the decisions by the text that the reader can see of them and of their calls.

The newest decisions are read and compared one by one, up to a limit. What is masked for the reader is not found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.db.models import F, QuerySet

from checkpoints.models import Decision, Workspace
from harness_site.review import find_waiting_calls
from harness_site.review.selectors.decided_calls import DecisionFilters, query_decisions
from harness_site.review.selectors.pending_calls import CallFilters

#: Number of decisions that are searched, the newest of those that match the other filters, and number of those that can
#: be found.
SEARCHED_DECISIONS: Final = 500
MOST_FOUND: Final = 100


@dataclass(frozen=True, slots=True)
class FoundDecisions:
    """Keys of the decisions that were found; `is_complete` says whether all that match were searched."""

    pks: frozenset[int] = frozenset()
    is_complete: bool = True


def find_decisions_with_words(
    workspace: Workspace, text: str, filters: CallFilters, wanted: DecisionFilters
) -> FoundDecisions:
    """Find the decisions that match the filters and in whose visible text each of the words of `text` occurs.

    The text is that of the call, as in `find_waiting_calls_with_words`, with the reason and the name of the person.
    Case is ignored. Two queries.
    """
    words = text.casefold().split()
    newest = _select_searched_columns(query_decisions(workspace, filters, wanted))
    decisions = list(newest.order_by("-pk")[: SEARCHED_DECISIONS + 1])
    candidates = find_waiting_calls.find_rows_with_words_before_masking(decisions[:SEARCHED_DECISIONS], words)
    found = find_waiting_calls.find_visible_rows_with_words(candidates[:MOST_FOUND], words)
    is_complete = len(decisions) <= SEARCHED_DECISIONS
    # Without a decision to show, the number of candidates would say how many have these words in a masked text.
    return FoundDecisions(found, is_complete and (len(candidates) <= MOST_FOUND or not found))


def _select_searched_columns(decisions: QuerySet[Decision]) -> QuerySet[Any, Any]:
    columns: QuerySet[Any, Any] = decisions.annotate(
        tool=F("tool_call__tool"),
        call_id=F("tool_call__call_id"),
        sentence=F("tool_call__sentence"),
        searched_args=find_waiting_calls.select_arguments_to_search("tool_call__args"),
    ).values_list(*find_waiting_calls.SEARCHED_COLUMNS, "reason", "actor", named=True)
    return columns
