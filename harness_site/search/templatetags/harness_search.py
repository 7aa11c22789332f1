"""Template tags of the search results."""

from typing import Any

from django import template
from django.template import Context
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString

from harness_site.core.rendering.html_match_highlighting import mark_search_words_and_open_folds

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


@register.filter
def mark_matches(text: SafeString | str, words: tuple[str, ...]) -> SafeString:
    """Mark words in a title, an id or a name."""
    return mark_search_words_and_open_folds(conditional_escape(text), words).html
