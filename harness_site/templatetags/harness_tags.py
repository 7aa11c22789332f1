"""Template tags and filters that are available without `{% load %}`."""

import logging
import re
from collections.abc import Iterable
from datetime import datetime
from functools import cache
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode

from django import template
from django.db import Error
from django.http import QueryDict
from django.template import Context, Node, NodeList, TemplateSyntaxError
from django.template.base import FilterExpression, Parser, Token
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import conditional_escape, escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from checkpoints.db import clock
from checkpoints.enums import ActorKind, Role
from checkpoints.models import Decision, ToolCall
from harness_site.accounts import unmasking as masking_state
from harness_site.accounts.models import Membership
from harness_site.accounts.permissions import find_request_membership
from harness_site.accounts.refuse_page_of_other_reader import format_reader_key
from harness_site.accounts.second_factor_holders_and_requirements import find_unmet_requirement
from harness_site.core import (
    call_arguments_html,
    call_sentences,
    formatting,
    masked_formatting,
    risk_effect_and_idempotency_texts,
    status_and_decision_labels,
)
from harness_site.core.cached_urls import (
    UrlContext,
    build_page_path,
    get_static_url,
    get_urlconf_prefix_and_language,
    list_language_paths_of_page,
)
from harness_site.core.hidden_characters import escape_hidden_in_json, replace_unencodable_characters
from harness_site.core.management_command_as_typed import prefix_management_command_with_program
from harness_site.core.masking.encrypted_names_in_urls import encrypt_name_if_masked, mask_query_string
from harness_site.core.masking.masker import (
    is_masking_active,
    mask_text,
    mask_values_of_secret_fields_in_context,
    use_masking_rules_with_extra_values,
)
from harness_site.core.masking.replace_digests_by_fingerprints import replace_digest_by_fingerprint_if_masking
from harness_site.core.rendering import json_tree
from harness_site.core.rendering.fast_format_html import build_html, join_html
from harness_site.core.rendering.json_tree import mask_and_dump_json
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden, mask_output_and_reveal_hidden
from harness_site.core.rendering.text_shortening import shorten_text_in_middle
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord
from harness_site.display.display_preferences import get_chosen_theme_or_empty

logger = logging.getLogger(__name__)

#: Kind of a record → its name in the note that the record cannot be shown.
_RECORD_KINDS: Final = {
    "call": gettext_lazy("call"),
    "part of call": gettext_lazy("part of call"),
    "decision": gettext_lazy("decision"),
    "audit entry": gettext_lazy("audit entry"),
    "outage": gettext_lazy("group of calls"),
    "session": gettext_lazy("session"),
    "entry": gettext_lazy("entry"),
}
#: Characters of a word that may be longer than a line on a phone.
_LONG_WORD: Final = 24
#: Separators in names of tools and files; not those of an entity such as `&amp;`, and not the dot of a file's ending,
#: which quotation marks may follow.
_SEPARATORS: Final = re.compile(r"((?:[_:/-]|\.(?![^\W_]{1,4}(?:&#?\w+;|\W)*\Z))+)(?=[\w(\[])")
#: Key of the place of pages in the render context of a template.
_URL_CONTEXT: Final = "harness_tags.url_context"
_SELECTED: Final = SafeString(" selected")
register = template.Library()
register.simple_tag(status_and_decision_labels.format_decision_verb, name="decision_verb")
register.filter("duration", formatting.format_duration)
register.filter("duration_rounded_up", formatting.format_duration_rounded_up)
register.filter("readable_json", masked_formatting.mask_and_format_json_or_text)
register.filter("indented_json", masked_formatting.mask_and_indent_json)
register.filter("call_sentence", call_sentences.format_call_sentence)
register.filter("short_call_sentence", call_sentences.format_short_call_sentence)
register.filter("tool_name", call_sentences.mask_and_format_tool_name)
register.filter("mcp_server", call_sentences.mask_and_format_mcp_server)
register.filter("visible", mask_and_reveal_hidden)
register.filter("shorten_in_middle", shorten_text_in_middle)
register.filter("visible_output", mask_output_and_reveal_hidden)
register.filter("reference", encrypt_name_if_masked)
register.filter("shown_query", mask_query_string)


register.simple_tag(get_static_url, name="static")
register.simple_tag(prefix_management_command_with_program, name="management_command")


