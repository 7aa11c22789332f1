"""Tags every page may use without loading them."""

import logging
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import quote

from django import template
from django.db import Error
from django.template import Context, Node, NodeList, TemplateSyntaxError
from django.template.base import FilterExpression, Parser, Token
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode as encoded_query
from django.utils.safestring import SafeString

from checkpoints import clock
from checkpoints.models import ToolCall
from checkpoints.queries import inbox
from checkpoints.queries.calls import CallRecord
from checkpoints.queries.unreadable import UnreadableRecord
from harness_site import wording
from harness_site.accounts import secrecy as masking_state
from harness_site.accounts.guard import membership_for
from harness_site.accounts.models import Membership
from harness_site.rendering import jsontree
from harness_site.rendering.jsontree import dumped
from harness_site.rendering.masking import hiding_values, hiding_values_of, masked, masks
from harness_site.rendering.references import reference, shown_digest, shown_query
from harness_site.rendering.safe_text import encodable, escape_hidden
from harness_site.rendering.text import visible

logger = logging.getLogger(__name__)
register = template.Library()
register.filter("visible", visible)
register.filter("reference", reference)
register.filter("shown_query", shown_query)


@register.simple_tag
@cache
def icon(name: str) -> SafeString:
    """A decorative icon from the sprite; the words beside it say what it means."""
    return format_html(
        '<svg class="icon" width="16" height="16" aria-hidden="true" viewBox="0 0 24 24"><use href="{}#{}"/></svg>',
        static("icons/sprite.svg"),
        name,
    )


@register.simple_tag
def chip(value: str, label: str = "") -> SafeString:
    """The status or decision `value` as colour, shape and word; `label` says it in other words."""
    shape, word = wording.state(value)
    return format_html('<span class="chip {}">{}</span>', shape, label or word)


@register.simple_tag
def voice(kind: str, final: bool, needed: int) -> SafeString:
    """The decision `kind`; where others of the `needed` people still have to agree, as one voice among theirs."""
    word = wording.state(kind)[1]
    return chip(kind) if final else format_html('<span class="chip wait">{} · one of {}</span>', word, needed)


@register.simple_tag
def did(decision: str) -> str:
    """What somebody did who decided so, after their name: `approved`."""
    return wording.did(decision)


@register.simple_tag
def shape(value: str) -> str:
    """The class that draws the status or decision `value`."""
    return wording.state(value)[0]


@register.simple_tag
def ago(moment: datetime) -> SafeString:
    """`42 min ago`, with the exact time on hover; the page keeps it current."""
    return _time(moment, wording.ago(moment, clock.now()), "ago")


@register.simple_tag
def due(moment: datetime) -> SafeString:
    """`due in 57 min` or `overdue for 3 min`, with the exact time on hover; the page keeps it current."""
    return _time(moment, wording.due(moment, clock.now()), "due")


@register.simple_tag
def at(moment: datetime, milliseconds: bool = False) -> SafeString:
    """The time of day in UTC, with the date unless it is today's."""
    utc = moment.astimezone(UTC)
    text = utc.isoformat(" ", "milliseconds" if milliseconds else "seconds").removesuffix("+00:00")
    if utc.date() == clock.now().date():
        _, text = text.split()
    return _time(moment, text, "at")


def _time(moment: datetime, text: str, kind: str) -> SafeString:
    return format_html(
        '<time datetime="{}" title="{}" data-time="{}">{}</time>',
        wording.iso(moment),
        wording.exact(moment),
        kind,
        text,
    )


@register.simple_tag
def copyable(text: str) -> SafeString:
    """An id in monospace with a button that copies it."""
    return format_html('<span class="copyable"><code>{}</code>{}</span>', visible(text), copy_button(text))


@register.filter
def copied_json(stored: str) -> str:
    """Stored JSON text as its reader may see it, with what hides in it as escapes."""
    return dumped(wording.parsed(stored)) if masks() else escape_hidden(stored)


