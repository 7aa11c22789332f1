"""Tools of a workspace that filters of calls may name, and the patterns of a filter that none of them matches."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from checkpoints.enums import UNDECIDED_CALL_STATUSES
from checkpoints.models import ToolCall
from checkpoints.models.tool_calls_and_results import INTERRUPT_TOOL
from harness_site.core.masking.masker import mask_text
from harness_site.core.similar_known_names import find_similar_names
from harness_site.notifications.models import Notice, split_tool_patterns
from harness_site.search.models import ToolSums

#: Newest calls, undecided calls, notices, and days of tools by agent, whose tools are read for suggestions.
_READ_CALLS: Final = 500
_READ_UNDECIDED_CALLS: Final = 1_000
_READ_NOTICES: Final = 1_000
_READ_SUMS: Final = 5_000
#: Most patterns that a warning names.
_MAX_NAMED_PATTERNS: Final = 5


@dataclass(frozen=True, slots=True)
class KnownTools:
    """Names of tools as the current reader may see them, so that masked parts cannot be guessed.

    `suggestions` are those without a masked part, in order.
    """

    names: frozenset[str]
    suggestions: tuple[str, ...]

    def __or__(self, other: KnownTools) -> KnownTools:
        return KnownTools(
            self.names | other.names, tuple(sorted({*self.suggestions, *other.suggestions}, key=str.casefold))
        )


NO_TOOLS: Final = KnownTools(frozenset(), ())


def load_known_tools(workspace: int) -> KnownTools:
    """Load the tools of the newest calls, notices and sums of a workspace, in four queries.

    The masking rules of the reader apply.
    """
    calls = ToolCall.objects.filter(workspace=workspace)
    undecided = calls.filter(status__in=sorted(UNDECIDED_CALL_STATUSES))
    notices = Notice.objects.filter(workspace=workspace)
    return _build_known_tools(
        [
            *calls.order_by("-issued_at", "-pk").values_list("tool", flat=True)[:_READ_CALLS],
            *undecided.values_list("tool", flat=True)[:_READ_UNDECIDED_CALLS],
            *notices.order_by("-pk").values_list("tool", flat=True)[:_READ_NOTICES],
            *_select_tools_of_sums(workspace).order_by("-start")[:_READ_SUMS],
        ]
    )


def list_patterns_without_tool(tool_patterns: str, known: KnownTools, workspaces: Iterable[int]) -> list[str]:
    """List the patterns of a filter that match no tool of a settled call of any age, nor a known tool.

    Args:
        tool_patterns: The normalized patterns of a `CallFilter`.
        known: The known tools of the workspaces.
        workspaces: Keys of the workspaces in which the filter holds.
    """
    patterns = _list_unmatched(split_tool_patterns(tool_patterns), known)
    for workspace in workspaces if patterns else ():
        patterns = _list_unmatched(patterns, _build_known_tools(_select_tools_of_sums(workspace).distinct()))
    return patterns


def build_sentences_about_patterns(patterns: Collection[str], known: KnownTools) -> list[str]:
    """Build a sentence about each pattern that matches no tool, with the nearest known name if there is one."""
    sentences = []
    for pattern in list(patterns)[:_MAX_NAMED_PATTERNS]:
        near = find_similar_names(pattern.replace("*", ""), known.suggestions)
        sentence = (
            _("“%(pattern)s” matches no tool that was called so far. Did you mean %(name)s?")
            if near
            else _("“%(pattern)s” matches no tool that was called so far. It will match tools that come later.")
        )
        sentences.append(sentence % {"pattern": pattern, "name": next(iter(near), "")})
    if (more := len(patterns) - _MAX_NAMED_PATTERNS) > 0:
        sentences.append(
            ngettext(
                "%(number)d more pattern matches no tool that was called so far.",
                "%(number)d more patterns match no tool that was called so far.",
                more,
            )
            % {"number": more}
        )
    return sentences


def _select_tools_of_sums(workspace: int) -> QuerySet[ToolSums, Any]:
    sums = ToolSums.objects.filter(workspace=workspace, hourly=False)
    return sums.values_list("tool", flat=True)


def _build_known_tools(tools: Iterable[Any]) -> KnownTools:
    names = {tool for tool in tools if tool and isinstance(tool, str)} - {INTERRUPT_TOOL}  # SQLite stores any type
    shown = {name: mask_text(name) for name in names}
    suggestions = sorted((name for name, text in shown.items() if name == text), key=str.casefold)
    return KnownTools(frozenset(shown.values()), tuple(suggestions))


def _list_unmatched(patterns: Iterable[str], known: KnownTools) -> list[str]:
    return [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in known.names)]