@register.simple_tag(name="page_path", takes_context=True)
def get_page_path_in_template(context: Context, view_name: str, *keys: int) -> str:
    """Return the path of the page with this URL name. What it depends on is found once for each template."""
    url_context: UrlContext | None = context.render_context.get(_URL_CONTEXT)
    if url_context is None:
        url_context = context.render_context[_URL_CONTEXT] = get_urlconf_prefix_and_language()
    return build_page_path(url_context, view_name, *keys)


@register.simple_tag(name="icon")
@cache
def render_icon(name: str) -> SafeString:
    """Render a decorative icon of the sprite, to accompany a text."""
    return build_html(
        '<svg class="icon" width="16" height="16" aria-hidden="true" viewBox="0 0 24 24"><use href="{}#{}"/></svg>',
        get_static_url("icons/sprite.svg"),
        name,
    )


@register.simple_tag
def render_select_options(choices: Iterable[tuple[str, object]], selected: object = None) -> SafeString:
    """Render the options of a selection list: pairs of a value and its label."""
    return join_html(
        "",
        '<option value="{}"{}>{}</option>',
        ((value, _SELECTED if value == selected else "", label) for value, label in choices),
    )


@register.simple_tag
def render_masked_name_options(names: Iterable[str], selected: str = "") -> SafeString:
    """Render the options of a selection list for names that may contain secrets, such as those of agents and tools."""
    return join_html(
        "",
        '<option value="{}"{}>{}</option>',
        (
            (encrypt_name_if_masked(name), _SELECTED if name == selected else "", mask_and_reveal_hidden(name))
            for name in names
        ),
    )


@register.simple_tag(name="keys_and_export")
def render_keyboard_help_and_export_progress(role: str) -> SafeString:
    """Render the list of keys and the progress of an export, which every page contains until they are asked for.

    An auditor decides nothing, and gets no keys for it.
    """
    return _render_cached_keyboard_help_and_export_progress(get_language(), may_decide=role != Role.AUDITOR)


@cache
def _render_cached_keyboard_help_and_export_progress(_language: str | None, *, may_decide: bool) -> SafeString:
    """Render them in the current language. The arguments are the key of the cache: nothing else changes them."""
    return render_to_string("parts/keys_and_export.html", {"may_decide": may_decide})


class DecidedCall(Protocol):
    """A call that a decision is about, which may be a question."""

    @property
    def is_question(self) -> bool: ...

    @property
    def has_changed_args(self) -> bool: ...


@register.simple_tag(name="chip")
def render_status_chip(value: str, label: str = "") -> SafeString:
    """Render a status or decision with colour, shape and label; `label` replaces the default one."""
    shape, word = status_and_decision_labels.get_status_shape_and_label(value)
    return build_html('<span class="chip {}">{}</span>', shape, label or word)


@register.simple_tag(name="call_status_chip")
def render_call_status_chip(call: ToolCall, decision: Decision | None) -> SafeString:
    """Render the status of a call; `decision` is the last final decision about it, or None without one."""
    shape, word = status_and_decision_labels.get_call_status_shape_and_label(
        call.status, is_question=call.is_question, final_kind=None if decision is None else decision.kind
    )
    return build_html('<span class="chip {}">{}</span>', shape, word)


@register.simple_tag
def render_decision_chip(
    kind: str, final: bool, needed: int, call: DecidedCall | None = None, *, is_number_beside: bool = False
) -> SafeString:
    """Render the chip of a decision, as a vote if more of the `needed` people have to agree.

    `call` is the call, if it may be a question. `is_number_beside` is whether the page says beside the chip which one
    of the needed decisions it is.
    """
    shape, word = status_and_decision_labels.get_decision_shape_and_label(
        kind,
        about_question=call is not None and call.is_question,
        about_changed_value=call is not None and call.has_changed_args,
    )
    if final:
        return build_html('<span class="chip {}">{}</span>', shape, word)
    label = word if is_number_beside else status_and_decision_labels.format_vote_label(kind, word, needed)
    return build_html('<span class="chip wait">{}</span>', label)


@register.simple_tag(name="decision_label")
def get_decision_label(kind: str, call: DecidedCall) -> str:
    """Return the label of a decision about a call, which may be a question."""
    return status_and_decision_labels.get_decision_shape_and_label(
        kind, about_question=call.is_question, about_changed_value=call.has_changed_args
    )[1]


