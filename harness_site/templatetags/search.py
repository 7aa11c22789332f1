"""Tags of the pages of search results."""

from typing import Any

from django import template
from django.template import Context
from django.urls import reverse
from django.utils.http import urlencode

from harness_site.search.models import Kind
from harness_site.search.places import Place
from harness_site.search.words import Query

register = template.Library()


@register.simple_tag(takes_context=True)
def searched(context: Context, **changed: Any) -> str:
    """This search with some of its parameters changed; an empty one is left out."""
    query = context["request"].GET.copy()
    for name, value in changed.items():
        query[name] = str(value)
    kept = {name: value for name, value in query.items() if value}
    return f"?{urlencode(kept)}"


@register.simple_tag
def place_url(place: Place, query: Query) -> str:
    """Where a place is read: the transcript at the message, the page of the call, or the session."""
    find = {"find": str(query)}
    if place.kind in {Kind.CALL, Kind.DECISION}:
        return f"{reverse('session-call', args=[place.session, place.source])}?{urlencode(find)}#found"
    if place.kind == Kind.SESSION:
        return reverse("session", args=[place.session])
    version = {} if place.version is None else {"v": str(place.version)}
    asked = urlencode({**version, "at": str(place.position), **find})
    return f"{reverse('session', args=[place.session])}?{asked}#m-{place.position}"
