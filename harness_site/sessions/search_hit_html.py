"""HTML of the hits of search results. A template takes several times as long, and a page has dozens of hits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from harness_site.core.rendering.fast_format_html import build_html
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.search.load_search_hits import SearchHit
from harness_site.search.models import Kind
from harness_site.search.query_terms import SearchQuery
from harness_site.sessions.message_role_labels import format_role_name
from harness_site.sessions.money_and_count_formatting import format_count
from harness_site.sessions.session_and_call_links import SessionLinks
from harness_site.templatetags.harness_tags import render_time

_HIT: Final = (
    '<li><a href="{address}"><span class="source-line">{source}</span>{copied}'
    ' <span class="excerpt" dir="auto">{excerpt}</span></a>{time}</li>'
)


def render_search_hits(
    hits: Iterable[SearchHit], query: SearchQuery, words_of_hits: Mapping[int, SearchQuery], links: SessionLinks
) -> SafeString:
    """Render hits as items of a list, masked for the reader.

    The pages they link to find the query, or the words that a hit was found by, which `words_of_hits` has by passage.
    """
    return SafeString("\n".join(_render_hit(hit, words_of_hits.get(hit.passage, query), links) for hit in hits))


def _render_hit(hit: SearchHit, words: SearchQuery, links: SessionLinks) -> SafeString:
    return build_html(
        _HIT,
        address=_build_hit_url(hit, words, links),
        source=_describe_source(hit),
        copied=build_html(' <span class="source-line">{}</span>', _("copied from the original"))
        if hit.is_copied
        else "",
        excerpt=SafeString(
            "".join(
                build_html("<mark>{}</mark>" if part.marked else "{}", mask_and_reveal_hidden(part.text))
                for part in hit.stretches
            )
        ),
        time=build_html(' <small class="muted">{}</small>', render_time(hit.at)) if hit.at else "",
    )


def _build_hit_url(hit: SearchHit, words: SearchQuery, links: SessionLinks) -> str:
    """Return the URL of a hit in a text: the transcript at the message, or the page of the call."""
    find = {"find": str(words)}
    if hit.kind in {Kind.CALL, Kind.DECISION}:
        return f"{links.build_call_url(hit.session, hit.source)}?{urlencode(find)}#found"
    version = {} if hit.version is None else {"v": str(hit.version)}
    query_string = urlencode({**version, "at": str(hit.position), **find})
    return f"{links.build_session_url(hit.session)}?{query_string}#m-{hit.position}"


def _describe_source(hit: SearchHit) -> str:
    if hit.kind == Kind.MESSAGE and hit.position is not None:
        who = mask_and_reveal_hidden(format_role_name(hit.who))
        return _("%(who)s, message %(number)s") % {"who": who, "number": format_count(hit.position + 1)}
    if hit.is_question:
        return _("Question")
    name = {"name": mask_and_reveal_hidden(hit.who)}
    if hit.kind == Kind.CALL:
        return _("Call of %(name)s") % name
    return _("Decision of %(name)s") % name if hit.kind == Kind.DECISION else ""
