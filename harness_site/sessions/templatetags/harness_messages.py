"""Tags that render the messages of a conversation."""

from typing import Any, Final
from urllib.parse import urlencode

from django import template
from django.template import Context
from django.template.base import FilterExpression, NodeList, Parser, Token
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from checkpoints.sessions.display_status import DisplayStatus
from harness_site.core.rendering.html_match_highlighting import FOUND, mark_search_words_and_open_folds
from harness_site.search.query_terms import SearchQuery
from harness_site.sessions.message_html import render_message_html
from harness_site.sessions.selectors.conversation_window import MessageEntry
from harness_site.sessions.transcript_search import TranscriptSearchResult

register = template.Library()

#: Variables that a message gets from the page.
_PASSED: Final = (
    "session_pk",
    "at",
    "whole",
    "offline",
    "printed",
    "version_text",
    "subagents",
    "permissions_by_position",
    "first_folder",
    "is_imported",
    "brief",
    "call_above",
    "me",
)
#: Key of these variables in the state of a template that is being rendered.
_COLLECTED: Final = "message_variables"


@register.simple_tag(takes_context=True)
def render_message_with_marked_words(context: Context, entry: MessageEntry) -> SafeString:
    """Render a message of the session `session_pk` with links to version `version_text`.

    Search words are marked only in a message that has all of them, or whose rest is folded and that is the current
    match.
    """
    variables = _collect_message_variables(context)
    html = render_message_html(entry, variables)
    words: SearchQuery | None = context.get("words")
    if not words:
        return html
    found: TranscriptSearchResult | None = context.get("found")
    is_current = found is not None and found.is_hit and entry.has_message_or_result_at(found.here)
    marked = mark_search_words_and_open_folds(html, words.words, named=bool(variables["whole"]), current=is_current)
    if marked.complete:
        return marked.html
    return marked.html + _render_folded_match_link(context, entry) if is_current else html


def _collect_message_variables(context: Context) -> dict[str, Any]:
    """Collect the variables of the messages of a page, once for all of them."""
    variables: dict[str, Any] | None = context.render_context.get(_COLLECTED)
    if variables is None:
        variables = {name: context.get(name) for name in _PASSED}
        head = context.get("head")
        variables["has_no_times"] = head is not None and not head.row.has_times
        variables["is_running"] = head is not None and head.row.display_status is DisplayStatus.RUNNING
        context.render_context[_COLLECTED] = variables
    return variables


@register.tag("marking")
def parse_marking_tag(parser: Parser, token: Token) -> "_MarkSearchWordsNode":
    """Highlight search words in the content: `{% marking words %}…{% endmarking %}`."""
    _, words = token.split_contents()
    inner = parser.parse(["endmarking"])
    parser.delete_first_token()
    return _MarkSearchWordsNode(inner, parser.compile_filter(words))


class _MarkSearchWordsNode(template.Node):
    def __init__(self, inner: NodeList, words: FilterExpression) -> None:
        self.inner, self.words = inner, words

    def render(self, context: Context) -> SafeString:
        return mark_search_words_and_open_folds(
            self.inner.render(context), self.words.resolve(context).words, named=True
        ).html


def _render_folded_match_link(context: Context, entry: MessageEntry) -> SafeString:
    """Render a link to a match in the folded part of a message."""
    address = reverse("harness_sessions:session-message", args=[context["session_pk"], entry.position])
    query = urlencode({"v": context["version_text"], "find": str(context["words"])})
    link = f"{address}?{query}#{FOUND}"
    words = '<p class="fold hidden-match">Found in what is folded: <a href="{}">show all of it</a></p>'
    return format_html(words, link)
