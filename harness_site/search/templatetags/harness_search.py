"""Template tags of the search results."""

from collections.abc import Mapping
from typing import Any

from django import template
from django.template import Context
from django.urls import reverse
from django.utils.html import conditional_escape
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from harness_site.core.rendering.html_match_highlighting import mark_search_words_and_open_folds
from harness_site.search.load_search_hits import SearchHit
from harness_site.search.models import Kind
from harness_site.search.query_terms import SearchQuery

register = template.Library()


@register.simple_tag(takes_context=True)
def build_search_url_with_changes(context: Context, **changed: Any) -> str:
    """Return the URL of this search with changed parameters; empty ones are left out."""
    query = context["request"].GET.copy()
    for name, value in changed.items():
        query[name] = str(value)
    for name in [name for name, value in query.items() if not value]:
        del query[name]
    return f"?{query.urlencode()}"


@register.simple_tag
def build_search_hit_url(
    place: SearchHit, query: SearchQuery, words_of_hits: Mapping[int, SearchQuery] | None = None
) -> str:
    """Return the URL of a hit in a text: the transcript at the message, or the page of the call.

    There it finds the query, or the words that the hit was found by, which `words_of_hits` has by passage.
    """
    find = {"find": str((words_of_hits or {}).get(place.passage, query))}
    if place.kind in {Kind.CALL, Kind.DECISION}:
        return f"{reverse('harness_sessions:session-call', args=[place.session, place.source])}?{urlencode(find)}#found"
    version = {} if place.version is None else {"v": str(place.version)}
    query_string = urlencode({**version, "at": str(place.position), **find})
    return f"{reverse('harness_sessions:session', args=[place.session])}?{query_string}#m-{place.position}"


@register.filter
def mark_matches(text: SafeString | str, words: tuple[str, ...]) -> SafeString:
    """Mark words in a title, an id or a name."""
    return mark_search_words_and_open_folds(conditional_escape(text), words).html
