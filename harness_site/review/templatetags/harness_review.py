"""Tags about the calls that wait for a decision."""

import re
from collections.abc import Sequence, Set
from datetime import datetime, timedelta
from typing import Any, Final

from django import template
from django.template import Context
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from checkpoints.db import clock
from checkpoints.enums import Risk
from checkpoints.models import ToolCall
from checkpoints.models.translated_enum_choices import translate_label
from harness_site.accounts.models import Membership
from harness_site.core.cached_urls import get_static_url
from harness_site.core.call_sentences import does_sentence_describe_call, put_tool_in_words
from harness_site.core.formatting import format_date_with_weekday_and_year
from harness_site.core.masking.masker import MASK
from harness_site.core.money_amounts_in_call_arguments import is_amount_in_sentence
from harness_site.core.rendering.fast_format_html import build_html
from harness_site.core.rendering.json_tree import has_clamped_value
from harness_site.core.rendering.safe_display_text import mask_safe_link_or_return_empty
from harness_site.core.risk_effect_and_idempotency_texts import (
    describe_tool_effect,
    explain_declared_risk,
    find_unusual_risk,
)
from harness_site.review.call_history_lines import list_call_history_lines
from harness_site.review.call_sentence_with_bold_values import render_sentence_with_bold_values
from harness_site.review.decided_rows_and_batches import count_equal_decisions
from harness_site.review.decision_card_context import build_decision_evidence_context
from harness_site.review.decision_options import is_reason_given
from harness_site.review.differing_arguments import describe_differing_arguments
from harness_site.review.models import Comment
from harness_site.review.pending_call_rows import PendingCallRow, describe_comments
from harness_site.review.question_choices import find_question_choice_of_decision
from harness_site.review.selectors.comment_counts_and_last_authors import CommentCount
from harness_site.review.selectors.mentions_in_comments import MENTION, list_unknown_mentions
from harness_site.review.selectors.pending_call_counts_by_decider import count_calls_for_reader_and_for_others
from harness_site.review.selectors.pending_calls import BoundedCount
from harness_site.sessions.json_and_text_excerpts import parse_json_container
from harness_site.templatetags.harness_tags import render_icon, render_relative_deadline

register = template.Library()
register.filter(count_equal_decisions)

#: International bank account number in groups of four, up to a length that fits a line of a phone; or a day, maybe with
#: a time.
_BANK_ACCOUNT_OR_DAY: Final = re.compile(
    r"\b(?:[A-Z]{2}\d{2}(?: [A-Z0-9]{4}){2,5}(?: [A-Z0-9]{1,3})?|\d{4}-\d{2}-\d{2}(?: \d{2}:\d{2}(?::\d{2})?)?)\b"
)
#: Web address in a text, without the signs that end the sentence in which it stands.
_WEB_ADDRESS: Final = re.compile(r"(https?://[^\s<>\"]*[^\s<>\"'.,:;!?)\]}»”’])")
#: Style class of the chip of a deadline by the longest time that is left, the most urgent first.
_URGENCY: Final = (
    (timedelta(), "overdue"),
    (timedelta(minutes=15), "urgent"),
    (timedelta(hours=1), "soon"),
    (timedelta(days=1), "today"),
)


@register.simple_tag(name="differing_arguments")
def describe_differing_arguments_not_shown(args: Any, names: Set[str], sentence: str, amount: str = "") -> str:
    """Describe the arguments with these names that neither the sentence nor the amount beside it shows."""
    return describe_differing_arguments(args, names, sentence, is_amount_shown=bool(amount))


@register.filter
def is_named_by_tool(call: ToolCall, args: Any) -> bool:
    """Return whether the page of a call names it by its tool: without a sentence, beside the list of its arguments."""
    return bool(args) and not does_sentence_describe_call(call.sentence)


@register.simple_tag
def render_call_origin(row: PendingCallRow, session_word: str) -> SafeString:
    """Render the tool, the agent and the session of a row of the queue as links, after the word for a session."""
    agent_link = '<a href="{}" aria-label="{}"><bdi>{}</bdi></a> · '
    return build_html(
        '<a class="mono" href="{}" aria-label="{}"><bdi>{}</bdi></a> · {}'
        '{} <a class="mono" href="{}" title="{}"><bdi>{}</bdi></a>',
        row.tool.address,
        row.tool.label,
        row.tool.name,
        build_html(agent_link, row.agent.address, row.agent.label, row.agent.name) if row.agent else "",
        session_word,
        row.session_address,
        row.session_id,
        row.session_id,
    )


