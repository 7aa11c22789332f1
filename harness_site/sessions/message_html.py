"""HTML of a message of a transcript. A template takes several times as long, and a page has dozens of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, lru_cache
from itertools import groupby
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.template.loader import get_template
from django.urls import get_script_prefix, get_urlconf, reverse
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from checkpoints.formats.parse_message_parts import OtherPart, Part, TextPart
from checkpoints.formats.token_counts import TokenCounts, parse_token_counts
from checkpoints.formats.tool_definition_name import get_name_of_tool_definition_or_empty
from harness_site.core.formatting import convert_to_zone, format_duration
from harness_site.core.rendering.fast_format_html import build_html, join_html
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.sessions import (
    json_and_text_excerpts,
    message_role_labels,
    money_and_count_formatting,
    program_tags_in_messages,
)
from harness_site.sessions.previewed_text_and_json_html import render_foldable_message_text
from harness_site.sessions.selectors.conversation_window import CallCard, MessageEntry
from harness_site.templatetags.harness_tags import render_button_copying_text_at_url, render_time

_MESSAGE: Final = """
<article class="msg {role_kind}" id="m-{position}"{data_whole}{focus}>
  <aside>
    <b>{role}</b>
    {time}
    {marks}
    {answer_time}
  </aside>
  <div class="parts">
    {parts}
  </div>
  {tokens}
