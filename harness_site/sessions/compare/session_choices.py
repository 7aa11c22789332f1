"""Sessions that the page of a comparison offers as the other side."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Final

from checkpoints.models.session import deserialize_labels
from checkpoints.sessions.session_list_filters_and_sorting import SessionFilter, split_into_indexed_querysets
from harness_site.core.masking import mask_argument_secrets_throughout_session
from harness_site.core.masking.masker import use_masking_rules_with_extra_values
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.core.rendering.text_shortening import shorten_text, shorten_uuids
from harness_site.core.unreadable_rows_and_quarantine import (
    convert_rows_or_mark_unreadable,
    filter_out_unreadable_records,
)
from harness_site.search import passage_search
from harness_site.search.models import Kind
from harness_site.search.query_terms import SearchQuery
from harness_site.sessions.selectors import session_list_pages, session_rows
from harness_site.sessions.selectors.session_rows import SessionRow
from harness_site.sessions.session_row_display import format_fork_mark

#: Number of sessions that are offered.
OFFERED: Final = 10
#: Largest number of the newest sessions of an agent, active ones and others, among which similar ones are looked for.
_COMPARED: Final = 50
#: Part of the words of two titles that similar ones have in common.
_SIMILAR: Final = 0.5
_LONGEST_NAME: Final = 80


@dataclass(frozen=True, slots=True)
class SessionChoice:
    """A session to compare with, masked for the reader. `name` is its title, or its id if it has none.

    `fork_mark` says that it is a fork; empty for others.
    """

    pk: int
    name: str
    session_id: str
    short_id: str
    agent: str
    fork_mark: str
    updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class SessionChoices:
    """Sessions that match what was typed, or similar and new ones if nothing was. `has_more` says that others match
    too."""

    typed: str
    sessions: tuple[SessionChoice, ...]
    has_more: bool


def load_session_choices(
    workspace_id: int, typed: str, *, compared_with: SessionRow, without: Collection[int]
) -> SessionChoices:
    """Load the sessions whose title, id or agent has all typed words, newest first.

    If nothing was typed, these are the sessions of the same agent, those with a common label or a similar title first,
    and then the newest of all. The sessions with the keys `without` are left out.
    """
    typed = typed.strip()
    query = SearchQuery.parse(typed)
    limit = OFFERED + 1 + len(without)
    if query:
        found = passage_search.search_sessions(workspace_id, query, kind=Kind.SESSION)
        exact_match = session_rows.find_session_pk(workspace_id, typed)
        pks = [] if exact_match is None else [exact_match]
        pks += [passage.session_id for passage in found.passages]
    else:
        pks = _list_sessions_of_agent_most_similar_first(workspace_id, compared_with)
        if len(set(pks).difference(without)) < OFFERED:
            newest = session_list_pages.load_partial_sessions_after_cursor(workspace_id, SessionFilter(), limit)
            pks += [session.pk for session in newest]
    offered = [pk for pk in dict.fromkeys(pks) if pk not in without]
    rows = session_rows.load_session_rows_in_order_of_pks(workspace_id, tuple(offered[:OFFERED]))
    secrets = mask_argument_secrets_throughout_session.load_known_secrets_of_sessions(offered[:OFFERED])

    def build_choice(row: SessionRow) -> SessionChoice:
        with use_masking_rules_with_extra_values(secrets.get(row.pk, ())):
            session_id = mask_and_reveal_hidden(row.session_id)
            return SessionChoice(
                pk=row.pk,
                name=shorten_text(mask_and_reveal_hidden(row.title), _LONGEST_NAME) or session_id,
                session_id=session_id,
                short_id=shorten_uuids(session_id),
                agent=mask_and_reveal_hidden(row.agent),
                fork_mark=format_fork_mark(row),
                updated_at=row.updated_at if row.has_times else None,
            )

    choices = convert_rows_or_mark_unreadable(rows, build_choice, "session", attrgetter("pk"))
    return SessionChoices(typed, tuple(filter_out_unreadable_records(choices)), len(offered) > OFFERED)


def _list_sessions_of_agent_most_similar_first(workspace_id: int, compared_with: SessionRow) -> list[int]:
    """List the keys of the newest sessions of the same agent: first those with a common label or a similar title."""
    if not compared_with.agent:
        return []
    columns = ("pk", "updated_at", "title", "labels")
    rows = [
        row
        for sessions in split_into_indexed_querysets(workspace_id, SessionFilter(agent=compared_with.agent))
        for row in sessions.order_by("-updated_at", "-pk").values_list(*columns)[:_COMPARED]
    ]
    labels, words = set(compared_with.labels), _collect_words(compared_with.title)

    def get_similarity_sort_key(row: tuple[int, datetime, str, str]) -> tuple[bool, datetime, int]:
        pk, updated_at, title, stored = row
        has_common_label = not labels.isdisjoint(deserialize_labels(stored))
        return has_common_label or _are_similar(words, _collect_words(title)), updated_at, pk

    return [pk for pk, *_ in sorted(rows, key=get_similarity_sort_key, reverse=True)]


def _collect_words(title: str) -> frozenset[str]:
    return frozenset(title.casefold().split())


def _are_similar(words: frozenset[str], other_words: frozenset[str]) -> bool:
    common = words & other_words
    return bool(common) and len(common) >= _SIMILAR * len(words | other_words)