@register.simple_tag(takes_context=True)
def count_calls_reader_may_decide(context: Context, membership: Membership | None) -> BoundedCount | None:
    """Count the calls that the reader may decide now; None for readers without a workspace. An auditor's are all.

    A view that has counted them already gives the number as `waiting_calls`.
    """
    counted: BoundedCount | None = context.get("waiting_calls")
    return (
        counted if counted is not None or membership is None else count_calls_for_reader_and_for_others(membership).own
    )


@register.simple_tag(name="favicon")
def get_favicon_url(waiting: BoundedCount | None) -> str:
    """Return the address of the tab's icon, which shows how many calls wait."""
    if not waiting:
        return get_static_url("icons/favicon.svg")
    return get_static_url(f"icons/favicon-{waiting.number if waiting.number < 10 else 'many'}.svg")


register.filter("is_amount_in_sentence", is_amount_in_sentence)
register.filter("unusual_risk", find_unusual_risk)
register.filter("explained_risk", explain_declared_risk)
register.filter("tool_effect", describe_tool_effect)
register.filter("tool_in_words", put_tool_in_words)
register.filter("format_date", format_date_with_weekday_and_year)
register.filter("render_call_sentence", render_sentence_with_bold_values)
register.filter("json_container", parse_json_container)
register.filter("has_clamped_value", has_clamped_value)
register.filter("chosen_option", find_question_choice_of_decision)
register.filter("is_reason_given", is_reason_given)
register.filter("cited_evidence", build_decision_evidence_context)
register.filter("trace_lines", list_call_history_lines)


@register.simple_tag(name="risk")
def render_risk(risk: str) -> SafeString:
    """Render a risk, a high one with a warning sign."""
    icon = render_icon("triangle-alert") if risk == Risk.HIGH else ""
    return build_html('<span class="risk {}">{}{}</span>', risk, icon, translate_label(Risk(risk)))


@register.filter("unbroken")
def keep_bank_account_or_day_on_one_line(text: str) -> SafeString:
    """Render a text in which a line never breaks inside an IBAN of common length, `DE89 3704 0044 0532 0130 00`, or a
    day and its time, `2026-12-01 09:00`."""
    return mark_safe(  # noqa: S308 - escaped, and the found text has letters, digits, spaces, hyphens and colons only
        _BANK_ACCOUNT_OR_DAY.sub(r'<span class="unbroken">\g<0></span>', conditional_escape(text))
    )


@register.filter("with_links_and_mentions")
def link_web_addresses_and_mark_mentions(text: str, names: Set[str]) -> SafeString:
    """Render a masked text in which web addresses are links, and mentions of people with these names are bold.

    An address of which a part is masked is no link.
    """
    pieces = _WEB_ADDRESS.split(text)
    return format_html_join(
        "",
        "{}",
        (
            (_render_web_link(piece) if number % 2 else _mark_mentions(piece, names),)
            for number, piece in enumerate(pieces)
        ),
    )


def _mark_mentions(text: str, names: Set[str]) -> SafeString:
    unknown = list_unknown_mentions(text, names)
    return format_html_join(
        "",
        "{}",
        (
            (build_html("<b>{}</b>", piece) if number % 2 and piece not in unknown else piece,)
            for number, piece in enumerate(MENTION.split(text))
        ),
    )


def _render_web_link(address: str) -> str:
    if MASK in address or not mask_safe_link_or_return_empty(address):
        return address
    return build_html('<a href="{0}" rel="noopener noreferrer nofollow" target="_blank">{0}</a>', address)


@register.filter("describe_comments")
def describe_comments_on_call(comments: Sequence[Comment]) -> str:
    """Describe how many comments a call has, and who wrote the last one."""
    return describe_comments(CommentCount(len(comments), comments[-1].author) if comments else None)


@register.simple_tag(name="deadline_chip")
def render_deadline_chip(deadline: datetime) -> SafeString:
    """Render the time left as a chip that is louder the less there is; the page keeps it up to date."""
    return format_html(
        '<span class="deadline {}">{}</span>',
        get_deadline_css_class(deadline, clock.now()),
        render_relative_deadline(deadline),
    )


def get_deadline_css_class(deadline: datetime, now: datetime) -> str:
    """Return the style class of a deadline: overdue, urgent, soon, today, or later."""
    left = deadline - now
    return next((name for longest, name in _URGENCY if left <= longest), "later")