</article>
"""
#: A browser scrolls to the message that gets the focus, unless the address has a fragment.
_FOCUS: Final = SafeString(' tabindex="-1" autofocus')
_MARKS: Final = (
    '<span class="marks">{version}<a class="permalink" href="{session_url}?v={shown_version}&amp;at={position}'
    '#m-{position}" aria-label="{link_label}">#{number}</a><span class="copy-actions">{copy_button}</span></span>'
)
_VERSION_LINK: Final = '<a class="mono" href="{}?v={}" title="{}">v{}</a>'
#: Messages among which those of the system are instructions to the model, and no summaries or notices.
_FIRST_MESSAGES: Final = 4
_OFFLINE_MARKS: Final = '<span class="marks"><a class="mono" href="#m-{}">#{}</a>{}</span>'


def render_message_html(entry: MessageEntry, variables: Mapping[str, Any]) -> SafeString:
    """Render a message with links into its session.

    Args:
        entry: The message.
        variables: The variables of the page that `sessions/parts/part.html` uses, with the key of the session and the
            version that is shown.
    """
    urlconf = get_urlconf() or settings.ROOT_URLCONF
    session_url, messages_url = _build_session_url_and_messages_prefix(
        variables["session_pk"], urlconf, get_script_prefix(), get_language()
    )
    more_url = f"{messages_url}{entry.position}/?v={variables['version_text']}"
    is_offline = bool(variables["offline"])
    defines_tools = bool(entry.parts) and all(map(_get_name_of_offered_tool_or_empty, entry.parts))
    # Some traces name the role "tool", as if a tool had answered, and Claude Code the agent's for words of a hook.
    role = "system" if defines_tools or _has_only_stored_results_given_by_hooks(entry) else entry.role
    return build_html(
        _MESSAGE,
        role_kind=message_role_labels.get_role_css_kind(role),
        position=entry.position,
        data_whole=SafeString(" data-whole") if variables["whole"] and not is_offline else "",
        focus=_FOCUS if entry.has_message_or_result_at(variables["at"]) else "",
        role=mask_and_reveal_hidden(message_role_labels.format_role_name(role)),
        time="" if variables["has_no_times"] else _render_time_and_date_if_new(entry.at, entry.previous_at),
        answer_time=""
        if variables["has_no_times"] or entry.answer_time is None
        else _render_time_taken_to_answer(entry.answer_time),
        tokens="" if is_offline else _render_tokens(entry),
        marks=_render_position_and_version_in_export(entry)
        if is_offline
        else _render_links_and_copy_button(entry, session_url, str(variables["version_text"]), more_url),
        parts=_render_parts(
            entry,
            {
                **variables,
                "session_url": session_url,
                "more_url": more_url,
                "entry": entry,
                "brief": "instructions" if _is_instruction_to_the_model(entry) else variables["brief"],
            },
        ),
    )


def _has_only_stored_results_given_by_hooks(entry: MessageEntry) -> bool:
    return bool(entry.parts) and all(
        isinstance(part, TextPart) and program_tags_in_messages.is_stored_result_given_by_hook(part.text)
        for part in entry.parts
    )


def _is_instruction_to_the_model(entry: MessageEntry) -> bool:
    """Return whether a message is one of the system that begins a transcript, of which a reader knows the rest."""
    return message_role_labels.get_role_css_kind(entry.role) == "system" and entry.position < _FIRST_MESSAGES


def _render_time_and_date_if_new(moment: datetime, previous: datetime | None) -> SafeString:
    """Render the time of a message, with its date only if it is not today, nor the date of the message before."""
    if previous is None:
        return render_time(moment)
    zone = timezone.get_current_timezone()
    is_new_date = convert_to_zone(moment, zone).date() != convert_to_zone(previous, zone).date()
    return render_time(moment, beside=None if is_new_date else moment)


def _render_tokens(entry: MessageEntry) -> SafeString:
    """Render the tokens of the request of a message, else those of the version that it ends; empty if unknown."""
    if entry.usage:
        return build_html('<p class="tokens">{}</p>', _render_token_counts(parse_token_counts(entry.usage)))
    if entry.version_tokens is None:
        return SafeString("")
    label = _("Tokens of version %(number)s:") % {"number": entry.version}
    if entry.version_tokens == TokenCounts():
        title = _("The agent’s totals went down in this version, so what it used is unknown.")
        return build_html('<p class="tokens">{} <span title="{}">–</span></p>', label, title)
    return build_html('<p class="tokens">{} {}</p>', label, _render_token_counts(entry.version_tokens))


def _render_token_counts(tokens: TokenCounts) -> SafeString:
    """Format tokens by kind, or their total if no kind is known."""
    counts = (
        (_("in %(count)s"), tokens.input),
        (_("out %(count)s"), tokens.output),
        (_("from cache %(count)s"), tokens.cache_read),
        (_("to cache %(count)s"), tokens.cache_write),
    )
    if not any(count for _words, count in counts):
        return build_html("{}", money_and_count_formatting.format_count(tokens.total or 0))
    lines = ((words % {"count": money_and_count_formatting.format_count(count)},) for words, count in counts if count)
    return join_html(" · ", "{}", lines)


def _render_time_taken_to_answer(span: timedelta) -> SafeString:
    """Render how long after the message before a message came; empty for less than a second."""
    if span < timedelta(seconds=1):
        return SafeString("")
    title = _("Time since the message before")
    words = _("after %(duration)s") % {"duration": format_duration(span.total_seconds())}
    return build_html('<span class="took" title="{}">{}</span>', title, words)


def _render_links_and_copy_button(
    entry: MessageEntry, session_url: str, shown_version: str, more_url: str
) -> SafeString:
    labels = _translate_message_link_and_copy_labels(get_language())
    title = labels.version % {"number": entry.version}
    position = {"number": entry.position + 1}
    return build_html(
        _MARKS,
        version=build_html(_VERSION_LINK, session_url, entry.version, title, entry.version) if entry.version else "",
        session_url=session_url,
        shown_version=shown_version,
        position=entry.position,
        number=entry.position + 1,
        link_label=labels.link % position,
        copy_button=render_button_copying_text_at_url(f"{more_url}&as=text", labels.copy % position),
    )


class _MarkLabels(NamedTuple):
    version: str
    link: str
    copy: str


@cache
def _translate_message_link_and_copy_labels(_language: str | None) -> _MarkLabels:
    """Translate the labels to the current language, which is the key of the cache."""
    return _MarkLabels(
        _("Show the session as of version %(number)s"), _("Link to message %(number)s"), _("Copy message %(number)s")
    )


def _render_position_and_version_in_export(entry: MessageEntry) -> SafeString:
    version = build_html(" v{}", entry.version) if entry.version else ""
    return build_html(_OFFLINE_MARKS, entry.position, entry.position + 1, version)


def _render_parts(entry: MessageEntry, variables: Mapping[str, Any]) -> SafeString:
    if not entry.parts:
        return build_html('<p class="muted small">{}</p>', _("The message is empty."))
    html = "".join(
        _render_offered_tools(list(parts), variables)
        if defines_tools
        else "".join(_render_part(part, variables) for part in parts)
        for defines_tools, parts in groupby(entry.parts, lambda part: bool(_get_name_of_offered_tool_or_empty(part)))
    )
    return mark_safe(html)  # noqa: S308 - each part is safe


def _get_name_of_offered_tool_or_empty(part: Part | CallCard) -> str:
    """Return the name of the tool that a part of a message defines for the model; empty if it defines none."""
    return get_name_of_tool_definition_or_empty(part.value) if isinstance(part, OtherPart) else ""


def _render_offered_tools(parts: Sequence[Part | CallCard], variables: Mapping[str, Any]) -> str:
    names = list(map(_get_name_of_offered_tool_or_empty, parts))
    context = {**variables, "definitions": parts, "names": names}
    return get_template("sessions/parts/offered_tools.html").render(context)


def _render_part(part: Part | CallCard, variables: Mapping[str, Any]) -> SafeString:
    if isinstance(part, TextPart) and (value := json_and_text_excerpts.parse_json_container(part.text)) is not None:
        part = OtherPart(value)
    elif isinstance(part, TextPart) and not program_tags_in_messages.has_program_written_text(part.text):
        return render_foldable_message_text(part.text, variables["more_url"], variables["whole"], variables["brief"])
    html = get_template("sessions/parts/part.html").render({**variables, "part": part})
    return mark_safe(html)  # noqa: S308 - a template's


@lru_cache(maxsize=64)
def _build_session_url_and_messages_prefix(
    session_pk: int, urlconf: str, _prefix: str, _language: str | None
) -> tuple[str, str]:
    """Return the URL of a session and the URL prefix of its messages, cached because each reverse lookup takes a
    while."""
    messages = reverse("harness_sessions:session-message", urlconf, args=[session_pk, 0]).removesuffix("0/")
    return reverse("harness_sessions:session", urlconf, args=[session_pk]), messages