@register.simple_tag(name="decision_sentence")
def render_decision_sentence(decision: Decision, reader: str = "") -> SafeString:
    """Render who took a decision and when, as a sentence; the name of the reader is marked."""
    sentence = conditional_escape(
        status_and_decision_labels.get_decision_sentence_template(decision.kind, decision.tool_call.is_question)
    )
    name = conditional_escape(mask_and_reveal_hidden(decision.actor))
    is_own = decision.actor_kind == ActorKind.PERSON and decision.actor == reader
    parts = {
        "name": build_html("{} {}", name, _("(you)")) if is_own else name,
        "time": render_time(decision.created_at),
    }
    return mark_safe(sentence % parts)  # noqa: S308 - all parts are escaped


@register.simple_tag(name="status_css_class")
def get_status_css_class(value: str) -> str:
    """Return the style class of a status or decision."""
    return status_and_decision_labels.get_status_shape_and_label(value)[0]


@register.simple_tag(name="ago")
def render_time_ago(moment: datetime) -> SafeString:
    """Render `42 min ago` with the exact time on hover; the page keeps it up to date. Paper has the exact time."""
    if formatting.are_dates_and_offsets_written():
        return render_time(moment)
    return _render_time_element(moment, formatting.format_time_ago(moment, clock.now()), "ago")


@register.filter
def format_day_heading(moment: datetime) -> str:
    """Format the day of a moment in the reader's time zone: Today, or Tue 10 Nov 2026."""
    zone = timezone.get_current_timezone()
    day, today = (formatting.convert_to_zone(each, zone).date() for each in (moment, clock.now()))
    return _("Today") if day == today else formatting.format_date_with_weekday_and_year(day)


@register.simple_tag(name="due")
def render_relative_deadline(moment: datetime) -> SafeString:
    """Render `due in 57 min` or `overdue for 3 min` with the exact time on hover; the page keeps it up to date."""
    return _render_time_element(moment, formatting.format_relative_deadline(moment, clock.now()), "due")


@register.simple_tag(name="at")
def render_time(moment: datetime, milliseconds: bool = False, beside: datetime | None = None) -> SafeString:
    """Render the time of day in the reader's time zone, with the date unless it is today, or the day of `beside`."""
    timespec = "milliseconds" if milliseconds else "seconds"
    text = formatting.format_time_with_date_unless_today(moment, beside or clock.now(), timespec)
    return _render_time_element(moment, text, "at", timespec)


@register.simple_tag(name="day")
def render_day(moment: datetime) -> SafeString:
    """Render the day on which something begins or ends, in the reader's time zone; the exact time is on hover."""
    local = formatting.convert_to_zone(moment, timezone.get_current_timezone())
    return _render_time_element(moment, formatting.format_date_with_weekday_and_year(local.date()), "day")


@register.simple_tag(name="date_and_time")
def render_day_and_time_with_zone(moment: datetime) -> SafeString:
    """Render the day with its weekday and the time without seconds, with the name of the reader's time zone."""
    return _render_time_element(moment, formatting.format_date_and_time_with_zone(moment), "exact")


@register.simple_tag(name="exact_time")
def render_time_with_date_and_zone(moment: datetime) -> SafeString:
    """Render the time of a deadline: always with the date and the name of the reader's time zone."""
    return _render_time_element(moment, formatting.format_iso_date_and_time_with_zone(moment), "exact")


@register.simple_tag(name="time_of_day")
def render_time_of_day(moment: datetime, seconds: bool = False) -> SafeString:
    """Render the time of day in the reader's time zone without a date, which is on hover."""
    local = formatting.convert_to_zone(moment, timezone.get_current_timezone())
    return _render_time_element(moment, f"{local:%H:%M:%S}" if seconds else f"{local:%H:%M}", "clock")


@register.simple_tag(name="time_zone_name")
def get_current_time_zone_name() -> str:
    """Return the name of the time zone of the times on this page: `Europe/Berlin`."""
    return timezone.get_current_timezone_name()


@register.simple_tag(name="reader_theme", takes_context=True)
def get_chosen_theme_from_context(context: Context) -> str:
    """Return `light` or `dark` if the reader has chosen a theme, else an empty text."""
    request = context.get("request")
    return "" if request is None else get_chosen_theme_or_empty(request)


#: Kinds of times in whose place, or beside which, paper has the exact time: the others have their date and zone.
_KINDS_REPLACED_ON_PAPER: Final = frozenset({"ago", "at", "clock", "due"})


