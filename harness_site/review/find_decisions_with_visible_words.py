"""Search of the decisions by the text that the reader can see of them and of their calls.

The newest decisions are read and compared one by one, up to a limit. What is masked for the reader is not found.
"""

from __future__ import annotations

from typing import Any, Final

from django.db.models import F, QuerySet

from checkpoints.models import Decision, Workspace
from harness_site.review.find_rows_with_visible_words import (
    SEARCHED_COLUMNS,
    FoundRows,
    build_searched_arguments_expression,
    find_rows_with_words,
)
from harness_site.review.selectors.decided_calls import DecisionFilters, query_decisions
from harness_site.review.selectors.pending_calls import CallFilters

#: Number of decisions that are searched: the newest of those that match the other filters.
SEARCHED_DECISIONS: Final = 500


def find_decisions_with_words(
    workspace: Workspace, text: str, filters: CallFilters, wanted: DecisionFilters
) -> FoundRows:
    """Find the decisions that match the filters and in whose visible text each of the words of `text` occurs.

    The text is that of the call, as in `find_waiting_calls_with_words`, with the reason and the name of the person.
    Case is ignored. Two queries.
    """
    newest = _select_searched_columns(query_decisions(workspace, filters, wanted))
    decisions = list(newest.order_by("-pk")[: SEARCHED_DECISIONS + 1])
    are_all = len(decisions) <= SEARCHED_DECISIONS
    return find_rows_with_words(decisions[:SEARCHED_DECISIONS], text, are_all_rows=are_all)


def _select_searched_columns(decisions: QuerySet[Decision]) -> QuerySet[Any, Any]:
    columns: QuerySet[Any, Any] = decisions.annotate(
        tool=F("tool_call__tool"),
        call_id=F("tool_call__call_id"),
        sentence=F("tool_call__sentence"),
        searched_args=build_searched_arguments_expression("tool_call__args"),
    ).values_list(*SEARCHED_COLUMNS, "reason", "actor", named=True)
    return columns