@register.filter
def named_digest(digest: str, name: str) -> SafeString:
    """A digest after its `name`, or the fingerprint that stands for it."""
    html = '{} <span class="mono digest">{}</span>'
    return format_html(html, "Fingerprint" if masks() else name, shown_digest(digest))


@register.simple_tag
def copy_button(text: str) -> SafeString:
    return _copy_button(masked(text))


@register.simple_tag
def copy_from(address: str, what: str) -> SafeString:
    """A button that copies what stands at `address`, which may be more than this page shows."""
    label = f"Copy {what}"
    return format_html(
        '<button type="button" class="copy needs-js" data-copy-url="{}" title="{}" aria-label="{}">{}</button>',
        address,
        label,
        label,
        icon("copy"),
    )


@register.simple_tag
def shown_once(secret: str) -> SafeString:
    """A secret of this site on the one page that shows it, to the one who asked for it: the only text nothing masks."""
    return format_html('<span class="copyable"><code>{}</code>{}</span>', secret, _copy_button(secret))


def _copy_button(text: str) -> SafeString:
    return format_html(
        '<button type="button" class="copy needs-js" data-copy="{}" title="Copy" aria-label="Copy {}">{}</button>',
        text,
        wording.shortened(text),
        icon("copy"),
    )


@register.filter(is_safe=False)
def urlencode(text: str, safe: str = "/") -> str:
    """Django's own fails on half of a surrogate pair."""
    return quote(encodable(str(text)), safe=safe)


@register.filter
def sentence(call: ToolCall) -> str:
    """What a call was about to do: in the tool's words, else made from its name and arguments."""
    try:
        return wording.shown_sentence(call.tool, call.sentence, wording.parsed(call.args))
    except (ValueError, RecursionError):
        logger.exception("The arguments of the call %s cannot be put in words.", getattr(call, "pk", ""))
        return wording.call_sentence(call.tool, "its arguments cannot be shown")


@register.filter
def same_operation(call: ToolCall | CallRecord) -> str:
    return wording.same_operation(call.key_policy, call.key_scope)


@register.filter
def why(call: ToolCall) -> str:
    """Why nobody knows what became of a call, and whether a probe could find out."""
    return wording.why(call.reason, verifiable=call.verifiable)


@register.simple_tag(takes_context=True)
def narrowed(context: Context, **filters: str) -> str:
    """This list with other filters, from its beginning. An empty value takes a filter away."""
    changed = {name: [reference(encodable(value))] for name, value in filters.items()}
    query = dict(context["request"].GET.lists()) | {"after": []} | changed
    return f"?{encoded_query({name: values for name, values in query.items() if values != ['']}, doseq=True)}"


@register.filter
def duration(seconds: float) -> str:
    return wording.duration(seconds)


@register.filter
def readable(stored: str) -> str:
    return wording.readable(stored)


@register.filter
def indented(stored: str) -> str:
    return wording.indented(stored)


@register.simple_tag
def value(content: Any) -> SafeString:
    """A JSON value as a labelled list, complete and open."""
    return jsontree.tree(content, limit=None, fold=False).html


@register.simple_tag(takes_context=True)
def current(context: Context, *view_names: str) -> SafeString:
    """Mark a link to a section of the site as the present one, if the request's path lies below one of `view_names`."""
    request = context.get("request")
    inside = request is not None and any(request.path.startswith(reverse(name)) for name in view_names)
    return format_html(' aria-current="{}"', "page") if inside else SafeString()


@register.simple_tag(takes_context=True)
def my_membership(context: Context) -> Membership | None:
    """The reader's membership, also on pages that no guard has seen (errors)."""
    request = context.get("request")
    if request is None or not hasattr(request, "user"):
        return None
    return getattr(request, "membership", None) or membership_for(request)


@register.simple_tag(takes_context=True)
def secrecy(context: Context) -> masking_state.State | None:
    """Whether secrets are shown to the reader of this page, or could be."""
    request = context["request"]
    member = my_membership(context)
    return None if member is None else masking_state.state(request, member)


