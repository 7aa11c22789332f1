"""Rows of outages, each a group of calls that were interrupted together, with the links that filter by their agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext

from harness_site.core import call_sentences, formatting
from harness_site.core.money_amounts_in_call_arguments import Amount
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord
from harness_site.review.selectors.outage_groups import Outage
from harness_site.templatetags.harness_tags import put_in_quotation_marks


@dataclass(frozen=True, slots=True)
class OutageCallLine:
    """Call in the row of an outage, masked for the reader.

    What only a call has whose seal matches is empty for any other. `agent` is not masked.
    """

    pk: int
    address: str
    sentence: str
    session_id: str = ""
    agent: str = ""
    error_message: str = ""
    amount: Amount | None = None
    risk: str = ""


@dataclass(frozen=True, slots=True)
class OutageGroupRow:
    """Group of calls of an outage, its agents and first calls, and the URL of its page.

    `error_type` is empty if their runs were lost. `title` is masked.
    """

    tool: str
    error_type: str
    title: str
    first: datetime
    last: datetime
    number: int
    address: str
    calls: tuple[OutageCallLine | UnreadableRecord, ...] = ()
    #: Agents of the calls with the numbers of their calls, the one with the most of them first.
    agents: tuple[tuple[FilterLink, int], ...] = ()
    #: Number of agents that are not named.
    other_agents_count: int = 0
    #: Why the outcome is unknown: the message that the errors of the first calls have in common, or that their
    #: processes ended; empty if the messages differ.
    cause: str = ""
    #: Sum of the amounts; empty if the row does not have all calls, or if they cannot be added.
    amount: str = ""
    #: HTML of a link to the calls of the highest risk that the first calls show, if one shows its own; else empty.
    risk: str = ""

    @property
    def first_timestamp_seconds(self) -> int:
        """Time of the first interruption in seconds since 1970."""
        return int(self.first.timestamp())

    @property
    def is_within_one_second(self) -> bool:
        """Whether pages show the same time for the first and the last interruption."""
        return self.first_timestamp_seconds == int(self.last.timestamp())

    @property
    def omitted_count(self) -> int:
        """Number of calls that are on its page only."""
        return max(self.number - len(self.calls), 0)


def format_outage_title(outage: Outage) -> str:
    """Format what happened to the calls of an outage, masked. It claims no common cause, which nobody knows.

    The duration is that between its first and its last time as pages show them, in whole seconds.
    """
    words = {
        "number": formatting.format_number(outage.number),
        "tool": call_sentences.mask_and_format_tool_name(outage.tool),
    }
    seconds = (outage.last.replace(microsecond=0) - outage.first.replace(microsecond=0)).total_seconds()
    words["time"] = formatting.format_duration_rounded_up(max(seconds, 1))
    if not seconds and not outage.error_type:
        return gettext("{number} calls of {tool} interrupted in the same second").format(**words)
    if not outage.error_type:
        return gettext("{number} calls of {tool} interrupted within {time}").format(**words)
    words["error"] = mask_and_reveal_hidden(outage.error_type)
    if not seconds:
        return gettext("{number} calls of {tool} interrupted by {error} in the same second").format(**words)
    return gettext("{number} calls of {tool} interrupted by {error} within {time}").format(**words)


@dataclass(frozen=True, slots=True)
class FilterLink:
    """A name, masked for the reader, with the URL of the queue filtered by it, and the accessible name of the link."""

    name: str
    address: str
    label: str


def describe_common_cause(outage: Outage, lines: Sequence[OutageCallLine]) -> str:
    if not outage.error_type:
        return gettext("The processes ended during these calls")
    messages = {line.error_message for line in lines}
    return put_in_quotation_marks(messages.pop()) if len(messages) == 1 and "" not in messages else ""
