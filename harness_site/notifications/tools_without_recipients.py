"""Tools of which nobody is told, because the filters of all recipients leave them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness_site.notifications.models import FILTERED_EVENTS, Event, Notice
from harness_site.notifications.recipients import Recipient, list_recipients_without_filters

#: Newest notices of a workspace whose tools are looked at.
_MAX_NOTICES: Final = 1_000
#: Maximum number of tools that are named.
_MAX_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class FilterGap:
    """Recipients who would be told of calls without their filters, which leave some tool to nobody.

    `tools` are tools that have waited for a decision and that all of them leave out; `more` is the number of others.
    """

    people: int
    webhooks: int
    tools: tuple[str, ...]
    more: int


def find_filter_gap(workspace: int) -> FilterGap | None:
    """Return what the filters of all recipients leave out; None if some recipient has no filter, or nobody is told of
    calls anyway."""
    gaps = {
        event: of_event
        for event, of_event in list_recipients_without_filters(workspace, FILTERED_EVENTS).items()
        if of_event and all(recipient.call_filter.has_call_filter for recipient in of_event)
    }
    if not gaps:
        return None
    tools = _list_tools_left_out(workspace, gaps)
    names = {recipient.label for of_event in gaps.values() for recipient in of_event if recipient.user is not None}
    hooks = {recipient.webhook.pk for of_event in gaps.values() for recipient in of_event if recipient.webhook}
    return FilterGap(len(names), len(hooks), tuple(tools[:_MAX_NAMED]), max(0, len(tools) - _MAX_NAMED))


def _list_tools_left_out(workspace: int, gaps: dict[Event, list[Recipient]]) -> list[str]:
    newest = Notice.objects.filter(workspace=workspace).order_by("-pk").values_list("event", "tool", "is_high_risk")
    return sorted(
        {
            tool
            for event, tool, is_high_risk in set(newest[:_MAX_NOTICES])
            if event in gaps
            and not any(
                recipient.call_filter.lets_call_through(event, tool, is_high_risk=is_high_risk)
                for recipient in gaps[Event(event)]
            )
        }
    )