@register.simple_tag
def waiting_calls(membership: Membership | None) -> inbox.Count | None:
    """How many calls of the reader's workspace need a decision; None for who may not know."""
    return None if membership is None else inbox.count(membership.workspace)


@register.simple_tag
def favicon(waiting: inbox.Count | None) -> str:
    """The icon of the tab: how many calls wait is on it."""
    if not waiting:
        return static("icons/favicon.svg")
    return static(f"icons/favicon-{waiting.number if waiting.number < 10 else 'many'}.svg")


@register.simple_tag
def now_iso() -> str:
    return wording.iso(clock.now())


@register.tag
def hiding(parser: Parser, token: Token) -> Node:
    """`{% hiding call %}…{% endhiding %}`: the values of secret fields in its arguments are masked in all of this."""
    _, call = token.split_contents()
    inside = parser.parse(["endhiding"])
    parser.delete_first_token()
    return Hiding(parser.compile_filter(call), inside)


class Hiding(Node):
    child_nodelists = ("inside",)

    def __init__(self, call: FilterExpression, inside: NodeList) -> None:
        self.call = call
        self.inside = inside

    def render(self, context: Context) -> SafeString:
        with hiding_values_of(wording.parsed(self.call.resolve(context).args)):
            return self.inside.render(context)


@register.tag
def hiding_session(parser: Parser, token: Token) -> Node:
    """`{% hiding_session pk secrets %}…{% endhiding_session %}`: what `call_secrets.of_sessions` found for this session
    is masked in all of this."""
    _, session, secrets = token.split_contents()
    inside = parser.parse(["endhiding_session"])
    parser.delete_first_token()
    return HidingSession(parser.compile_filter(session), parser.compile_filter(secrets), inside)


class HidingSession(Node):
    child_nodelists = ("inside",)

    def __init__(self, session: FilterExpression, secrets: FilterExpression, inside: NodeList) -> None:
        self.session = session
        self.secrets = secrets
        self.inside = inside

    def render(self, context: Context) -> SafeString:
        with hiding_values(self.secrets.resolve(context).get(self.session.resolve(context), ())):
            return self.inside.render(context)


@register.tag
def record(parser: Parser, token: Token) -> Node:
    """`{% record row "call" "li" %}…{% endrecord %}`: what shows one record of a list. Where it fails, an element of
    this name says that the record cannot be shown, with its kind and key, and the rest of the page is as it would be.
    """
    words = token.split_contents()[1:]
    if len(words) != 3:
        raise TemplateSyntaxError("“record” needs the record, what it is, and the element that stands for it.")
    inside = parser.parse(["endrecord"])
    parser.delete_first_token()
    row, kind, element = (parser.compile_filter(word) for word in words)
    return Record(row, kind, element, inside)


class Record(Node):
    child_nodelists = ("inside",)

    def __init__(self, row: FilterExpression, kind: FilterExpression, element: FilterExpression, inside: NodeList):
        self.row, self.kind, self.element = row, kind, element
        self.inside = inside

    def render(self, context: Context) -> SafeString:
        row, kind, element = (part.resolve(context) for part in (self.row, self.kind, self.element))
        if not isinstance(row, UnreadableRecord):
            try:
                return self.inside.render(context)
            except Error:  # a database that fails is not the fault of a record
                raise
            except Exception:
                logger.exception("The %s %s cannot be shown.", kind, getattr(row, "pk", ""))
        return unreadable(row, kind, element)


def unreadable(row: Any, kind: str, element: str) -> SafeString:
    """The element that stands for a record which cannot be shown."""
    pk = getattr(row, "pk", "")
    told = format_html("This record cannot be shown: {} {}.", kind, pk)
    if kind == "call" and pk:
        told += format_html(' <a href="{}">Open its card</a>, which shows what it can.', reverse("card", args=[pk]))
    note = format_html('<p class="note bad unreadable">{}<span>{}</span></p>', icon("triangle-alert"), told)
    if element == "tr":
        return format_html('<tr><td colspan="20">{}</td></tr>', note)
    return format_html('<{} class="unreadable">{}</{}>', element, note, element)
