"""Suggestions for the text filters of the session list."""

from __future__ import annotations

from typing import Final

from checkpoints.sessions.session_list_filters_and_sorting import select_sessions_of_workspace
from harness_site.search.models import Fact, Trait

#: Number of newest sessions whose facts are read.
_RECENT_SESSIONS: Final = 200
#: Largest number of suggestions, of all traits together.
_MAX_SUGGESTIONS: Final = 1000


def list_recent_values_by_trait(workspace_id: int, traits: frozenset[Trait]) -> dict[str, list[str]]:
    """List the values that the newest sessions have of each trait, sorted, in one query."""
    recent = select_sessions_of_workspace(workspace_id).order_by("-updated_at", "-pk").values("pk")[:_RECENT_SESSIONS]
    facts = Fact.objects.filter(session__in=recent, workspace=workspace_id, trait__in=traits).exclude(value="")
    values: dict[str, list[str]] = {trait: [] for trait in traits}
    for trait, value in facts.order_by().values_list("trait", "value").distinct()[:_MAX_SUGGESTIONS]:
        values[trait].append(value)
    return {trait: sorted(found) for trait, found in values.items()}
