"""Calls of one tool that await approval by the same number of people, so that one answer can be about all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cache
from typing import Final
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import QueryDict
from django.urls import reverse

from checkpoints.enums import CallStatus
from checkpoints.models import ToolCall, Workspace
from checkpoints.models.tool_calls_and_results import IS_QUESTION
from harness_site.core.masking.encrypted_names_in_urls import decrypt_name_if_encrypted, encrypt_name_if_masked
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord, load_rows_or_mark_unreadable
from harness_site.review.selectors.outage_groups import PAGE
from harness_site.review.selectors.pending_calls import (
    COUNT_LIMIT,
    BoundedCount,
    CallFilters,
    query_pending_calls,
    select_calls_of_status,
)

_NOT_COUNTED: Final = BoundedCount(0)
#: Parameters of the list of waiting calls that filter the calls of a tool.
_FILTER_PARAMETERS: Final = ("q", "agent", "risk", "age", "deadline", "claimed")


@dataclass(frozen=True, slots=True)
class SameApprovalGroup:
    """The calls of `tool` that await approval by `people` and match the filters, `number` of them."""

    tool: str
    people: int
    number: BoundedCount = _NOT_COUNTED
    #: Other parameters of the list of waiting calls that filter the calls, with their values.
    filters: tuple[tuple[str, str], ...] = ()

    @property
    def url(self) -> str:
        return f"{reverse('harness_review:same-approvals')}?{self.query}"

    @property
    def url_without_filters(self) -> str:
        return replace(self, filters=()).url

    @property
    def query(self) -> str:
        query = {"tool": encrypt_name_if_masked(self.tool), "people": self.people, **dict(self.filters)}
        return urlencode(query)


def parse_same_approval_group(query: QueryDict) -> SameApprovalGroup:
    people = query.get("people", "")
    tool = decrypt_name_if_encrypted(query.get("tool", "").replace("\0", ""))
    number = int(people) if people.isascii() and people.isdecimal() and len(people) < 5 else 1
    return SameApprovalGroup(tool, number, filters=_select_filter_parameters(query))


def _select_filter_parameters(query: QueryDict) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name in _FILTER_PARAMETERS if (value := query.get(name)))


def list_groups_of_calls_awaiting_same_approval(
    workspace: Workspace,
    query: QueryDict,
    filters: CallFilters,
    *,
    except_calls: Collection[int],
    min_number: int = 2,
) -> list[SameApprovalGroup]:
    """Count the matching calls that await the same approval, in the order of the first ones.

    `query` is that of the list, and `filters` are its filters. `COUNT_LIMIT` calls are counted, the longest waiting
    ones. Groups of fewer than `min_number` calls are left out.
    """
    if filters:
        calls = _select_tools_and_needed_approvals_by_age(
            query_pending_calls(workspace, CallStatus.AWAITING_APPROVAL, filters)
        )
    else:
        calls = _select_tools_and_needed_approvals_of_all().filter(workspace=workspace.pk)
    found = list(calls[: COUNT_LIMIT + 1])
    has_more = len(found) > COUNT_LIMIT
    numbers = Counter((tool, people) for pk, tool, people in found[:COUNT_LIMIT] if pk not in except_calls)
    return [
        SameApprovalGroup(tool, people, BoundedCount(number, has_more), _select_filter_parameters(query))
        for (tool, people), number in numbers.items()
        if number >= min_number
    ]


def _select_tools_and_needed_approvals_by_age(calls: QuerySet[ToolCall]) -> QuerySet[ToolCall, tuple[int, str, int]]:
    return calls.exclude(IS_QUESTION).order_by("issued_at", "pk").values_list("pk", "tool", "approvals")


@cache
def _select_tools_and_needed_approvals_of_all() -> QuerySet[ToolCall, tuple[int, str, int]]:
    return _select_tools_and_needed_approvals_by_age(select_calls_of_status(CallStatus.AWAITING_APPROVAL))


def _is_tool_call_awaiting_approval(call: ToolCall) -> bool:
    return call.status == CallStatus.AWAITING_APPROVAL and not call.is_question


def load_calls_awaiting_same_approval(
    workspace: Workspace, group: SameApprovalGroup, filters: CallFilters
) -> list[ToolCall | UnreadableRecord]:
    """Load the first `PAGE` calls of a group that match, with their sessions, the longest waiting first."""
    calls = query_pending_calls(workspace, CallStatus.AWAITING_APPROVAL, replace(filters, tool=group.tool))
    calls = calls.filter(approvals=group.people).select_related("session__workspace", "run").order_by("issued_at", "pk")
    loaded = load_rows_or_mark_unreadable(calls[:PAGE], "call", session_column="session_id")
    return [call for call in loaded if isinstance(call, UnreadableRecord) or _is_tool_call_awaiting_approval(call)]
