"""Fields of recipients that limit the calls they are told of."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Final

from django.db import models
from django.utils.translation import gettext as _

from checkpoints.models.tool_calls_and_results import INTERRUPT_TOOL
from harness_site.notifications.models.notice import Event

#: Events that a filter leaves out. The others are about a deadline or concern one person, and must not be lost.
FILTERED_EVENTS: Final = frozenset({Event.INTERRUPTED, Event.AWAITING_APPROVAL})


def normalize_tool_patterns(text: str) -> str:
    """Return patterns of tool names separated by a comma and a space, each once. They may have been typed in lines."""
    return ", ".join(dict.fromkeys(filter(None, (pattern.strip() for pattern in re.split(r"[,\n]", text)))))


def split_tool_patterns(normalized: str) -> list[str]:
    """Split what `normalize_tool_patterns` has joined."""
    return normalized.split(", ") if normalized else []


class CallFilter(models.Model):
    """Filter of the calls that a recipient is told of; by default, of all.

    Questions of agents have neither a tool nor a risk, so no filter leaves them out.
    """

    #: Patterns of `fnmatch`, separated by commas; empty for all tools.
    tool_patterns = models.CharField(max_length=500, blank=True, default="")
    only_high_risk = models.BooleanField(default=False)

    class Meta:
        abstract = True

    @property
    def has_call_filter(self) -> bool:
        return bool(self.tool_patterns) or self.only_high_risk

    def lets_call_through(self, event: str, tool: str, *, is_high_risk: bool) -> bool:
        """Return whether the recipient is told of an event of a call of `tool`."""
        if event not in FILTERED_EVENTS or tool == INTERRUPT_TOOL:
            return True
        if self.only_high_risk and not is_high_risk:
            return False
        patterns = split_tool_patterns(self.tool_patterns) or ["*"]
        return any(fnmatchcase(tool, pattern) for pattern in patterns)

    def describe_call_filter(self) -> str:
        """Return the sentence that says of which calls the recipient is told."""
        values = {"tools": self.tool_patterns}
        if self.tool_patterns and self.only_high_risk:
            return _("You are told of calls with a high risk of these tools: %(tools)s.") % values
        if self.tool_patterns:
            return _("You are told of calls of these tools: %(tools)s.") % values
        return _("You are told of calls with a high risk.") if self.only_high_risk else _("You are told of all calls.")