def _render_time_element(moment: datetime, text: str, kind: str, timespec: str = "seconds") -> SafeString:
    """Render a time; the exact one, to `timespec`, is on hover in UTC, and on paper in the zone that the page names."""
    times = formatting.format_iso_time(moment), formatting.format_utc_time(moment, timespec)
    on_paper = formatting.format_time_with_date_and_offset(moment, timespec)
    if on_paper == times[1] or kind not in _KINDS_REPLACED_ON_PAPER:
        return build_html('<time datetime="{}" title="{}" data-time="{}">{}</time>', *times, kind, text)
    element = '<time data-paper="{}" datetime="{}" title="{}" data-time="{}">{}</time>'
    return build_html(element, on_paper, *times, kind, text)


@register.simple_tag(name="copyable")
def mask_and_render_copyable_text(text: str, limit: int | None = None) -> SafeString:
    """Render an id in monospace with a copy button; one of more than `limit` characters without its middle."""
    whole = mask_and_reveal_hidden(text)
    shown = whole if limit is None else shorten_text_in_middle(whole, limit)
    return build_html(
        '<span class="copyable"><code{}>{}</code>{}</span>',
        "" if shown == whole else build_html(' title="{}"', whole),
        shown,
        mask_and_render_copy_button(text),
    )


@register.filter("in_sentence")
def lowercase_label_in_sentence(label: str, kind: str = "") -> str:
    """Return a label as it is written within a sentence.

    English writes all of it small; other languages write its first letter small, and a noun (`kind`) as it is.
    """
    if (get_language() or "en").startswith("en"):
        return label.lower()
    return label if kind == "noun" else label[:1].lower() + label[1:]


@register.filter("copyable_json")
def mask_json_for_copying(stored: str) -> str:
    """Return stored JSON masked for the reader, with hidden characters escaped."""
    return (
        mask_and_dump_json(masked_formatting.parse_json_or_text(stored))
        if is_masking_active()
        else escape_hidden_in_json(stored)
    )


@register.filter("named_digest")
def render_masked_digest_after_name(digest: str, name: str) -> SafeString:
    """Render a digest, or its fingerprint, after its `name`."""
    html = '{} <span class="mono digest">{}</span>'
    return build_html(
        html, _("Fingerprint") if is_masking_active() else name, replace_digest_by_fingerprint_if_masking(digest)
    )


@register.simple_tag(name="copy_button")
def mask_and_render_copy_button(text: str) -> SafeString:
    return _build_copy_button_for_already_masked_text(mask_text(text))


def render_button_copying_text_at_url(address: str, label: str) -> SafeString:
    """Render a button with an icon that copies the text at `address`, which may be more than this page displays."""
    return build_html(
        '<button type="button" class="copy needs-js" data-copy-url="{}" title="{}" aria-label="{}">{}</button>',
        address,
        label,
        label,
        render_icon("copy"),
    )


@register.simple_tag(name="copy_from")
def render_labelled_button_copying_text_at_url(address: str, label: str) -> SafeString:
    """Render a button that does the same and shows its label."""
    return build_html(
        '<button type="button" class="copy needs-js" data-copy-url="{}">{}{}</button>',
        address,
        render_icon("copy"),
        label,
    )


@register.simple_tag(name="one_time_secret")
def render_one_time_secret(secret: str) -> SafeString:
    """Render a new secret of this site unmasked, on the only page that displays it."""
    return build_html(
        '<span class="one-time"><code>{}</code>'
        '<button type="button" class="btn needs-js" data-copy="{}">{}{}</button></span>',
        secret,
        secret,
        render_icon("copy"),
        _("Copy"),
    )


def _build_copy_button_for_already_masked_text(text: str) -> SafeString:
    title, label = _translate_copy_labels(get_language())
    return build_html(
        '<button type="button" class="copy needs-js" data-copy="{}" title="{}" aria-label="{}">{}</button>',
        text,
        title,
        label % {"what": masked_formatting.mask_and_shorten_to_one_line(text)},
        render_icon("copy"),
    )


@cache
def _translate_copy_labels(_language: str | None) -> tuple[str, str]:
    """Translate the title and the label of a copy button to the current language, which is the key of the cache."""
    return _("Copy"), _("Copy %(what)s")


@register.filter("urlencode", is_safe=False)
def quote_for_url(text: str, safe: str = "/") -> str:
    """Quote a text for a URL, like Django's filter, which fails on unpaired surrogates."""
    return quote(replace_unencodable_characters(str(text)), safe=safe)


@register.filter("same_operation")
def describe_idempotency_rule(call: risk_effect_and_idempotency_texts.KeyedCall) -> str:
    return risk_effect_and_idempotency_texts.describe_idempotency_rule(call.key_policy, call.key_scope)


