"""Known names that are like one that a filter was given and that nothing has exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from django.utils.translation import gettext_lazy

from checkpoints.sessions.agent_and_label_suggestions import list_recent_agents_and_labels
from harness_site.core.similar_known_names import NearNames, find_similar_names
from harness_site.search.models import SessionSums, ToolSums

#: Filters by name, with their labels.
_SESSION_FILTERS: Final = {
    "agent": gettext_lazy("Agent"),
    "label": gettext_lazy("Label"),
    "tool": gettext_lazy("Tool"),
    "by": gettext_lazy("Decided by"),
    "project": gettext_lazy("Project"),
    "branch": gettext_lazy("Branch"),
    "model": gettext_lazy("Model"),
    "program": gettext_lazy("Program version"),
}
#: Days of agents, or of tools by agent, whose names are read, the newest first.
_READ_SUMS: Final = 5_000


def load_similar_names_of_session_filters(
    workspace: int, given: Mapping[str, str], suggested: Mapping[str, Iterable[str]]
) -> list[NearNames]:
    """Load known names for the filters of a session list that has none.

    Args:
        workspace: Key of the workspace.
        given: Names that filter the list, by parameter; empty ones filter nothing.
        suggested: Names of the newest sessions, by parameter.
    """
    near = []
    for parameter, label in _SESSION_FILTERS.items():
        if typed := given.get(parameter, ""):
            known = {*suggested.get(parameter, ()), *_load_agents_or_tools_of_newest_days(workspace, parameter)}
            near.append(NearNames(parameter, str(label), find_similar_names(typed, known)))
    agent = given.get("agent", "")
    is_known_agent = agent in {*suggested.get("agent", ()), *_load_agents_or_tools_of_newest_days(workspace, "agent")}
    if agent in suggested.get("label", ()) and not is_known_agent:
        near.append(NearNames("label", str(_SESSION_FILTERS["label"]), (agent,), typed_in="agent"))
    return [one for one in near if one.names]


def load_similar_names_of_call_filters(
    workspace: int, *, tool: str, agent: str, newest_tools: Iterable[str]
) -> list[NearNames]:
    """Load known names for the filters of a list of tool calls that has none; `newest_tools` are those of new calls."""
    agents = list_recent_agents_and_labels(workspace).agents if agent else ()
    suggested = {"agent": agents, "tool": newest_tools}
    return load_similar_names_of_session_filters(workspace, {"tool": tool, "agent": agent}, suggested)


def _load_agents_or_tools_of_newest_days(workspace: int, parameter: str) -> set[str]:
    """List the agents or the tools that the sums of the newest days have; nothing for another parameter."""
    if parameter == "agent":
        days = SessionSums.objects.filter(workspace=workspace, hourly=False).order_by("-start")
        return set(days.values_list("agent", flat=True)[:_READ_SUMS]) - {""}
    if parameter == "tool":
        days_of_tools = ToolSums.objects.filter(workspace=workspace, hourly=False).order_by("-start")
        return set(days_of_tools.values_list("tool", flat=True)[:_READ_SUMS]) - {""}
    return set()
