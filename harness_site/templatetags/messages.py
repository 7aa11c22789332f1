"""Messages of a conversation."""

from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from django import template
from django.template import Context
from django.template.base import FilterExpression, NodeList, Parser, Token
from django.template.loader import get_template
from django.urls import get_script_prefix, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from checkpoints.queries.conversation import CallCard, Entry
from checkpoints.queries.sessions import SessionHead
from checkpoints.queries.timeline import Timeline
from harness_site.rendering import lanes
from harness_site.rendering.marking import FOUND, marked
from harness_site.search.words import Query

register = template.Library()


@register.simple_tag(takes_context=True)
def message(context: Context, entry: Entry) -> SafeString:
    """One message of the conversation of the session `session_pk`, with links to version `version_text` of it."""
    shown = {name: context.get(name) for name in ("session_pk", "whole", "offline", "version_text")}
    made = _made(entry, shown)
    words: Query | None = context.get("words")
    if not words:
        return made
    found = marked(made, words.words, named=bool(shown["whole"]))
    return (
        found.html + _further(context, entry) if _holds(entry, context.get("at")) and not found.complete else found.html
    )


@register.tag
def marking(parser: Parser, token: Token) -> "_Marking":
    """`{% marking words %}…{% endmarking %}`: with the words of a search marked in it."""
    _, words = token.split_contents()
    inner = parser.parse(["endmarking"])
    parser.delete_first_token()
    return _Marking(inner, parser.compile_filter(words))


class _Marking(template.Node):
    def __init__(self, inner: NodeList, words: FilterExpression) -> None:
        self.inner, self.words = inner, words

    def render(self, context: Context) -> SafeString:
        return marked(self.inner.render(context), self.words.resolve(context).words, named=True).html


def _holds(entry: Entry, position: int | None) -> bool:
    """Whether a message, or a result that is shown with its call, stands at `position`."""
    results = (part.result_position for part in entry.parts if isinstance(part, CallCard))
    return position is not None and position in {entry.position, *results}


def _further(context: Context, entry: Entry) -> SafeString:
    """That what was found stands in the part of a message that is folded, and the way there."""
    address = reverse("session-message", args=[context["session_pk"], entry.position])
    query = urlencode({"v": context["version_text"], "find": str(context["words"])})
    link = f"{address}?{query}#{FOUND}"
    return format_html('<p class="fold further">Found in what is folded: <a href="{}">show all of it</a></p>', link)


@register.simple_tag(takes_context=True)
def timeline(context: Context, lasting: Timeline | None) -> SafeString:
    """The timeline of the session `head` is about, drawn."""
    head = context["head"]
    return SafeString("") if lasting is None else _drawn(head, lasting)


def _drawn(head: SessionHead, timeline: Timeline) -> SafeString:
    drawing = lanes.draw(timeline)
    return _rendered("sessions/parts/lanes.html", {"head": head, "drawing": drawing}) if drawing else SafeString("")


def _made(entry: Entry, shown: dict[str, Any]) -> SafeString:
    session, messages = _addresses(shown["session_pk"], get_script_prefix())
    addresses = {"session_url": session, "message_url": f"{messages}{entry.position}/"}
    return _rendered("sessions/parts/message.html", {**shown, **addresses, "entry": entry})


@lru_cache(maxsize=64)
def _addresses(session_pk: int, _prefix: str) -> tuple[str, str]:
    """Of a session, and of its messages without their position: a page has many, and each takes a while to find."""
    messages = reverse("session-message", args=[session_pk, 0]).removesuffix("0/")
    return reverse("session", args=[session_pk]), messages


def _rendered(name: str, shown: dict[str, Any]) -> SafeString:
    return mark_safe(get_template(name).render(shown))  # noqa: S308 - a template's