@register.simple_tag(name="narrowed", takes_context=True)
def build_filter_url_from_context(context: Context, **filters: str) -> str:
    """Return the URL of the first page of this list with changed filters. An empty value removes a filter."""
    return build_filter_url(context["request"].GET, **filters)


def build_filter_url(query: QueryDict, **filters: str) -> str:
    """Return the URL of the first page of a list with changed filters. An empty value removes a filter."""
    references = {
        name: [encrypt_name_if_masked(replace_unencodable_characters(value))] for name, value in filters.items()
    }
    changed = dict(query.lists()) | {"after": [], "before": []} | references
    pairs = [(name, value) for name, values in changed.items() if values != [""] for value in values]
    return f"?{urlencode(pairs)}"


@register.filter("breakable", needs_autoescape=True)
def allow_line_breaks_in_name(name: str, autoescape: bool = True) -> SafeString:
    """Allow line breaks after the separators of a name such as that of a tool or a file, and nowhere else."""
    text = conditional_escape(name) if autoescape else name
    return mark_safe(_SEPARATORS.sub(r"\1<wbr>", text))  # noqa: S308 - escaped above


def allow_line_breaks_in_long_words(text: str) -> SafeString:
    """Allow line breaks after the separators of words that may be longer than a line, and at the blanks."""
    words = text.split(" ")
    if max(map(len, words)) <= _LONG_WORD:
        return escape(text)
    parts = (allow_line_breaks_in_name(word) if len(word) > _LONG_WORD else escape(word) for word in words)
    return mark_safe(" ".join(parts))  # noqa: S308 - escaped above


@register.filter("quoted")
def put_in_quotation_marks(text: str) -> str:
    """Put a text between the quotation marks of the reader's language."""
    # Translators: a text of somebody else between quotation marks
    return _("“%(text)s”") % {"text": text}


@register.simple_tag(name="json_value_list")
def mask_and_render_unfolded_json_tree(content: Any) -> SafeString:
    """Render a JSON value as a labelled list, complete and unfolded."""
    return json_tree.mask_and_render_json_tree(content, limit=None, fold=False).html


@register.simple_tag(name="call_arguments")
def mask_and_render_all_call_arguments(args: Any) -> SafeString:
    """Render the arguments of a call, complete and unfolded."""
    return call_arguments_html.mask_and_render_call_arguments(args).html


@register.simple_tag(name="current", takes_context=True)
def render_aria_current_of_section(context: Context, *view_names: str) -> SafeString:
    """Mark a link to a section as current if the path of the request is below one of `view_names`."""
    request = context.get("request")
    inside = request is not None and any(
        request.path.startswith(list_language_paths_of_page(name)) for name in view_names
    )
    return build_html(' aria-current="{}"', "page") if inside else SafeString()


@register.simple_tag(name="my_membership", takes_context=True)
def find_reader_membership(context: Context) -> Membership | None:
    """Return the membership of the reader, also on error pages, which no permission check has passed.

    It is None while the reader lacks a second factor that the workspace requires: such a page shows nothing of it.
    """
    request = context.get("request")
    if request is None or not hasattr(request, "user"):
        return None
    checked: Membership | None = getattr(request, "membership", None)
    if checked is not None:
        return checked
    membership = find_request_membership(request)
    return None if membership is None or find_unmet_requirement(membership) is not None else membership


register.simple_tag(format_reader_key, name="page_reader")


@register.simple_tag(name="unmasking_state", takes_context=True)
def get_reader_unmasking_state(context: Context) -> masking_state.UnmaskingState | None:
    """Return whether secrets are shown to the reader of this page, or could be."""
    request = context["request"]
    member = find_reader_membership(context)
    return None if member is None else masking_state.get_unmasking_state(request, member)


@register.simple_tag(name="current_time")
def get_current_time() -> datetime:
    return clock.now()


@register.simple_tag
def format_now_iso() -> str:
    return formatting.format_iso_time(clock.now())


@register.tag("hiding")
def parse_mask_call_values_tag(parser: Parser, token: Token) -> Node:
    """Mask the values of secret fields of a call in the content: `{% hiding call %}…{% endhiding %}`."""
    _, call = token.split_contents()
    inside = parser.parse(["endhiding"])
    parser.delete_first_token()
    return MaskCallValuesNode(parser.compile_filter(call), inside)


