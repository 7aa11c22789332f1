"""Search of the waiting calls by the text that the reader can see of them.

Few calls wait, so they are read and compared one by one, up to a limit. What is masked for the reader is not found.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from django.db.models import QuerySet

from checkpoints.enums import UNDECIDED_CALL_STATUSES, CallStatus
from checkpoints.models import Workspace
from harness_site.review.find_rows_with_visible_words import (
    SEARCHED_COLUMNS,
    FoundRows,
    build_searched_arguments_expression,
    find_rows_with_words,
)
from harness_site.review.selectors.pending_calls import select_undecided_calls
from harness_site.review.selectors.queue_order import WAITING_SINCE

#: Number of calls of each status that are searched: those that wait longest.
SEARCHED_CALLS: Final = 300


def find_waiting_calls_with_words(workspace: Workspace, text: str) -> FoundRows:
    """Find the waiting calls in whose visible text each of the words of `text` occurs; four queries.

    The text is the sentence, the values of the arguments, the names of the tool and the agent, and the ids of the call
    and of its session. Case is ignored.
    """
    rows, are_all_rows = list[Any](), True
    for status in sorted(UNDECIDED_CALL_STATUSES):
        calls = list(_select_searched_columns(status).filter(workspace=workspace)[: SEARCHED_CALLS + 1])
        are_all_rows = are_all_rows and len(calls) <= SEARCHED_CALLS
        rows += calls[:SEARCHED_CALLS]
    return find_rows_with_words(rows, text, are_all_rows=are_all_rows)


@cache
def _select_searched_columns(status: CallStatus) -> QuerySet[Any, Any]:
    calls = select_undecided_calls(status).annotate(searched_args=build_searched_arguments_expression("args"))
    ordered = calls.order_by(WAITING_SINCE, "pk")
    columns: QuerySet[Any, Any] = ordered.values_list(*SEARCHED_COLUMNS, named=True)
    return columns