class MaskCallValuesNode(Node):
    child_nodelists = ("inside",)

    def __init__(self, call: FilterExpression, inside: NodeList) -> None:
        self.call = call
        self.inside = inside

    def render(self, context: Context) -> SafeString:
        with mask_values_of_secret_fields_in_context(
            masked_formatting.parse_json_or_text(self.call.resolve(context).args)
        ):
            return self.inside.render(context)


@register.tag("hiding_session")
def parse_mask_session_values_tag(parser: Parser, token: Token) -> Node:
    """Mask secrets in the content: `{% hiding_session pk secrets %}…{% endhiding_session %}`.

    `secrets` is the result of `mask_argument_secrets_throughout_session.load_known_secrets_of_sessions`.
    """
    _, session, secrets = token.split_contents()
    inside = parser.parse(["endhiding_session"])
    parser.delete_first_token()
    return MaskSessionValuesNode(parser.compile_filter(session), parser.compile_filter(secrets), inside)


@register.tag("hiding_sessions")
def parse_mask_values_of_sessions_tag(parser: Parser, token: Token) -> Node:
    """Mask secrets of several sessions in a content that is about all of them: `{% hiding_sessions secrets %}…`."""
    _, secrets = token.split_contents()
    inside = parser.parse(["endhiding_sessions"])
    parser.delete_first_token()
    return MaskSessionValuesNode(None, parser.compile_filter(secrets), inside)


class MaskSessionValuesNode(Node):
    """Content in which the secrets of a session are masked; without a session, those of all sessions in `secrets`."""

    child_nodelists = ("inside",)

    def __init__(self, session: FilterExpression | None, secrets: FilterExpression, inside: NodeList) -> None:
        self.session = session
        self.secrets = secrets
        self.inside = inside

    def render(self, context: Context) -> SafeString:
        secrets = self.secrets.resolve(context)
        values = (
            frozenset().union(*secrets.values())
            if self.session is None
            else secrets.get(self.session.resolve(context), ())
        )
        with use_masking_rules_with_extra_values(values):
            return self.inside.render(context)


@register.tag("record")
def parse_fault_isolated_record_tag(parser: Parser, token: Token) -> Node:
    """Isolate faults of one record of a list: `{% record row "call" "li" %}…{% endrecord %}`.

    If the content fails, an element of this name reports the kind and key of the record, and the page is otherwise
    complete.
    """
    words = token.split_contents()[1:]
    if len(words) != 3:
        raise TemplateSyntaxError("“record” needs the record, what it is, and the element that stands for it.")
    inside = parser.parse(["endrecord"])
    parser.delete_first_token()
    row, kind, element = (parser.compile_filter(word) for word in words)
    return FaultIsolatedRecordNode(row, kind, element, inside)


class FaultIsolatedRecordNode(Node):
    child_nodelists = ("inside",)

    def __init__(self, row: FilterExpression, kind: FilterExpression, element: FilterExpression, inside: NodeList):
        self.row, self.kind, self.element = row, kind, element
        self.inside = inside

    def render(self, context: Context) -> SafeString:
        row, kind, element = (part.resolve(context) for part in (self.row, self.kind, self.element))
        if not isinstance(row, UnreadableRecord):
            try:
                return self.inside.render(context)
            except Error:  # a database error is not the fault of a record
                raise
            except Exception:
                logger.exception("The %s %s cannot be shown.", kind, getattr(row, "pk", ""))
        return render_unreadable_row(row, kind, element)


def render_unreadable_row(row: Any, kind: str, element: str) -> SafeString:
    """Render the placeholder element of a record that cannot be displayed."""
    pk = getattr(row, "pk", "")
    message = build_html(
        _("This record cannot be shown: {kind} {key}."), kind=str(_RECORD_KINDS.get(kind, kind)), key=pk
    )
    session_pk = row.quarantined_session if isinstance(row, UnreadableRecord) else None
    if session_pk is not None:
        message += build_html(
            ' <a href="{}">{}</a>',
            reverse("harness_sessions:session-quarantine", args=[session_pk]),
            _("The session is quarantined: what was found"),
        )
    elif kind == "call" and pk:
        message += build_html(
            ' <a href="{}">{}</a>', reverse("harness_review:card", args=[pk]), _("Open its decision page")
        )
    note = build_html('<p class="note bad unreadable">{}<span>{}</span></p>', render_icon("triangle-alert"), message)
    if element == "tr":
        return build_html('<tr><td colspan="20">{}</td></tr>', note)
    return build_html('<{} class="unreadable">{}</{}>', element, note, element)
